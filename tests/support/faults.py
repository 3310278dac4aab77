"""Writing that goes wrong: a disk that is full, calls that fail, a process that is killed in the middle."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

from archive.verbs.shrink import restore, shrink
from archive.verbs.split import join, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import ReadableBuffer

BUFFER = 2500
"""Bytes that are held back; few, so that files grow in several steps."""
CALLS = ("fsync", "replace")


class Verb(NamedTuple):
    """What writes files in a folder.

    Attributes:
        run: takes the folder, and whether files are replaced.
        targets: the names of what it writes.
    """

    run: Callable[[Path, bool], object]
    targets: tuple[str, ...]


VERBS = {
    "split": Verb(
        lambda at, force: split(at / "whole.ptl", at / "out.ptl", at / "m.ptdbg", force=force),
        ("out.ptl", "m.ptdbg"),
    ),
    "split in place": Verb(
        lambda at, _: split(at / "whole.ptl", at / "whole.ptl", at / "m.ptdbg", force=True),
        ("whole.ptl", "m.ptdbg"),
    ),
    "join": Verb(
        lambda at, force: join(at / "left.ptl", at / "left.ptdbg", at / "joined.ptl", force=force),
        ("joined.ptl",),
    ),
    "embed": Verb(
        lambda at, force: shrink(at / "whole.ptl", at / "small.ptl", level="embed", force=force),
        ("small.ptl",),
    ),
    "compact in place": Verb(
        lambda at, _: shrink(at / "whole.ptl", at / "whole.ptl", level="compact", force=True),
        ("whole.ptl",),
    ),
    "restore": Verb(
        lambda at, force: restore(at / "embedded.ptl", at / "joined.ptl", force=force), ("joined.ptl",)
    ),
}


class Disk(io.FileIO):
    """A file on a disk with little space: it takes what fits, and then nothing more."""

    left = 0

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)[: Disk.left]
        if not view:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Disk.left -= len(view)
        return super().write(view) or 0


@contextlib.contextmanager
def full_disk(space: int) -> Iterator[None]:
    """Let so many bytes be written to files in all."""
    Disk.left = space
    with mock.patch("os.fdopen", lambda handle, _: io.BufferedRandom(Disk(handle, "r+"))):
        yield


@contextlib.contextmanager
def failing(call: str, number: int) -> Iterator[None]:
    """Let one of the calls of a function of ``os`` fail, counted from 0."""
    real, left = getattr(os, call), [number]

    def fails(*arguments: object, **options: object) -> object:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)

    with mock.patch(f"os.{call}", fails):
        yield


class Mortal(io.FileIO):
    """A file whose process dies before or behind one of all changes to files."""

    left = 0

    @staticmethod
    def step() -> None:
        Mortal.left -= 1
        if Mortal.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, data: ReadableBuffer, /) -> int:
        Mortal.step()
        return super().write(data) or 0


@contextlib.contextmanager
def dying(step: int) -> Iterator[None]:
    """Kill this process before a change to a file, counted from 0."""
    Mortal.left = step

    def fatal(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            Mortal.step()
            return real(*arguments, **options)

        return call

    with contextlib.ExitStack() as patches:
        opened = mock.patch("os.fdopen", lambda handle, _: io.BufferedRandom(Mortal(handle, "r+"), BUFFER))
        patches.enter_context(opened)
        for call in (*CALLS, "chmod", "unlink"):
            patches.enter_context(mock.patch(f"os.{call}", fatal(getattr(os, call))))
        yield


def contents(folder: Path) -> dict[str, str]:
    """The digest of each file, by name."""
    return {path.name: sha256(path.read_bytes()).hexdigest()[:16] for path in sorted(folder.iterdir())}


def deaths(verb: str, folder: Path, *, force: bool) -> Iterator[dict[str, str]]:
    """What is in a folder after each death that a verb can die, and at last after it has ended well.

    The folder is as it was before each of them.
    """
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status = -1
    step = 0
    while status:
        for path in folder.iterdir():
            path.unlink()
        for path, data in before.items():
            path.write_bytes(data)
        child = os.fork()
        if not child:
            with dying(step):
                VERBS[verb].run(folder, force)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL)
        yield contents(folder)
        step += 1


if __name__ == "__main__":  # for each verb: its name, a folder, and whether to replace files
    ways = zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True)
    found = [list(deaths(verb, Path(at), force=replacing == "force")) for verb, at, replacing in ways]
    json.dump(found, sys.stdout)
