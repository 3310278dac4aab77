"""What a request may cost: slow, long, hostile and too many ones, and clients that leave."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from archive.base.errors import ExhaustedError
from archive.server.settings import MOST_OF_A_CLIENT
from archive.server.work import _refused
from tests.support.processes import PATIENCE, becomes

if TYPE_CHECKING:
    from tests.support.servers import Running

PATH = "/v1/symbolicate"
LOG = b"x" * 999 + b"\n"
LOG *= 3_000
CHOKING = f"{PATH}?id=(a%7Ca)*%24", b"a" * 100 + b"b\n"
"""A pattern and a line that take longer than this server's patience."""


def connected(server: Running, sent: bytes, room: int = 1 << 16) -> socket.socket:
    """A connection on which something is sent, and that takes little before it is read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    client.settimeout(PATIENCE)
    client.connect(("127.0.0.1", server.port))
    client.sendall(sent)
    return client


def heading(length: int) -> bytes:
    fields = ("Host: localhost", "Connection: close", f"Content-Length: {length}")
    return "\r\n".join((f"POST {PATH} HTTP/1.1", *fields, "", "")).encode()


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    data = b""
    while piece := client.recv(1 << 16):
        data += piece
    return data


def check_works(server: Running) -> None:
    """The next request is answered, if need be once another worker is ready."""
    line = b"all is well\n"
    assert becomes(lambda: server.ask("POST", PATH, line)[::2] == (200, line))


def test_work_that_takes_too_long_is_ended_and_the_next_is_done(strict: Running) -> None:
    (before,) = strict.workers
    reply = strict.ask("POST", *CHOKING)
    assert reply.status == 504
    assert json.loads(reply.data)["detail"] == (
        "the work took more than 1 s and was ended; send the log in parts"
    )
    check_works(strict)
    assert before not in strict.workers


def test_clients_that_dawdle_are_left(strict: Running) -> None:
    """With the headers, with the body, with nothing at all, or with reading."""
    line = b"x" * 999 + b"\n"
    with (
        connected(strict, heading(100)[:-2]) as headers,
        connected(strict, heading(100) + b"half") as body,
        connected(strict, b"") as silent,
        connected(strict, heading(100).replace(PATH.encode(), b"/none")) as refused,
        connected(strict, heading(len(line) * 7_000) + line * 7_000, room=4096) as deaf,
    ):
        assert received(headers) == b""
        assert received(silent) == b""
        assert received(refused).startswith(b"HTTP/1.1 404 ")
        answer = received(body)
        assert becomes(lambda: strict.number("debug_archive_spool_bytes") == 0)
        with suppress(ConnectionResetError):
            assert len(received(deaf)) < len(line) * 7_000
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive in 1 s" in answer
    check_works(strict)
    assert strict.number("debug_archive_spool_bytes") == 0


def test_half_a_body_costs_nothing(strict: Running) -> None:
    for sent in (heading(100), heading(100) + b"half", b"POST", b"\x16\x03\x01 TLS", b"\r\n" * 9):
        connected(strict, sent).close()
    check_works(strict)
    assert strict.number("debug_archive_spool_bytes") == 0


def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes(strict: Running) -> None:
    with connected(
        strict, heading(1 << 40).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    ) as client:
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"a body may have 16,777,216 bytes; send the log in parts, or packed by gzip" in answer


def test_a_body_without_length_is_refused_when_it_is_too_long(strict: Running) -> None:
    piece = b"100000\r\n" + b"x\n" * (1 << 19) + b"\r\n"
    head = heading(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with connected(strict, head + piece * 17 + b"0\r\n\r\n") as client:
        assert received(client).startswith(b"HTTP/1.1 413 ")


def test_a_body_of_single_bytes_is_refused_at_its_beginning(strict: Running) -> None:
    """Four of them stopped a server, for each byte costs it as much as a KB."""
    head = heading(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with connected(strict, head + b"1\r\nx\r\n" * 1_000) as client:
        assert received(client).startswith(b"HTTP/1.1 400 ")
    check_works(strict)
    assert strict.number("debug_archive_spool_bytes") == 0


def test_no_client_has_all_connections(server: Running) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_OF_A_CLIENT):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        with socket.create_connection(("127.0.0.1", server.port)) as one_more:
            one_more.settimeout(PATIENCE)
            assert one_more.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        other = socket.create_connection(("127.0.0.1", server.port), source_address=("127.0.0.2", 0))
        with other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert received(other).startswith(b"HTTP/1.1 200 ")
    assert becomes(lambda: _status(server) == 200)


def _status(server: Running) -> int:
    """The status of the next request; 503 where the connection is not taken."""
    try:
        return server.ask("GET", "/healthz").status
    except OSError:
        return 503


def test_too_many_requests_are_asked_to_come_again(strict: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: strict.ask("POST", PATH, LOG), range(8)))
    refused = [reply for reply in replies if reply.status == 503]
    assert 0 < len(refused) < len(replies)
    assert {reply.headers["retry-after"] for reply in refused} == {"2"}
    check_works(strict)


def test_the_memory_of_a_worker_is_bounded() -> None:
    code = "from archive.server.workers import _bound_memory; _bound_memory(1 << 30); bytearray(1 << 30)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stderr.endswith(b"MemoryError\n")
    for error in (MemoryError(), ExhaustedError.of(MemoryError())):
        assert _refused(error).status == 413


def test_work_whose_client_has_left_is_ended(strict: Running) -> None:
    check_works(strict)
    name = 'debug_archive_workers_killed_total{reason="left"}'
    before = strict.number(name)
    path, line = CHOKING
    head = heading(len(line)).replace(PATH.encode(), path.encode())
    connected(strict, head + line).close()
    assert becomes(lambda: strict.number(name) == before + 1)
    check_works(strict)
