"""A request has one deadline and one bound of bytes, whatever a server sends, however often it is asked."""

from __future__ import annotations

import json
from functools import partial
from http.client import HTTPConnection, HTTPMessage
from io import BytesIO
from itertools import count
from socket import gaierror
from threading import Event
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from archive.base.errors import ArchiveError
from archive.base.json_text import parsed_json
from archive.io.patience import SECONDS, SLOWEST
from archive.store.client import connection
from archive.store.client.connection import BESIDE_BODIES, Connection, RequestBudget, _Redirections
from archive.store.client.server import Server
from tests.support.cost import peak_below
from tests.support.servers import Said, flooding, saying

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

MOST = 1_000
"""Bytes of the bodies that are asked for here."""
BUFFERS = 8 << 20
"""Bytes that a system takes for a client that does not read them."""


class Clock:
    """A clock that stands still but where a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all requests; a client that waits moves it."""
    made = Clock()
    monkeypatch.setattr(connection, "RequestBudget", partial(RequestBudget, clock=made))
    monkeypatch.setattr("time.sleep", made.pass_)
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path_factory.mktemp("cache")))


REDIRECTED = b"HTTP/1.1 302 Found\r\nLocation: /more%d\r\nContent-Length: 9999999999\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 9999999999\r\n\r\n", b"x" * 65_536),
        (
            b"HTTP/1.1 302 Found\r\nLocation: /\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"ffff\r\n" + b"x" * 65_535 + b"\r\n",
        ),
        (b"HTTP/1.1 404 No\r\nContent-Length: 9999999999\r\n\r\n", b"x" * 65_536),
        (HEAD + b"Content-Length: 9999999999\r\n\r\n", b"x" * 65_536),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65_536),
        (HEAD, b"X: y\r\n" * 10_000),
        (HEAD, (b"X: " + b"y" * 60_000 + b"\r\n")),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000),
        (b"", b"x" * 65_536),
    ],
    ids=[
        *("redirection", "chunked redirection", "refusal", "body", "small chunks", "size of a chunk"),
        *("many headers", "long headers", "100 Continue", "no HTTP"),
    ],
)
def test_a_flood_is_not_read(head: bytes, piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    most = 64 << 20
    with flooding(head, piece, most) as (url, sent), peak_below(16 << 20), pytest.raises(ArchiveError):
        Connection(url).ask("/", most=MOST)
    assert 0 < len(sent) <= 4 * 10
    assert max(sent) <= BUFFERS < most


def test_small_chunks_do_not_make_a_large_body_of_a_small_one() -> None:
    """Of a body that may be long, too: what is beside it is bounded by what is in it."""
    chunks = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    told = pytest.raises(ArchiveError, match=f"sent more than {BESIDE_BODIES:,} bytes besides the body")
    with flooding(chunks, b"1\r\nx\r\n" * 10_000, 64 << 20) as (url, sent), told:
        Connection(url).ask("/", most=64 << 20)
    assert max(sent) <= BUFFERS


def test_redirections_share_one_deadline(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SECONDS", 2.0)
    numbers = count(1)

    def answer(_: str, __: BaseHTTPRequestHandler) -> Said:
        clock.pass_(0.9)
        return Said(302, headers=(("Location", f"/{next(numbers)}"),))

    with saying(answer) as url, pytest.raises(ArchiveError, match="no answer in 2 s"):
        Connection(url).ask("/", most=MOST)
    assert next(numbers) <= 4


def test_tries_share_one_deadline(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SECONDS", 25.0)
    asked = []

    def answer(path: str, _: BaseHTTPRequestHandler) -> Said:
        asked.append(path)
        return Said(503, headers=(("Retry-After", "999"),))

    with saying(answer) as url, pytest.raises(ArchiveError, match="no answer in 25 s"):
        Connection(url).ask("/", most=MOST)
    assert len(asked) == 3
    assert clock.now == 20


def test_bytes_that_come_give_a_request_more_time_but_never_more_than_it_had() -> None:
    clock = Clock()
    budget = RequestBudget(60.0, clock)
    for _ in range(100):
        clock.pass_(10)
        budget.take(10 * SLOWEST)
        budget.give(10 * SLOWEST)  # to the room for what is no body
    clock.pass_(59)
    assert not budget.is_spent
    budget.prolong(1 << 30)
    clock.pass_(61)
    with pytest.raises(ArchiveError, match="no answer in 60 s, or less than 8 KiB a second"):
        _ = budget.silence


def test_a_body_is_sent_for_as_long_as_it_moves(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    send = HTTPConnection.send

    def slowly(self: HTTPConnection, data: bytes) -> None:
        clock.pass_(len(data) / SLOWEST)
        send(self, data)

    monkeypatch.setattr(HTTPConnection, "send", slowly)
    with saying(lambda *_: Said(200, b"taken")) as url:
        assert Connection(url).ask("/", most=MOST, body=bytes(1 << 20)).data == b"taken"
    assert clock.now > 2 * SECONDS


@pytest.mark.parametrize("silence", [0.1, 9.0])
def test_a_search_for_an_address_shares_the_deadline(silence: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's search may last for minutes; here it lasts until the request has ended."""
    ended = Event()

    def search(*_: object, **__: object) -> list[object]:
        ended.wait(60)
        raise AssertionError

    monkeypatch.setattr("socket.getaddrinfo", search)
    monkeypatch.setattr("archive.store.client.connection.SECONDS_OF_SILENCE", silence)
    monkeypatch.setattr(connection, "SECONDS", 0.5)
    with pytest.raises(ArchiveError, match=r"no answer in 0\.5 s"):
        Connection("http://models.example").ask("/", most=MOST)
    assert not ended.is_set()
    ended.set()


def test_a_name_without_an_address_is_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object, **__: object) -> list[object]:
        raise gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", search)
    with pytest.raises(ArchiveError, match=r"cannot be reached: .*Name or service not known"):
        Connection("http://models.example").ask("/", most=MOST)
    assert clock.now == 3  # after each of three tries, a second


def test_redirections_that_turn_in_a_circle_end() -> None:
    asked = []

    def answer(path: str, _: BaseHTTPRequestHandler) -> Said:
        asked.append(path)
        return Said(302, headers=(("Location", "/"),))

    with saying(answer) as url, pytest.raises(ArchiveError, match="302: "):
        Connection(url).ask("/", most=MOST)
    assert len(asked) <= 11


def test_a_redirection_is_followed_to_its_answer() -> None:
    def answer(path: str, _: BaseHTTPRequestHandler) -> Said:
        return Said(200, b"here") if path == "/there" else Said(307, b"x" * 9, (("Location", "/there"),))

    with saying(answer) as url:
        assert Connection(url).ask("/", most=MOST).data == b"here"


def redirected(source: str, target: str) -> Request | None:
    request = Request(source, headers={"Authorization": "Bearer secret", "Accept": "x"})  # noqa: S310 (not opened)
    return _Redirections().redirect_request(request, BytesIO(), 302, "Found", HTTPMessage(), target)


def test_a_token_follows_no_redirection() -> None:
    for target in ("https://a/other", "https://b/"):
        followed = redirected("https://a/", target)
        assert followed is not None
        assert followed.header_items() == [("Accept", "x")]


def test_no_redirection_leads_out_of_tls() -> None:
    with pytest.raises(HTTPError, match="from https to http is not allowed"):
        redirected("https://a/", "http://a/")
    assert redirected("http://a/", "https://a/") is not None


def test_a_list_costs_memory_in_proportion_to_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each ``{}`` became an object, a list took 24 times its bytes."""
    most = 200_000
    monkeypatch.setattr("archive.store.client.server.MOST_VALUES", most)
    page = b'{"companions": [' + b"{}," * most + b"{}]}"
    told = pytest.raises(ArchiveError, match=f"JSON of more than {most:,} values and commas")
    with saying(lambda _, __: Said(200, page)) as url, peak_below(6 * len(page)), told:
        Server(url).entries()


@pytest.mark.parametrize(
    "data",
    [b"[" * 99, b'{"":' * 99, b"{}," * 99, b'"",' * 99, b"1," * 99, b'["\\\\",' * 99, b'"' + b'"' * 99],
    ids=range(7),
)
def test_values_are_counted_before_they_are_made(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="JSON of more than 40 values and commas"):
        parsed_json(data, 40)


def test_what_stands_in_a_string_is_no_value() -> None:
    text = '[{,"\\' * 1_000
    assert parsed_json(f'{{"log": {json.dumps(text)}}}'.encode(), 10) == {"log": text}
