"""Writing that goes wrong: a disk that is full, calls that fail, a process that is killed in the middle."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import archive
from archive.base import errors
from archive.io import drafts
from archive.io.drafts import DRAFT_NAME
from tests.support.halves import embedded, halves
from tests.support.sampling import Suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from _typeshed import ReadableBuffer

BUFFER = 10_000
"""Bytes that are held back; few, so that files grow in several steps."""
CALLS = (
    *("os.open", "os.link", "os.replace", "os.unlink", "os.chmod", "os.fsync", "fcntl.flock", "shutil.copy2"),
    "archive.io.drafts._renamed",
)
"""The functions that a write calls to change files, besides ``write`` itself."""
CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
"""A file that is opened without one of these is read."""
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
SYSTEMS = ("unnamed files", "named drafts", "no links", "no links nor exclusive names", "no locks")
"""The kinds of systems and file systems.

A draft has no name, or one, or one that it can only give up for another, be it by way of an empty file; or no
lock tells that it is open (Windows).
"""
PLACEHOLDER = "no links nor exclusive names"
"""The one on which a new file is empty for a moment."""


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
        lambda at, force: archive.split(at / "whole.ptl", at / "out.ptl", at / "m.ptdbg", force=force),
        ("out.ptl", "m.ptdbg"),
    ),
    "split in place": Verb(
        lambda at, _: archive.split(at / "whole.ptl", at / "whole.ptl", at / "m.ptdbg", force=True),
        ("whole.ptl", "m.ptdbg"),
    ),
    "join": Verb(
        lambda at, force: archive.join(at / "left.ptl", at / "left.ptdbg", at / "joined.ptl", force=force),
        ("joined.ptl",),
    ),
    "embed": Verb(
        lambda at, force: archive.shrink(at / "whole.ptl", at / "small.ptl", level="embed", force=force),
        ("small.ptl",),
    ),
    "compact in place": Verb(
        lambda at, _: archive.shrink(at / "whole.ptl", at / "whole.ptl", level="compact", force=True),
        ("whole.ptl",),
    ),
    "restore": Verb(
        lambda at, force: archive.restore(at / "embedded.ptl", at / "joined.ptl", force=force),
        ("joined.ptl",),
    ),
    "convert": Verb(
        lambda at, force: archive.convert(at / "left.ptdbg", at / "fast.ptdbg", "mapped", force=force),
        ("fast.ptdbg",),
    ),
    "migrate": Verb(
        lambda at, force: archive.migrate(
            at / "whole.ptl", at / "old.ptl", to="1.9", lossy=True, force=force
        ),
        ("old.ptl",),
    ),
    "migrate back": Verb(
        lambda at, force: archive.migrate(at / "migrated.ptl", at / "back.ptl", to="original", force=force),
        ("back.ptl",),
    ),
}


def fill(folder: Path, model: Path) -> None:
    """Put the inputs of all verbs into a folder, made of one archive."""
    for name, data in _inputs(model).items():
        (folder / name).write_bytes(data)


@cache
def _inputs(model: Path) -> dict[str, bytes]:
    out, companion, _ = halves(model)
    return {
        "whole.ptl": model.read_bytes(),
        "left.ptl": out,
        "left.ptdbg": companion,
        "embedded.ptl": embedded(model)[0],
        "migrated.ptl": archive.migrate(model, to="1.9", lossy=True).data,
    }


@contextlib.contextmanager
def system(kind: str) -> Iterator[None]:
    """A file system of one of the ``SYSTEMS``."""
    with contextlib.ExitStack() as patches:
        if kind != "unnamed files":
            patches.enter_context(without(os, "O_TMPFILE"))
        if "no links" in kind:
            patches.enter_context(mock.patch("os.link", _no_link))
        if kind == PLACEHOLDER:
            patches.enter_context(mock.patch("ctypes.CDLL", return_value=object()))
        if kind == "no locks":
            patches.enter_context(mock.patch.object(drafts, "fcntl", None))
        yield


@contextlib.contextmanager
def without(module: ModuleType, name: str) -> Iterator[None]:
    """A module that lacks a name, as on another system."""
    with contextlib.ExitStack() as undone:
        if hasattr(module, name):
            undone.callback(setattr, module, name, getattr(module, name))
            delattr(module, name)
        yield


def _no_link(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@contextlib.contextmanager
def full_disk(space: int) -> Iterator[list[int]]:
    """Let so many bytes be written to files in all; the list holds the number of those that are left."""
    left, real = [space], drafts._NamingFile.write

    def write(file: drafts._NamingFile, data: ReadableBuffer, /) -> int:
        view = memoryview(data)[: left[0]]
        if not view:
            with errors.named(file._path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= len(view)
        return real(file, view)

    with mock.patch.object(drafts._NamingFile, "write", write), mock.patch.object(drafts, "BUFFER", BUFFER):
        yield left


def calls_to_strike() -> Iterator[int]:
    """The places of calls that are struck, one after the other: all, or every other one."""
    return count(0, 1 if Suite.whole else 2)


@contextlib.contextmanager
def at_call(number: int, strike: Callable[[], None]) -> Iterator[list[str]]:
    """Strike before one of the calls that change files, counted from 0; the names of all calls."""
    calls: list[str] = []

    def struck(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if name == "os.open" and not (isinstance(arguments[1], int) and arguments[1] & CHANGING):
                return real(*arguments, **options)
            calls.append(name)
            if len(calls) == number + 1:
                strike()
            return real(*arguments, **options)

        return call

    with contextlib.ExitStack() as patches:
        for name in CALLS:
            module, _, function = name.rpartition(".")
            real = getattr(sys.modules[module], function)
            patches.enter_context(mock.patch(name, struck(name, real)))
        patches.enter_context(mock.patch.object(drafts, "BUFFER", BUFFER))
        patches.enter_context(_struck_writes(struck))
        yield calls


def _struck_writes(struck: Callable[..., Callable[..., object]]) -> contextlib.AbstractContextManager[object]:
    """Let the writes to drafts be struck, below what names their errors."""
    real = drafts._NamingFile.write

    def write(file: drafts._NamingFile, data: ReadableBuffer, /) -> object:
        with errors.named(file._path):
            return struck("write", real)(file, data)

    return mock.patch.object(drafts._NamingFile, "write", write)


def failing(number: int) -> contextlib.AbstractContextManager[list[str]]:
    """Let a call fail."""
    code = ERRORS[number % len(ERRORS)]

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return at_call(number, fail)


def dying(number: int) -> contextlib.AbstractContextManager[list[str]]:
    """Kill this process before a call."""
    return at_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL))


def contents(folder: Path) -> dict[str, str]:
    """The digest of each file, by name."""
    return {path.name: sha256(path.read_bytes()).hexdigest()[:16] for path in sorted(folder.iterdir())}


def contents_of(folder: Path) -> dict[str, bytes]:
    """The content of each file, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def refill(folder: Path, files: dict[str, bytes]) -> None:
    """Let a folder hold some files alone."""
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def in_child(work: Callable[[], object]) -> int:
    """The status, as ``waitpid`` gives it, of a process that does some work."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def deaths(work: Callable[[], object], folder: Path) -> Iterator[dict[str, str]]:
    """The contents of a folder after each death that some work can die, and at last after it has ended well.

    The folder is as it was before each of them. What a death leaves is cleared as the next process does it.
    """
    before = contents_of(folder)
    status, step = -1, 0
    while status:
        refill(folder, before)

        def die(step: int = step) -> None:
            with dying(step):
                work()

        status = in_child(die)
        assert status in (0, signal.SIGKILL)
        left = {path.name for path in folder.iterdir()} - before.keys()
        assert all(DRAFT_NAME.fullmatch(name) for name in left if name.startswith("."))
        drafts.clear_dead.__wrapped__(folder)
        yield contents(folder)
        step += 1


def _all_deaths() -> Iterator[list[dict[str, str]]]:
    """The deaths of each verb, by its name, its folder, and whether it replaces files."""
    for verb, at, force in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True):
        folder = Path(at)
        yield list(deaths(lambda: VERBS[verb].run(folder, force == "force"), folder))  # noqa: B023


if __name__ == "__main__":
    json.dump(list(_all_deaths()), sys.stdout)
