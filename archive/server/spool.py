"""Bodies and answers on the disk, within bounds of size and time.

Workers read and write them there, and no pipe carries a log. The next server removes the folder of a server
that was killed: it has no lock.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.requests import ClientDisconnect

from archive.server.problems import HttpProblem, Reason, busy
from archive.server.settings import SECONDS_OF_REST, SECONDS_OF_SILENCE

try:
    import fcntl
except ImportError:  # Windows, where no open file can be removed
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from starlette.requests import Request

    from archive.server.settings import Settings

PREFIX = "debug-archive-serve-"
LOCK, NEW_LOCK = "spool.lock", "spool.lock.new"
"""A store has a `lock`, too, and may have a name like a spool's."""
CLOSE = {"Connection": "close"}
FULL = "the server holds as many bytes of other requests as it may; try again"


class Spool:
    """A folder of bodies and answers, of ``room`` bytes in all."""

    def __init__(self, room: int) -> None:
        # Nobody holds the lock of a server that was killed.
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            # An error says that it is another user's, or that its server lives.
            with suppress(OSError), (folder / LOCK).open("r+b") as lock:
                if fcntl is not None:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = (self._folder / NEW_LOCK).open("wb")
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self._folder / NEW_LOCK).rename(self._folder / LOCK)  # which nobody has seen unlocked
        self._room = room
        self.held = 0

    @contextmanager
    def file(self) -> Iterator[SpoolFile]:
        """A file for the time of the block."""
        file = SpoolFile(self, self._folder / uuid4().hex)
        try:
            yield file
        finally:
            file.remove()

    def take(self, count: int) -> None:
        """Count bytes in."""
        if self.held + count > self._room:
            raise busy(Reason.SPOOL, FULL)
        self.held += count

    def close(self) -> None:
        """Remove the folder."""
        self._lock.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class SpoolFile:
    """A body or an answer; ``size`` is what is counted of it."""

    def __init__(self, spool: Spool, path: Path) -> None:
        self._spool = spool
        self.path = path
        self.size = 0

    def write(self, out: BinaryIO, data: bytes) -> None:
        """Append bytes."""
        self.count(len(data))
        out.write(data)

    def count(self, size: int) -> None:
        """Count bytes that stand in the file."""
        self._spool.take(size)
        self.size += size

    def remove(self) -> None:
        """Remove the file."""
        self._spool.held -= self.size
        self.size = 0
        self.path.unlink(missing_ok=True)


# --- bodies


async def receive(request: Request, file: SpoolFile, settings: Settings) -> None:
    """Write the body of a request to a file."""
    too_long = HttpProblem(
        413, f"a body may have {settings.body:,} bytes; send the log in parts, or packed by gzip"
    )
    now = asyncio.get_running_loop().time
    end = now() + settings.seconds
    try:
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > settings.body:
            raise too_long
        async with asyncio.timeout_at(min(end, now() + SECONDS_OF_SILENCE)) as due:
            with file.path.open("wb") as out:
                async for piece in request.stream():
                    due.reschedule(min(end, now() + SECONDS_OF_SILENCE))
                    if file.size + len(piece) > settings.body:
                        raise too_long
                    file.write(out, piece)
    except TimeoutError:
        arrived = f"the body did not arrive in {settings.seconds:g} s"
        why = f"{arrived}, or nothing of it for {SECONDS_OF_SILENCE:g} s"
        raise HttpProblem(408, why, CLOSE) from None
    except HttpProblem as problem:
        if "expect" not in request.headers:  # else the client asks first, and sends nothing
            await _drop_rest(request)
        problem.headers.update(CLOSE)
        raise


async def _drop_rest(request: Request) -> None:
    """Read what is still arriving, for a moment."""
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: its stream is read already
        async with asyncio.timeout(SECONDS_OF_REST):
            while (message := await request.receive())["type"] == "http.request":
                if not message.get("more_body"):
                    return
