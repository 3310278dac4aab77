"""The server for people: plain forms in, pages out, each with its policy; what strangers send stays text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from archive.render.store import day_of
from archive.server.forms import FormError, fields_of
from archive.server.html import LINKS, headers_of
from archive.store.store import Store
from tests.page.browser import data_of
from tests.page.test_failures import HIDDEN, HOSTILE
from tests.support.commands import run
from tests.support.servers import FILES, Reply, Running, store_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FLEET = Path("fixtures/fleet")
LOG = (FLEET / "unique.log").read_bytes()
MODEL = min(Path("fixtures").rglob("*.ptl"))
PAGES = ("/", "/report", "/models", "/docs")
BOUNDARY = "----tests"
MULTIPART = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
URLENCODED = {"Content-Type": "application/x-www-form-urlencoded"}


def form(fields: Mapping[str, bytes], files: Mapping[str, tuple[str, bytes]]) -> bytes:
    """A form as a browser sends it."""
    parts = [f'name="{name}"\r\n\r\n'.encode() + value for name, value in fields.items()]
    parts += [
        f'name="{name}"; filename="{file}"\r\nContent-Type: text/plain\r\n\r\n'.encode() + value
        for name, (file, value) in files.items()
    ]
    limit = f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode()
    return b"".join(limit + part + b"\r\n" for part in parts) + f"--{BOUNDARY}--\r\n".encode()


def dropped(server: Running, log: bytes, name: str = "app.log", **fields: bytes) -> Reply:
    """The answer to a log that is dropped on the field of files."""
    body = form({"log": b"", **fields}, {"file": (name, log)})
    return server.ask("POST", "/", body, MULTIPART)


def check_headers(reply: Reply) -> None:
    """No page is shown in another, tells where its reader was, or loads anything."""
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("; frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["cache-control"] == "no-store"


def check_frame(reply: Reply, at: str, server: Running) -> None:
    """Every page names the product and its store, marks itself in the navigation, and asks for one thing."""
    text = reply.data.decode()
    name = Path(server.store).name
    assert f'<nav class="site" aria-label="Pages"><a href="/">debug-archive</a><span>{name}</span>' in text
    assert re.search(rf"<title>[^<]+: {name}, debug-archive</title>", text)
    assert re.findall(r'<a href="(\S+)" aria-current="page">', text) == [at]
    assert text.count("<h1>") == 1
    assert text.count('<button class="primary">') == text.count("<button") == (at != "/docs")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_the_same_frame(server: Running, path: str) -> None:
    check_frame(server.ask("GET", path), path, server)


def test_the_example_is_a_failure_that_the_store_explains(server: Running, tmp_path: Path) -> None:
    """One click fills it in, another one explains it; a store without handles offers none."""
    assert b'href="/?example=1"' in server.ask("GET", "/").data
    text = server.ask("GET", "/?example=1").data.decode()
    found = re.search(r"(?s)<textarea[^>]*>\n(.*?)</textarea>", text)
    assert found
    data = data_of(dropped(server, unescape(found[1]).encode()).data)
    causes = data["failures"]["causes"]
    assert causes["count"] == [1]
    assert data["failures"]["unexplained"] == 0
    assert "an example, which did not happen" in found[1]
    assert "<--- HERE" in causes["excerpt"][0]

    with Running(store_of(tmp_path / "store", []), "--workers", 1) as running:
        assert b"example" not in running.ask("GET", "/").data.partition(b"<main")[2]
        text = running.ask("GET", "/?example=1").data.decode()
        assert "No model of this store has a failure that could be an example." in text


def test_neither_of_two_logs_is_dropped(server: Running) -> None:
    """A pasted log and a chosen file: which one is meant, only the sender knows."""
    body = form({"log": b"another log"}, {"file": ("app.log", LOG)})
    reply = server.ask("POST", "/", body, MULTIPART)
    assert (reply.status, reply.data.count(b'role="alert"')) == (422, 1)
    assert b"the form has two logs, a pasted one and app.log: send one at a time" in reply.data
    check_frame(reply, "/", server)


def routes_of(server: Running) -> list[tuple[str, str, list[str]]]:
    """Every request that the server takes: its method, an address, and the names of its parameters."""
    schema = json.loads(server.ask("GET", "/openapi.json").data)
    described = [
        (
            method.upper(),
            path.replace("{id}", "00"),
            [one["name"] for one in about.get("parameters", []) if one["in"] == "query"],
        )
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
    ]
    names = {"/": ["example"], "/models": ["name"]}
    pages = [("GET", path, names.get(path, [])) for path in (*PAGES, "/openapi.json")]
    return [*described, *pages, ("POST", "/", []), ("POST", "/report", [])]


def test_no_parameter_is_ignored(server: Running) -> None:
    """A law over all routes: unknown ones are refused with those that there are, as are those given twice."""
    for method, path, names in routes_of(server):
        reply = server.ask(method, f"{path}?{'&'.join([*(f'{name}=1' for name in names), 'modle=x'])}", b"")
        assert reply.status == 422, (method, path)
        why = json.loads(reply.data)["detail"]
        there = f"available: {', '.join(names)}" if names else "this address has none"
        assert why == f"unknown parameter 'modle'; {there}", (method, path)
        for name in names:
            reply = server.ask(method, f"{path}?{name}=1&{name}=2", b"")
            assert json.loads(reply.data)["detail"] == f"the parameter {name} is given 2 times"


def test_a_wrong_method_is_answered_with_the_right_ones(server: Running) -> None:
    """A law over all addresses, also those whose methods are routes of their own."""
    taken: dict[str, list[str]] = {}
    for method, path, _ in routes_of(server):
        taken.setdefault(path, []).append(method)
    for path, methods in taken.items():
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - {*methods}:
            reply = server.ask(method, path)
            assert reply.status == 405
            allowed = reply.headers["allow"].split(", ")
            assert {*allowed} - {"HEAD"} == {*methods}
            assert f"{path!r} takes {allowed[0]}" in json.loads(reply.data)["detail"]
            assert f"not {method!r}" in json.loads(reply.data)["detail"]


@pytest.mark.parametrize("path", PAGES)
def test_pages_have_no_script_and_load_nothing(server: Running, path: str) -> None:
    reply = server.ask("GET", path)
    assert reply.status == 200
    check_headers(reply)
    assert not re.search(rb"<script|<link|<img|\ssrc=|\son\w+=|https?://", reply.data)
    (style,) = re.findall(rb"<style>(.*?)</style>", reply.data, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in reply.headers["content-security-policy"]


def test_a_dropped_log_is_answered_with_the_page_of_the_command(server: Running, tmp_path: Path) -> None:
    reply = dropped(server, LOG)
    assert reply.status == 200
    check_headers(reply)
    (tmp_path / "app.log").write_bytes(LOG)
    out = tmp_path / "failures.html"
    run("symbolicate", "--store", server.store, "--log", tmp_path / "app.log", "--html", out)
    (top,) = re.findall(rb'<nav class="site".*?</nav>', reply.data)
    assert top in server.ask("GET", "/").data  # the way to the other pages
    assert reply.data.replace(top, b"") == out.read_bytes()
    assert dropped(server, LOG).data == reply.data
    assert dropped(server, gzip.compress(LOG)).data == reply.data


@pytest.mark.parametrize("kind", ["multipart", "urlencoded"])
def test_a_pasted_log_needs_no_script(server: Running, kind: str) -> None:
    typed = LOG.replace(b"\n", b"\r\n")  # as a browser sends lines
    if kind == "multipart":
        reply = server.ask("POST", "/", form({"log": typed}, {"file": ("", b"")}), MULTIPART)
    else:
        reply = server.ask("POST", "/", b"log=" + quote(typed, safe="").encode(), URLENCODED)
    data = data_of(reply.data)
    assert sum(data["failures"]["causes"]["count"]) == 200
    assert data["failures"]["log"] == "the pasted log"


def test_source_is_shown_as_asked(server: Running) -> None:
    assert data_of(dropped(server, LOG, source=b"none").data)["failures"]["source"] == "none"
    assert dropped(server, LOG, source=b"all").status == 422


def test_a_model_is_answered_with_its_report(server: Running, tmp_path: Path) -> None:
    body = form({}, {"model": (f"C:\\models\\{MODEL.name}", MODEL.read_bytes())})
    reply = server.ask("POST", "/report", body, MULTIPART)
    assert reply.status == 200
    check_headers(reply)
    out = tmp_path / "report.html"
    run("report", MODEL, "-o", out)
    (top,) = re.findall(rb'<nav class="site".*?</nav>', reply.data)
    assert top in server.ask("GET", "/report").data
    assert reply.data.replace(top, b"") == out.read_bytes()
    assert server.number("debug_archive_spool_bytes") == 0


def test_the_store_is_a_table(server: Running) -> None:
    text = server.ask("GET", "/models").data.decode()
    assert all(f'<td data-title="File">{file.name}</td>' in text for file in FILES)
    for part in ("Rank", "ranker"):
        text = server.ask("GET", f"/models?name={part}").data.decode()
        assert [file.name for file in FILES if file.name in text] == ["Ranker.ptdbg"]


def test_models_stand_by_their_files_with_releases_and_days(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Store.open(folder, create=True) as store:
        for name, file, label in (
            ("b.ptl", FILES[1], "1.4.2"),
            ("A.ptl", FILES[0], ""),
            ("a10.ptl", FILES[2], "2.0"),
            ("b.ptl", FILES[1], "1.4.3"),
        ):
            store.add(file, name=name, label=label)
        kept = {entry.file: entry for entry in store.entries()}
    with Running(folder, "--workers", 1) as running:
        text = running.ask("GET", "/models").data.decode()
        one = running.ask("GET", "/models?name=1.4.3").data.decode()
        none = running.ask("GET", "/models?name=none").data.decode()
        request = json.dumps({"log": LOG.decode()}).encode()
        answer = running.ask("POST", "/v1/symbolicate", request, {"Content-Type": "application/json"})
        handles = json.dumps({"handles": [kept["b.ptl"].facts.handles[0][0]], "archive": kept["b.ptl"].key})
        looked = running.ask(
            "POST", "/v1/symbolicate", handles.encode(), {"Content-Type": "application/json"}
        )
    rows = re.findall(
        r'<tr><td data-title="File">(.*?)</td><td data-title="Labels">(.*?)</td>'
        r'<td class="unbroken" data-title="Added"><time datetime="(.*?)">(.*?)</time></td>.*?'
        r'<td class="figure" data-title="Bytes of debug info">(.*?)</td></tr>',
        text,
    )
    day = day_of(kept["b.ptl"].added)
    releases = {"a10.ptl": "2.0", "A.ptl": "", "b.ptl": "1.4.2, 1.4.3"}
    assert rows == [
        (name, releases[name], day, day, f"{kept[name].size:,}") for name in ("A.ptl", "a10.ptl", "b.ptl")
    ]
    assert '<th scope="col" class="figure">Bytes of debug info</th>' in text
    assert "<p>1 of 3 models</p>" in one
    assert "No models: no file, class or label has &#x27;none&#x27; in its name." in none
    title = f"b@{kept['b.ptl'].key[:12]} (1.4.2, 1.4.3)"
    assert title in {name for cause in json.loads(answer.data)["causes"] for name in cause["models"]}
    assert json.loads(looked.data)["model"] == title


def test_a_day_that_no_calendar_has_is_the_last_one() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of((1 << 63) - 1) == "9999-12-31"


def test_every_parameter_field_and_answer_is_described(server: Running) -> None:
    """A law over all routes: what programs may send, and what they get, in words."""
    schema = json.loads(server.ask("GET", "/openapi.json").data)
    text = unescape(re.sub(r"<[^>]*>", "", server.ask("GET", "/docs").data.decode()))

    def check(described: dict[str, Any], what: str) -> None:
        words = described.get("description", "")
        assert re.fullmatch(r"(?s)\S.*[.?]\s*", words), what
        assert " ".join(words.replace("`", "").split()) in " ".join(text.split()), what

    check(schema["info"], "info")
    count = 0
    for path, methods in schema["paths"].items():
        assert set(re.findall(r"{(\w+)}", path)) <= {
            one["name"]
            for about in methods.values()
            for one in about.get("parameters", [])
            if one["in"] == "path"
        }
        for method, about in methods.items():
            check(about, f"{method} {path}")
            assert about["summary"] in text
            for parameter in about.get("parameters", []):
                check(parameter, f"{method} {path}: {parameter['name']}")
                count += 1
            for content in about.get("requestBody", {}).get("content", {}).values():
                for form in content["schema"].get("anyOf", [content["schema"]]):
                    check(form, f"{method} {path}: body")
                    for name, facts in form.get("properties", {}).items():
                        check(facts, f"{method} {path}: {name}")
                        count += 1
            for status, answer in about["responses"].items():
                check(answer, f"{method} {path}: {status}")
                # Every refusal is a problem; the framework's own form of them is nobody's.
                is_problem = "application/problem+json" in answer.get("content", {})
                assert is_problem == (int(status) >= 400 and status != "416"), (path, status)
                for name, facts in answer.get("headers", {}).items():
                    check(facts, f"{method} {path}: {name}")
    assert count > 20
    assert "HTTPValidationError" not in str(schema)
    for scheme in schema["components"]["securitySchemes"].values():
        check(scheme, "security")


def test_every_request_of_programs_is_described(server: Running) -> None:
    text = server.ask("GET", "/docs").data.decode()
    for path in ("POST /v1/symbolicate", "PUT /v1/companions", "GET /v1/companions/{id}", "GET /metrics"):
        assert f"<h2><code>{path}</code></h2>" in text
    assert "<code>debug-archive symbolicate STORE</code>" in text
    assert "`" not in text.partition("</style>")[2]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", URLENCODED, 422),
        (b"log=", URLENCODED, 422),
        (LOG, {"Content-Type": "text/plain"}, 400),
        (b"log=x&" * 17, URLENCODED, 400),
        (form({"log": LOG}, {})[:-8], MULTIPART, 400),
        (form({f"f{n}": b"" for n in range(17)}, {}), MULTIPART, 400),
        (form({"log": LOG}, {}), {"Content-Type": "multipart/form-data"}, 400),
        (form({}, {"file": ("a.gz", b"\x1f\x8b\x08broken")}), MULTIPART, 400),
        (form({}, {"file": ("a.gz", gzip.compress(bytes(1 << 27)))}), MULTIPART, 413),
        (b"x" * ((16 << 20) + 1), URLENCODED, 413),
    ],
)
def test_a_refusal_is_a_page_of_one_sentence(
    server: Running, body: bytes, headers: dict[str, str], status: int
) -> None:
    reply = server.ask("POST", "/", body, headers)
    assert reply.status == status
    check_headers(reply)
    check_frame(reply, "/", server)
    assert reply.data.count(b'role="alert"') == 1


def test_a_model_that_is_none_is_refused(server: Running) -> None:
    for body in (form({}, {}), form({"model": b""}, {}), form({}, {"model": ("a.pt", b"no model")})):
        reply = server.ask("POST", "/report", body, MULTIPART)
        assert reply.status in {400, 422}
        assert b'role="alert"' in reply.data
    reply = server.ask("POST", "/report", form({}, {"model": ("a.pt", b"")}), MULTIPART)
    assert b"a.pt is empty" in reply.data


@pytest.mark.parametrize("log", [LOG, LOG.replace(b"\n", b"\r\n"), b'{"message": "failed"}\n'])
def test_what_is_for_the_other_form_is_sent_there(server: Running, log: bytes) -> None:
    reply = dropped(server, MODEL.read_bytes(), MODEL.name)
    assert (reply.status, reply.data.count(b'role="alert"')) == (422, 1)
    check_frame(reply, "/", server)
    words = f"{MODEL.name} isn&#x27;t a log, but a lite archive: &quot;Report on a model&quot; takes models"
    assert words in reply.data.decode()
    reply = server.ask("POST", "/report", form({}, {"model": ("app.log", log)}), MULTIPART)
    assert (reply.status, reply.data.count(b'role="alert"')) == (422, 1)
    check_frame(reply, "/report", server)
    words = "app.log isn&#x27;t a model, but a text: &quot;Explain a log&quot; takes logs"
    assert words in reply.data.decode()


@pytest.mark.parametrize(
    ("method", "path", "status", "why"),
    [
        ("GET", "/nowhere/<b>", 404, "nothing is at &#x27;/nowhere/&lt;b&gt;&#x27;; /docs has all addresses"),
        (
            "PUT",
            "/models",
            405,
            "&#x27;/models&#x27; takes GET, HEAD, not &#x27;PUT&#x27;; /docs has all requests",
        ),
        ("GET", f"/models?name={'x' * 5_000}", 422, "query.name: "),
        (
            "GET",
            "/models?modle=a",
            422,
            "unknown parameter &#x27;modle&#x27;; available: name",
        ),
        ("GET", "/v1/companions/00", 404, "00"),
    ],
)
def test_a_browser_gets_a_page_of_a_refusal_and_a_program_json(
    server: Running, method: str, path: str, status: int, why: str
) -> None:
    reply = server.ask(method, path, None, {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert reply.status == status
    check_headers(reply)
    text = reply.data.decode()
    assert re.findall(r'role="alert">(.*?)</p>', text)[0].startswith(why) or why in text
    assert [address for address, _ in LINKS if f'<li><a href="{address}">' not in text] == []
    for headers in ({}, {"Accept": "*/*"}):
        reply = server.ask(method, path, None, headers)
        assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")


def test_too_many_at_once_are_asked_to_come_again(strict: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: dropped(strict, LOG), range(8)))
    refused = [reply for reply in replies if reply.status == 503]
    assert 0 < len(refused) < len(replies)
    assert {reply.headers["retry-after"] for reply in refused} == {"2"}


def test_names_and_lines_of_strangers_stay_texts(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", [])
    with Store.open(store) as opened:
        for number, (file, text) in enumerate(zip(FILES, HOSTILE, strict=False)):
            named = tmp_path / f"{number}{text.decode().replace('/', '_')}.ptdbg"
            named.write_bytes(file.read_bytes())
            opened.add(named)
    with Running(store, "--workers", 1) as running:
        models = running.ask("GET", "/models?name=" + quote('"><script>')).data
        assert b"<script" not in models
        models = running.ask("GET", "/models").data
        assert b"<script" not in models
        assert b"&lt;script&gt;" in models
        assert not HIDDEN.search(models)
        for text in HOSTILE:
            name = text.decode().replace('"', "")
            page = dropped(running, text + b"\n" + LOG, name).data
            assert page.count(b"<script") == 2
            refused = dropped(running, b"", name)
            assert b"<script" not in refused.data


def test_the_access_log_has_a_line_a_request_and_nothing_of_a_log(tmp_path: Path) -> None:
    access = tmp_path / "access.log"
    store = store_of(tmp_path / "store")
    with Running(store, "--workers", 1, "--access-log", access) as running:
        dropped(running, b"secret line\n" + LOG)
        running.ask("GET", "/models?name=secret")
        running.ask("GET", "/%0Aforged%20line")
    lines = access.read_text("utf-8").splitlines()
    words = [re.sub(r"^\S+ \S+ |\d+ ms \d+ bytes$", "", line) for line in lines]
    assert words == ["POST / 200 ", "GET /models 200 ", "GET /%0Aforged%20line 404 "]
    assert "secret" not in access.read_text("utf-8")


def test_fields_are_read_as_they_were_written() -> None:
    content = form({"a": b"1\r\n2"}, {"f": ("../x/y.log", b"\r\n--no\r\n")})
    fields = fields_of(content, MULTIPART["Content-Type"], ("a", "f"))
    assert (fields["a"].value, fields["f"].value, fields["f"].file) == (b"1\n2", b"\r\n--no\r\n", "y.log")
    fields = fields_of(b"a=1%0D%0A2+3&b", URLENCODED["Content-Type"], ("a", "b"))
    assert (fields["a"].value, fields["b"].value) == (b"1\n2 3", b"")


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"{}", "application/json", "a form is wanted"),
        (form({"a": b"1"}, {})[:-8], MULTIPART["Content-Type"], "does not end"),
        (form({"a": b"1"}, {}).replace(b"name=", b"called="), MULTIPART["Content-Type"], "has no name"),
        (form({"a" * 4096: b"1"}, {}), MULTIPART["Content-Type"], "no end of its headers within 4,096"),
        (form({"b": b"1"}, {}), MULTIPART["Content-Type"], "unknown field 'b'; available: a"),
        (form({"a": b"1"}, {"a": ("a.log", b"2")}), MULTIPART["Content-Type"], "is given twice"),
        (b"a=1&a=2", URLENCODED["Content-Type"], "is given twice"),
    ],
)
def test_what_is_no_form_is_told(body: bytes, content_type: str, why: str) -> None:
    with pytest.raises(FormError, match=why):
        fields_of(body, content_type, ("a",))


def test_a_page_is_not_given_out_without_its_policy(server: Running) -> None:
    page = dropped(server, LOG).data
    assert "script-src" in headers_of(page)["Content-Security-Policy"]
    with pytest.raises(ValueError, match="without a policy"):
        headers_of(page.replace(b"Content-Security-Policy", b"refresh"))
