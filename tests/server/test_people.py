"""The server for people: plain forms in, pages out, each with its policy; what strangers send stays text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from archive.server.forms import FormError, fields_of
from archive.server.html import headers_of
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
    assert reply.data == out.read_bytes()
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
    assert data_of(reply.data) == data_of(out.read_bytes())
    assert server.number("debug_archive_spool_bytes") == 0


def test_the_store_is_a_table(server: Running) -> None:
    text = server.ask("GET", "/models").data.decode()
    assert all(f"<td>{file.name}</td>" in text for file in FILES)
    for part in ("Rank", "ranker"):
        text = server.ask("GET", f"/models?name={part}").data.decode()
        assert [file.name for file in FILES if file.name in text] == ["Ranker.ptdbg"]


def test_every_request_of_programs_is_described(server: Running) -> None:
    text = server.ask("GET", "/docs").data.decode()
    for path in ("POST /v1/symbolicate", "PUT /v1/companions", "GET /v1/companions/{id}", "GET /metrics"):
        assert f"<code>{path}</code>" in text


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
    assert reply.data.count(b'role="alert"') == 1


def test_a_model_that_is_none_is_refused(server: Running) -> None:
    for body in (form({}, {}), form({"model": b""}, {}), form({}, {"model": ("a.pt", b"no model")})):
        reply = server.ask("POST", "/report", body, MULTIPART)
        assert reply.status in {400, 422}
        assert b'role="alert"' in reply.data
    reply = server.ask("POST", "/report", form({}, {"model": ("a.pt", b"")}), MULTIPART)
    assert b"a.pt is empty" in reply.data


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
    fields = fields_of(content, MULTIPART["Content-Type"])
    assert (fields["a"].value, fields["f"].value, fields["f"].file) == (b"1\n2", b"\r\n--no\r\n", "y.log")
    fields = fields_of(b"a=1%0D%0A2+3&b", URLENCODED["Content-Type"])
    assert (fields["a"].value, fields["b"].value) == (b"1\n2 3", b"")


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"{}", "application/json", "a form is wanted"),
        (form({"a": b"1"}, {})[:-8], MULTIPART["Content-Type"], "does not end"),
        (form({"a": b"1"}, {}).replace(b"name=", b"called="), MULTIPART["Content-Type"], "has no name"),
        (form({"a" * 4096: b"1"}, {}), MULTIPART["Content-Type"], "no end of its headers within 4,096"),
    ],
)
def test_what_is_no_form_is_told(body: bytes, content_type: str, why: str) -> None:
    with pytest.raises(FormError, match=why):
        fields_of(body, content_type)


def test_a_page_is_not_given_out_without_its_policy(server: Running) -> None:
    page = dropped(server, LOG).data
    assert "script-src" in headers_of(page)["Content-Security-Policy"]
    with pytest.raises(ValueError, match="without a policy"):
        headers_of(page.replace(b"Content-Security-Policy", b"refresh"))
