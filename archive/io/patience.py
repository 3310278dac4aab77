"""How long a request to a remote place may take: the bound on silence, and on slowness.

A request has a minute, for all tries that its file system makes. Each 8 KiB received give it another second,
up to a minute from then. So a silent server is given up after a minute, and one that drips soon after; over a
line of 64 kbit/s, a file of any size can be read. Uploads report no progress, so an upload gets the time for
all its bytes at once.

If fsspec is configured to wait longer for one try, that time replaces the minute. File systems that are not
asynchronous (SFTP, SMB) only have the bounds of their libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from archive.base.deadline import check_time, seconds_left
from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterable, Awaitable, Callable

    T = TypeVar("T")

SECONDS = 60.0
"""Seconds that a request may be silent."""
SLOWEST = 1 << 13
"""Bytes a second: with fewer, a place is too slow."""
LONGER = {
    "s3": """FSSPEC_S3='{"config_kwargs": {"read_timeout": 600}}'""",
    "http": "FSSPEC_HTTP_TIMEOUT=600",
}
"""How to wait longer, by the first scheme of a file system."""


class SilentError(Exception):
    """A request took too long."""


def prolonged(left: float, count: int, most: float) -> float:
    """The seconds that a request has left, with those for bytes received or sent."""
    return min(left + count / SLOWEST, most)


def too_slow(seconds: float) -> str:
    """What errors say of a request that took too long."""
    return f"no answer in {round(seconds, 1):,g} s, or less than {SLOWEST >> 10} KiB a second"


class Patience:
    """The time of one request; ``moved`` counts bytes that nobody reports by :meth:`give`."""

    def __init__(self, fs: Any, moved: int = 0) -> None:  # noqa: ANN401 (fsspec has no types)
        self._fs = fs
        self._seconds = max([SECONDS, *_configured(fs)]) + moved / SLOWEST
        self._end: asyncio.Timeout

    def run(self, work: Callable[..., Awaitable[T]], *arguments: object, **named: object) -> T:
        """The result of work in the file system's loop.

        Raises:
            SilentError: it takes too long.
            LateError: the deadline of the work has passed.
        """
        from fsspec.asyn import sync  # noqa: PLC0415 (an optional package, for URLs only)

        result: T = sync(self._fs.loop, self._bounded, work, *arguments, **named)
        return result

    async def _bounded(self, work: Callable[..., Awaitable[T]], *arguments: object, **named: object) -> T:
        from asyncio import timeout  # noqa: PLC0415 (costs start-up, and few read remote files)

        try:
            async with timeout(seconds_left(self._seconds)) as self._end:
                return await work(*arguments, **named)
        except TimeoutError:
            if not self._end.expired():  # one of the library's own
                raise
            check_time()
            raise SilentError(self._problem()) from None

    def _problem(self) -> str:
        protocol = self._fs.protocol
        longer = LONGER.get(protocol if isinstance(protocol, str) else protocol[0])
        problem = too_slow(self._seconds)
        return f"{problem}; {longer} waits longer" if longer else problem

    async def gathered(self, pieces: AsyncIterable[bytes], most: int, name: str) -> bytes:
        """The pieces of an answer, each of which gives more time."""
        whole, size = [], 0
        async for piece in pieces:
            whole.append(piece)
            size += len(piece)
            if size > most:
                raise ArchiveError("the server sends more bytes than it says", file=name)
            self.give(len(piece))
        return b"".join(whole)

    def give(self, size: int) -> None:
        """Give the request time for bytes that were received."""
        from asyncio import get_running_loop  # noqa: PLC0415 (the same)

        now = get_running_loop().time()
        left = (self._end.when() or now) - now
        self._end.reschedule(now + seconds_left(prolonged(left, size, self._seconds)))


def _configured(fs: Any) -> list[float]:  # noqa: ANN401 (of fsspec)
    """The seconds that one try may take, if fsspec is configured with such a time."""
    options = fs.storage_options
    timeouts = (
        options.get("timeout"),
        (options.get("client_kwargs") or {}).get("timeout"),
        (options.get("config_kwargs") or {}).get("read_timeout"),
    )
    seconds = (getattr(timeout, "total", timeout) for timeout in timeouts)  # aiohttp's, or a number
    return [float(number) for number in seconds if isinstance(number, (int, float))]
