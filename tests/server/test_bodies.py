"""Bodies that are small to send and large to read: crumbs, silence, and packed zeros."""

from __future__ import annotations

import asyncio
import gzip
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import LimitError
from archive.failures.log import recoding
from archive.server import work
from archive.server.problems import HttpProblem
from archive.server.serving import CountedConnection
from archive.server.settings import BYTES_OF_A_PIECE, INFLATED_A_BYTE, LEAST_INFLATED, LEAST_PIECES, Settings
from archive.server.spool import Spool, receive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def pieces_of(sizes: list[int]) -> tuple[int, bool]:
    """How many pieces of a body are taken, and whether all are."""
    connection, taken = CountedConnection(h11.SERVER), 0
    for sent in (HEAD, *(b"%x\r\n%b\r\n" % (size, b"x" * size) for size in sizes)):
        connection.receive_data(sent)
        try:
            while (event := connection.next_event()) is not h11.NEED_DATA:
                taken += isinstance(event, h11.Data)
        except h11.RemoteProtocolError:
            return taken, False
    return taken, True


@given(st.lists(st.integers(1, 2 * BYTES_OF_A_PIECE), max_size=40), st.integers(1, 20))
def test_pieces_are_bounded_by_their_bytes(sizes: list[int], times: int) -> None:
    taken, whole = pieces_of(sizes * times)
    assert taken <= LEAST_PIECES + sum((sizes * times)[:taken]) // BYTES_OF_A_PIECE
    assert whole or taken >= LEAST_PIECES


def test_a_body_in_usual_chunks_is_taken() -> None:
    assert pieces_of([BYTES_OF_A_PIECE] * 2_000) == (2_000, True)
    assert pieces_of([1] * LEAST_PIECES) == (LEAST_PIECES, True)
    assert pieces_of([1] * 10_000) == (LEAST_PIECES + LEAST_PIECES // BYTES_OF_A_PIECE, False)


class Silent:
    """A request whose body begins, and then never goes on."""

    headers: dict[str, str] = {"expect": "100-continue"}  # noqa: RUF012 (no rest is waited for)

    async def stream(self) -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.Event().wait()


def test_a_body_that_falls_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it may take as a whole: an hour here."""
    monkeypatch.setattr("archive.server.spool.SECONDS_OF_SILENCE", 0.05)
    spool = Spool(1 << 20)
    with spool.file() as file, pytest.raises(HttpProblem, match=r"nothing of it for 0\.05 s"):
        asyncio.run(receive(cast("Request", Silent()), file, Settings(store="", seconds=3_600)))
    assert spool.held == 0
    spool.close()


@pytest.mark.parametrize("packed", [gzip.compress(bytes(32 << 20)), gzip.compress(b"\n" * (32 << 20))])
def test_a_packed_log_is_refused_before_a_line_of_it_is_read(
    packed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_worker", SimpleNamespace(most=128 << 20), raising=False)
    (tmp_path / "body").write_bytes(packed)
    read = work._text(tmp_path / "body")
    with pytest.raises(LimitError) as told:
        next(read)
    most = LEAST_INFLATED + INFLATED_A_BYTE * len(packed)
    assert told.value.actual <= most + recoding.PIECE


def test_a_packed_log_of_like_failures_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_worker", SimpleNamespace(most=128 << 20), raising=False)
    lines = "".join(
        f"2026-01-02 03:04:{at % 60:02} handle(s): debug_handles:{{{at}}}\n" for at in range(40_000)
    )
    (tmp_path / "body").write_bytes(gzip.compress(lines.encode(), 9))
    assert b"".join(work._text(tmp_path / "body")) == lines.encode()
