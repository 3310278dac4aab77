"""``/v1/companions``: listed, given out by ids and in parts, and added with a token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.server.companions import part_of
from archive.store.bucket import Bucket
from archive.store.client import TOKEN_VARIABLE
from archive.store.client.server import Server
from archive.store.store import Store
from tests.failures.models.test_three_models import FLEET
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.kin import id_of, kin
from tests.support.object_store import BUCKET, s3
from tests.support.servers import FILES, TOKEN, Running

if TYPE_CHECKING:
    from pathlib import Path


PATH = "/v1/companions"
DATA = (FLEET / "Ranker.ptdbg").read_bytes()
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def listed(server: Running, query: str = "") -> dict[str, Any]:
    found = json.loads(server.ask("GET", f"{PATH}{query}").data)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def path(server: Running) -> str:
    """The path of a companion."""
    (ranker,) = listed(server, "?name=Ranker")["companions"]
    return f"{PATH}/{ranker['archive_id']}"


def test_companions_are_listed_in_pages(server: Running) -> None:
    every = listed(server, "?facts=true")
    assert (every["total"], every["next"], len(every["companions"])) == (3, None, 3)
    ids = [one["archive_id"] for one in every["companions"]]
    assert ids == sorted(ids)
    first = listed(server, "?limit=2")
    assert first["next"] == ids[1]
    assert [one["archive_id"] for one in listed(server, f"?after={ids[1]}")["companions"]] == ids[2:]
    one = every["companions"][0]
    assert one["handles"] == [[0, one["handles"][0][1]]]
    assert (one["file"], one["code"][0]) == (f"{one['top']}.ptdbg", f"code/__torch__/{one['top'].lower()}.py")
    assert "code" not in first["companions"][0]
    assert listed(server, f"?prefix={one['prefix']}")["companions"][0]["archive_id"] == one["archive_id"]
    assert listed(server, "?name=nothing") == {"companions": [], "total": 0, "next": None}
    assert server.ask("GET", f"{PATH}?limit=0").status == 422


def test_a_list_that_has_not_changed_is_not_sent_again(server: Running) -> None:
    first = server.ask("GET", PATH)
    again = server.ask("GET", PATH, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.data) == (304, b"")


def test_a_companion_is_given_by_its_id_and_by_what_means_it_alone(path: str, server: Running) -> None:
    (ranker,) = listed(server, "?name=Ranker")["companions"]
    for word in (ranker["archive_id"], ranker["archive_id"][:8], ranker["prefix"], "Ranker.ptdbg"):
        reply = server.ask("GET", f"{PATH}/{word}")
        assert (reply.status, reply.data) == (200, DATA)
        assert reply.headers["debug-archive-id"] == ranker["archive_id"]
    head = server.ask("HEAD", path)
    assert (head.status, head.data) == (200, b"")
    whole = server.ask("GET", path)
    for name in ("content-length", "etag", "accept-ranges", "content-type"):
        assert head.headers[name] == whole.headers[name]
    for word in ("0" * 32, "..%2f..%2fetc", "%00", "x" * 5000):
        assert server.ask("GET", f"{PATH}/{word}").status == 404


def test_a_part_is_given_unless_the_companion_is_another_one_now(path: str, server: Running) -> None:
    tag = server.ask("HEAD", path).headers["etag"]
    for headers in ({}, {"If-Range": tag}):
        part = server.ask("GET", path, headers={"Range": "bytes=100-199", **headers})
        assert (part.status, part.data) == (206, DATA[100:200])
        assert part.headers["content-range"] == f"bytes 100-199/{len(DATA)}"
    for other in ('"other"', f"W/{tag}", "Sun, 22 Nov 2026 11:56:37 GMT"):
        whole = server.ask("GET", path, headers={"Range": "bytes=100-199", "If-Range": other})
        assert (whole.status, whole.data) == (200, DATA)
    none = server.ask("GET", path, headers={"Range": f"bytes={len(DATA)}-"})
    assert (none.status, none.headers["content-range"]) == (416, f"bytes */{len(DATA)}")


def test_a_companion_that_the_client_has_is_not_sent(path: str, server: Running) -> None:
    tag = server.ask("HEAD", path).headers["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        for method in ("GET", "HEAD"):
            reply = server.ask(method, path, headers={"If-None-Match": known})
            assert (reply.status, reply.data, reply.headers["etag"]) == (304, b"", tag)
    assert server.ask("GET", path, headers={"If-None-Match": '"other"'}).status == 200


@given(st.integers(0, 20), st.integers(0, 25), st.integers(0, 25))
def test_ranges_are_slices(size: int, first: int, last: int) -> None:
    data = bytes(range(size))

    def part(asked: str) -> bytes | None:
        found = part_of(asked, size)
        return None if found is None else data[found.start : found.stop]

    assert part(f"bytes={first}-") == data[first:]
    assert part(f"bytes=-{last}") == (data[-last:] if last else b"")
    assert part(f"bytes={first}-{last}") == (None if last < first else data[first : last + 1])


@pytest.mark.parametrize(
    "asked", ["", "bytes=-", "bytes=a-b", "lines=0-1", "bytes=0-1,3-4", f"bytes={'9' * 40}-"]
)
def test_what_is_no_single_range_is_as_if_it_was_not_asked(asked: str) -> None:
    assert part_of(asked, 10) is None


def test_nobody_adds_to_a_server_without_a_token(server: Running) -> None:
    reply = server.ask("PUT", PATH, DATA, BEARER)
    assert reply.status == 403
    assert b"--token-file" in reply.data


def test_nobody_adds_without_the_token(strict: Running) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
    ):
        reply = strict.ask("PUT", PATH, DATA, headers)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert listed(strict)["total"] == 0


def test_who_has_the_token_adds_companions_which_explain_at_once(strict: Running) -> None:
    log = b"".join((FLEET / "unique.log").read_bytes().splitlines(keepends=True)[:100])
    before = strict.ask("POST", "/v1/symbolicate", log)
    assert (before.data, before.headers["debug-archive-explained"]) == (log, "0")
    for file in FILES:
        for outcome, status in (("added", 201), ("same", 200)):
            reply = strict.ask("PUT", f"{PATH}?name={file.name}", file.read_bytes(), BEARER)
            facts = json.loads(reply.data)
            assert (reply.status, facts["outcome"], facts["file"]) == (status, outcome, file.name)
    after = strict.ask("POST", "/v1/symbolicate", log)
    assert after.headers["debug-archive-explained"] == "20"


def test_an_id_that_is_taken_is_refused_with_the_way_out(strict: Running, tmp_path: Path) -> None:
    stack = ORACLES / "plain_stack.ptl"
    for salt, status in (("", 201), ("2", 409)):
        companion = tmp_path / f"stack{salt}.ptdbg"
        archive.split(stack, tmp_path / f"left{salt}.ptl", companion, salt=salt)
        reply = strict.ask("PUT", PATH, companion.read_bytes(), BEARER)
        assert reply.status == status
    assert b"is kept already with other debug info" in reply.data


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"", 400, "an empty file"),
        (b"no companion", 400, "a text file"),
        (DATA[:-40], 400, ""),
        (DATA[:1000] + bytes([DATA[1000] ^ 1]) + DATA[1001:], 400, ""),
    ],
    ids=["empty", "other", "cut", "changed"],
)
def test_what_is_no_companion_is_refused(body: bytes, status: int, why: str, strict: Running) -> None:
    total = listed(strict)["total"]
    reply = strict.ask("PUT", PATH, body, BEARER)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")
    assert why in reply.data.decode()
    assert listed(strict)["total"] == total


def test_a_companion_that_another_process_adds_or_removes_is_noticed(strict: Running) -> None:
    with Store.open(strict.store) as store:
        kept = store.add(ORACLES / "plain_unicode.ptl", replace=True).entry
        total = listed(strict)["total"]
        assert strict.ask("HEAD", f"{PATH}/{kept.archive_id}").status == 200
        models = "debug-archive-models"
        assert strict.ask("POST", "/v1/symbolicate", b"x").headers[models] == str(total)
        store.remove(kept.archive_id)
    assert listed(strict)["total"] == total - 1
    assert strict.ask("HEAD", f"{PATH}/{kept.archive_id}").status == 404
    assert strict.ask("POST", "/v1/symbolicate", b"x").headers[models] == str(total - 1)


def test_a_bucket_is_served_with_all_builds_of_an_archive_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    with s3():
        with Bucket.open(f"{BUCKET}/symbols", create=True) as bucket:
            builds = [bucket.add(kin(1, line=line), name="one").entry for line in (10, 11)]
            for file in FILES:
                bucket.add(file)
        (tmp_path / "token").write_text(TOKEN)
        options = ("--token-file", tmp_path / "token", "--workers", 1)
        with Running(bucket.file, *options) as running:
            page = listed(running, "?limit=1")
            assert {one["digest"] for one in page["companions"]} == {build.digest for build in builds}
            assert (page["total"], page["next"]) == (5, id_of(1))
            assert running.ask("GET", f"{PATH}/{id_of(1)}").status == 409
            client = Server(running.url)
            for build in builds:
                (entry,) = (one for one in client.entries() if one.digest == build.digest)
                assert client.companion_of(entry) == bucket.given_of(build).data
                client.opened_of(entry).close()
            log = (FLEET / "unique.log").read_bytes()
            text = running.ask("POST", "/v1/symbolicate", log, {"Content-Type": "text/plain"})
            assert text.data == run("symbolicate", FLEET, stdin=log).stdout
            assert client.add(ORACLES / "plain_stack.ptl").outcome == "added"
            assert len(Bucket.open(bucket.file).entries()) == 6
