"""Writes files: complete or not at all, and never over another one unasked."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    Target = str | os.PathLike[str]

CHUNK = 1 << 20
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def check_target(path: Target, *, force: bool) -> None:
    """Refuse a target that exists, unless it may be replaced.

    Raises:
        ArchiveError: the target exists and ``force`` is not given.
    """
    if not force and Path(path).exists():
        raise ArchiveError("the file exists; pass --force (force=True) to replace it", file=str(path))


@contextmanager
def replacing(path: Target, *, force: bool) -> Iterator[BinaryIO]:
    """A file, to write and read, that takes its name only if the block ends without an error.

    Args:
        path: the target.
        force: replace an existing file.

    Raises:
        ArchiveError: the target exists and ``force`` is not given.
        OSError: it cannot be written.
    """
    with replacing_all(path, force=force) as (out,):
        yield out


@contextmanager
def replacing_all(*paths: Target, force: bool) -> Iterator[list[BinaryIO]]:
    """Files that take their names, in this order, only if the block ends without an error.

    Drafts are written beside their targets, and moved when all are complete and on disk.

    Args:
        paths: the targets.
        force: replace existing files.

    Raises:
        ArchiveError: a target exists and ``force`` is not given.
        OSError: one cannot be written.
    """
    for path in paths:
        check_target(path, force=force)
    drafts: list[Path] = []
    try:
        with ExitStack() as files:
            outs: list[BinaryIO] = []
            for target in map(Path, paths):
                draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
                drafts.append(draft)  # before it is there: a signal may come at any time
                outs.append(files.enter_context(os.fdopen(os.open(draft, NEW_FILE, 0o600), "w+b")))
            yield outs
            for out in outs:
                out.flush()
                os.fsync(out.fileno())
        for draft, path in zip(drafts, paths, strict=True):
            draft.chmod(_mode(Path(path)))
        for draft, path in zip(drafts, paths, strict=True):
            draft.replace(path)
    except BaseException:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink()
        raise


def _mode(target: Path) -> int:
    """The permissions of the target, or those of a new file."""
    mask = os.umask(0)
    os.umask(mask)
    return target.stat().st_mode if target.exists() else 0o666 & ~mask


def save(data: memoryview, path: Target, *, force: bool = False) -> None:
    """Write bytes to a file.

    Raises:
        ArchiveError: the target exists and ``force`` is not given.
    """
    with replacing(path, force=force) as out:
        for start in range(0, len(data), CHUNK):
            out.write(data[start : start + CHUNK])
