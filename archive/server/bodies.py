"""Bodies of requests, read within bounds of size and time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from archive.server.problems import Problem
from archive.server.settings import SECONDS_OF_SILENCE

if TYPE_CHECKING:
    from starlette.requests import Request

    from archive.server.settings import Settings
    from archive.server.spool import SpoolFile

SECONDS_OF_REST = 1.0
"""Seconds in which the rest of a refused body is read, so that its sender reads the refusal."""
CLOSE = {"Connection": "close"}


async def receive(request: Request, file: SpoolFile, settings: Settings) -> None:
    """Write the body of a request to a file.

    Raises:
        Problem: it is too long, or arrives too slowly, or there is no room for it.
        ClientDisconnect: the client left before its end.
        OSError: the disk is full.
    """
    try:
        _check_length(request.headers.get("content-length"), settings.body)
        await _copy(request, file, settings)
    except TimeoutError:
        arrived = f"the body did not arrive in {settings.seconds:g} s"
        why = f"{arrived}, or nothing of it for {SECONDS_OF_SILENCE:g} s"
        raise Problem(408, why, CLOSE) from None
    except Problem as problem:
        if "expect" not in request.headers:  # else the client asks first, and sends nothing
            await _drop_rest(request)
        problem.headers.update(CLOSE)
        raise


async def _copy(request: Request, file: SpoolFile, settings: Settings) -> None:
    """Write a body to a file as it arrives.

    Raises:
        Problem: it is too long.
        TimeoutError: it does not arrive in time.
    """
    now = asyncio.get_running_loop().time
    end = now() + settings.seconds
    async with asyncio.timeout_at(min(end, now() + SECONDS_OF_SILENCE)) as due:
        with file.path.open("wb") as out:
            async for piece in request.stream():
                due.reschedule(min(end, now() + SECONDS_OF_SILENCE))
                if file.size + len(piece) > settings.body:
                    raise _too_long(settings.body)
                file.write(out, piece)


def _check_length(declared: str | None, most: int) -> None:
    """Refuse a body that says that it is too long.

    Raises:
        Problem: it does.
    """
    if declared is not None and declared.isdecimal() and int(declared) > most:
        raise _too_long(most)


def _too_long(most: int) -> Problem:
    return Problem(413, f"a body may have {most:,} bytes; send the log in parts, or packed by gzip")


async def _drop_rest(request: Request) -> None:
    """Read what is still on its way, for a moment."""
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: its stream is read already
        async with asyncio.timeout(SECONDS_OF_REST):
            while (message := await request.receive())["type"] == "http.request":
                if not message.get("more_body"):
                    return
