"""``POST /v1/symbolicate``: what the command prints, over HTTP."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.commands import explained_by, run
from tests.support.documents import file_of

if TYPE_CHECKING:
    from tests.support.servers import Running

PATH = "/v1/symbolicate"
UNIQUE, PLAIN = ((FLEET / f"{name}.log").read_bytes() for name in ("unique", "plain"))
COUNTS = ("models", "explained", "ambiguous", "unknown")
JSON = {"Content-Type": "application/json"}
PATTERN = r"running (\w+)"


def asked(server: Running, **facts: object) -> dict[str, Any]:
    """The answer to a request in JSON."""
    reply = server.ask("POST", PATH, json.dumps(facts).encode(), JSON)
    assert reply.headers["content-type"].startswith("application/"), reply.data
    found = json.loads(reply.data)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("log", "counts"),
    [(UNIQUE, ["3", "200", "0", "0"]), (PLAIN, ["3", "149", "51", "0"])],
    ids=["unique", "plain"],
)
def test_a_log_comes_back_as_the_command_prints_it(log: bytes, counts: list[str], server: Running) -> None:
    reply = server.ask("POST", PATH, log)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert reply.data == explained_by(FLEET, log)
    assert [reply.headers[f"debug-archive-{name}"] for name in COUNTS] == counts


@pytest.mark.parametrize("headers", [{"Content-Encoding": "gzip"}, {}])
def test_a_packed_log_is_unpacked(headers: dict[str, str], server: Running) -> None:
    reply = server.ask("POST", PATH, gzip.compress(UNIQUE), headers)
    assert reply.data == explained_by(FLEET, UNIQUE)


def test_a_pattern_names_the_models(server: Running) -> None:
    log = b"".join(PLAIN.splitlines(keepends=True)[:300])
    assert server.ask("POST", PATH, log).headers["debug-archive-ambiguous"] == "17"
    reply = server.ask("POST", f"{PATH}?{urlencode({'model': PATTERN})}", log)
    assert reply.headers["debug-archive-explained"] == "60"
    assert asked(server, log=log.decode(), model=PATTERN)["explained"] == 60


def test_a_pattern_that_no_line_matches_is_not_silent(server: Running) -> None:
    idle = {"model": r"nothing (\w+)"}
    assert server.ask("POST", PATH, UNIQUE).headers["debug-archive-notes"] == "0"
    reply = server.ask("POST", f"{PATH}?{urlencode(idle)}", UNIQUE)
    assert reply.headers["debug-archive-notes"] == "1"
    why = "no line of the log has what 'nothing (\\\\w+)' looks for, so it names no model"
    assert asked(server, log=UNIQUE.decode(), **idle)["notes"] == [why]


def test_a_pattern_beside_a_body_in_json_is_not_ignored(server: Running) -> None:
    body = json.dumps({"log": ""}).encode()
    reply = server.ask("POST", f"{PATH}?{urlencode({'model': PATTERN})}", body, JSON)
    assert reply.status == 422
    why = "in JSON, `id` and `model` are fields of the body, not parameters"
    assert json.loads(reply.data)["detail"] == why


def test_json_gives_causes_counts_and_the_log(server: Running) -> None:
    log = b"".join(PLAIN.splitlines(keepends=True)[:300])
    facts = asked(server, log=log.decode(), top=2)
    expected = file_of(run("symbolicate", FLEET, "--json", "--top", 2, stdin=log).stdout)
    assert facts.pop("log") == run("symbolicate", FLEET, stdin=log).stdout.decode()
    assert facts.pop("unread") == {}
    assert expected.pop("file") == "-"
    assert "43 failures are explained because nothing contradicts it" in str(facts.pop("caveat"))
    for of_one in (facts, expected):  # the names of models differ: files here, entries of a store there
        del of_one["notes"]
        for cause in of_one["causes"]:
            del cause["models"]
    assert facts == expected


def test_unique_handles_are_looked_up(server: Running) -> None:
    digits = FAILURES[0].unique.partition("{")[2].partition("}")[0]
    for handle in (digits, int(digits)):
        facts = asked(server, handles=[handle])
        assert facts["found"]
        assert str(facts["text"]) in FAILURES[0].explained


def test_other_handles_are_looked_up_in_the_archive_that_is_named(server: Running) -> None:
    digits = FAILURES[0].unique.partition("{")[2].partition("}")[0]
    entries = json.loads(server.ask("GET", "/v1/companions").data)["companions"]
    ranker = next(one for one in entries if one["top"] == "Ranker")
    for word in (ranker["archive_id"], ranker["archive_id"][:8], str(ranker["prefix"])):
        facts = asked(server, handles=[int(digits[10:])], archive=word)
        assert (facts["archive"], facts["found"]) == (ranker["archive_id"], True)
    assert not asked(server, handles=[99_999_999], archive=ranker["archive_id"])["found"]


def test_handles_that_name_no_archive_are_refused(server: Running) -> None:
    facts = asked(server, handles=[42])
    assert (facts["status"], facts["detail"]) == (
        404,
        "no model has a handle prefix of these handles; GET /v1/companions lists all",
    )
    assert asked(server, handles=[42], archive="0" * 32)["status"] == 404


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"{", 400, "no JSON"),
        (b"[1]", 422, 'expected {"log"'),
        (b"{}", 422, "log: Field required"),
        (b'{"log": "x", "id": "("}', 400, "isn't a regular expression"),
        (b'{"log": "x", "more": 1}', 422, "more: "),
        (b'{"log": "x", "top": 0}', 422, "top: "),
        (b'{"handles": [-1]}', 422, "handles.0: "),
        (b'{"handles": []}', 422, "handles: "),
        (b'{"log": "\\ud800"}', 400, "no JSON"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"[" + b"{}," * 1_000 + b"{}]", 400, "no JSON: JSON of more than 1,000 values and commas"),
    ],
)
def test_a_request_that_is_none_is_refused_in_one_sentence(
    body: bytes, status: int, why: str, server: Running
) -> None:
    reply = server.ask("POST", PATH, body, JSON)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")
    facts = json.loads(reply.data)
    assert facts.keys() == {"type", "title", "status", "detail"}
    assert why in facts["detail"]
    assert "\n" not in facts["detail"]


def test_what_is_neither_text_nor_gzip_is_refused(server: Running) -> None:
    for headers, body, status in (
        ({"Content-Encoding": "br"}, b"x", 415),
        ({}, b"\x1f\x8bno gzip", 400),
    ):
        assert server.ask("POST", PATH, body, headers).status == status
    assert server.ask("POST", f"{PATH}?id=(", b"x").status == 400
    assert server.ask("POST", f"{PATH}?id={'x' * 2000}", b"x").status == 422


def test_a_log_without_failures_comes_back_as_it_is(server: Running) -> None:
    for log in (b"", b"a\n\xff\x00b", b"\xef\xbb\xbfx\r\n"):
        reply = server.ask("POST", PATH, log)
        assert (reply.data, reply.headers["debug-archive-explained"]) == (log, "0")


def test_bombs_are_bounded(server: Running) -> None:
    reply = server.ask("POST", PATH, gzip.compress(bytes(1 << 20)) * 150)
    assert reply.status == 413
    assert b"output is limited to " in reply.data
    assert b"send the log in parts" in reply.data


def test_the_interface_is_described(server: Running) -> None:
    paths = json.loads(server.ask("GET", "/openapi.json").data)["paths"]
    assert {path: sorted(methods) for path, methods in paths.items()} == {
        PATH: ["post"],
        "/v1/companions": ["get", "put"],
        "/v1/companions/{id}": ["get"],
        "/v1/companions/{id}/lines": ["get"],
        "/healthz": ["get"],
        "/livez": ["get"],
        "/metrics": ["get"],
    }
    assert server.ask("GET", "/docs").status == 200


def test_numbers_are_told_to_prometheus(server: Running) -> None:
    name = 'debug_archive_failures_total{outcome="ambiguous"}'
    before = server.number(name)
    server.ask("POST", PATH, PLAIN)
    assert server.number(name) == before + 51
    assert server.number('debug_archive_request_seconds_count{route="/v1/symbolicate"}') > 0
    assert json.loads(server.ask("GET", "/healthz").data) == {"status": "ok", "companions": 3}


def test_no_request_makes_new_labels(server: Running) -> None:
    for route, paths in (
        ("other", ("/a", "/b")),
        ("/v1/companions/{id}", ("/v1/companions/a", "/v1/companions/b")),
    ):
        name = f'debug_archive_requests_total{{route="{route}",status="404"}}'
        assert server.ask("GET", paths[0]).status == 404
        before = server.number(name)
        assert server.ask("GET", paths[1]).status == 404
        assert server.number(name) == before + 1


def test_foreign_hosts_are_refused(server: Running) -> None:
    """A page may lead its own name to this address, and read what the browser gets."""
    for host, status in (("evil.example", 421), ("localhost:80", 200), ("[::1]:80", 200), ("", 421)):
        assert server.ask("GET", "/healthz", headers={"Host": host}).status == status
