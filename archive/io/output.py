"""Writes files: complete or not at all, and never over another one unasked.

Only regular files are written and replaced. If a target is a symbolic link, the file that it names is
written, and the link stays. Without ``force``, an existing name is refused, even a dangling link; this is
checked again atomically when the file is put in place: of two processes that write one target, one fails.
With ``force``, the last complete file stays. With several targets, the first ones are restored if a later one
cannot be written; a process that is killed in between leaves some old, some new.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.errors import ArchiveError, ExistsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeGuard

    from archive.io.drafts import Draft
    from archive.io.uploads import Upload

    Target = str | os.PathLike[str]
    Sink = Target | BinaryIO

CHUNK = 1 << 20
REPLACES = "force=True"
"""The argument that replaces a file, as ``--force`` does."""
EXISTS = "the file exists; pass --force to replace it"
STANDARD_OUTPUT = "standard output"
"""Its name in errors."""
SPECIAL_FILES = {
    stat.S_IFDIR: "folder",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFLNK: "link",
}
"""What a path may be other than a regular file."""
_MAY_REPLACE: ContextVar[Callable[[str], None] | None] = ContextVar("_MAY_REPLACE", default=None)


def check_target(path: Target, *, force: bool) -> None:
    """Refuse a target that isn't a regular file, or that exists, unless it may be replaced."""
    from archive.io.mapped import placed  # noqa: PLC0415 (only those who write files pay for it)

    given, place = placed(path)
    if place is not None:
        place.check_writable()
        with place.naming_errors("written"):
            there = place.kind()
        if there == "directory":
            raise ArchiveError("is a folder, and only files are written", file=place.name)
        if there and not force:
            raise ExistsError(EXISTS, file=place.name, in_python=REPLACES)
        return
    path = cast("Target", given)
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116 (pathlib costs start-up)
    except FileNotFoundError:
        kind = stat.S_IFREG
    if kind != stat.S_IFREG:
        raise ArchiveError(
            f"is a {SPECIAL_FILES.get(kind, 'special file')}, and only regular files are written; "
            "`-o -` writes a single file to standard output",
            file=os.fspath(path),
        )
    if not force and os.path.lexists(path):  # even a dangling link
        raise ExistsError(EXISTS, file=os.fspath(path), in_python=REPLACES)


def _draft(path: Target) -> Draft | Upload:
    """A draft of a file, here or remote."""
    from archive.io.mapped import placed  # noqa: PLC0415 (only those who write files pay for it)

    given, place = placed(path)
    if place is None:
        from archive.io.drafts import Draft  # noqa: PLC0415 (only those who write files pay for it)

        return Draft(cast("Target", given))
    from archive.io.uploads import Upload  # noqa: PLC0415 (remote files only)

    return Upload(place)


@contextmanager
def replacing_only(check: Callable[[str], None]) -> Iterator[None]:
    """Within the block, call a check with the target as given right before a file is replaced."""
    token = _MAY_REPLACE.set(check)
    try:
        yield
    finally:
        _MAY_REPLACE.reset(token)


@contextmanager
def replacing(target: Sink, *, force: bool) -> Iterator[BinaryIO]:
    """A file, to write and read, that becomes the target only if the block ends without an error."""
    with replacing_all(target, force=force) as (out,):
        yield out


@contextmanager
def replacing_all(*targets: Sink, force: bool) -> Iterator[list[BinaryIO]]:
    """Files that become the targets, in this order, only if the block ends without an error.

    Targets that are files are written last.
    """
    for target in targets:
        if is_path(target):
            check_target(target, force=force)
    with ExitStack() as open_drafts:
        files: list[BinaryIO] = []
        drafts: list[tuple[str, Draft | Upload]] = []
        held: list[tuple[io.BytesIO, BinaryIO]] = []
        for target in targets:
            if isinstance(target, (str, os.PathLike)):
                draft = _draft(target)
                open_drafts.callback(draft.close)
                drafts.append((os.fspath(target), draft))
                files.append(draft.file)
            else:
                held.append((io.BytesIO(), target))
                files.append(held[-1][0])
        yield files
        for _, draft in drafts:
            draft.finish()
        if drafts:
            _take_names(drafts, force=force)
        for data, file in held:
            write_all(data.getbuffer(), file)
            file.flush()


def is_path(target: Sink) -> TypeGuard[Target]:
    """Whether a target is a path, or a file."""
    return isinstance(target, (str, os.PathLike))


def _take_names(drafts: Sequence[tuple[str, Draft | Upload]], *, force: bool) -> None:
    """Let drafts, each with its target as given, become their targets: all of them, or none.

    If one cannot, the others' targets become what they were before.
    """
    *first, last = (draft for _, draft in drafts)
    try:
        for target, draft in drafts:
            try:
                draft.take()
            except FileExistsError:
                if not force:
                    raise ExistsError(EXISTS, file=str(draft.path), in_python=REPLACES) from None
                check = _MAY_REPLACE.get()
                if check is not None:
                    check(target)
                if draft is not last:
                    draft.keep()
                draft.replace()
    except BaseException:
        if not last.is_target():  # else all have their names, whatever happened then
            for draft in first:
                draft.give_back()
        raise


@contextmanager
def scratch(beside: Sink | None) -> Iterator[BinaryIO]:
    """A file for the time of the block: beside a target, or in memory where the target has no path."""
    from archive.io.urls import is_url  # noqa: PLC0415 (only those who write files pay for it)

    if is_url(beside):
        import tempfile  # noqa: PLC0415 (remote files only)

        with tempfile.TemporaryFile() as file:
            yield cast("BinaryIO", file)
    elif isinstance(beside, (str, os.PathLike)):
        draft = _draft(beside)
        try:
            yield draft.file
        finally:
            draft.close()
    else:
        yield io.BytesIO()


def write_all(data: memoryview, file: BinaryIO) -> None:
    """Write bytes in pieces, so that a file that keeps them needs no second copy at once.

    A file without a buffer (``python -u``, the last bytes of a disk) may take a part of a piece.
    """
    for start in range(0, len(data), CHUNK):
        piece = data[start : start + CHUNK]
        while piece:
            written = cast("int | None", file.write(piece))
            if written is None and isinstance(file, io.RawIOBase):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))  # as files with a buffer do
            piece = piece[len(piece) if written is None else written :]
