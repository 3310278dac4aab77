"""Where files are: everything that a batch asks of a file system, one function per question.

A place is a path of this machine, or a URL, for which fsspec's file systems answer. A URL that ends with a
slash is a folder's. HTTP knows no other folders: asking would read whatever is there.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from archive.base.digests import DIGEST_WIDTH
from archive.base.errors import ArchiveError, named
from archive.io.globs import Globs
from archive.io.location import Location
from archive.io.mapped import Mapped, unchanged
from archive.io.output import is_path, replacing, write_all
from archive.io.remote import opened_remote
from archive.io.urls import is_url, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer

    from archive.io.output import Sink


class Fingerprint(NamedTuple):
    """A file's content, in short; the digest is in hex, or "" where nobody asked."""

    size: int
    digest: str = ""


class Measured(io.RawIOBase):
    """A file that keeps only the fingerprint of what is written to it."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._hash = hashlib.blake2b(digest_size=DIGEST_WIDTH)
        self._size = 0

    def writable(self) -> bool:
        """Whether the file takes bytes."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Take some bytes."""
        piece = memoryview(data).cast("B")
        if self._stream is not None:
            write_all(piece, self._stream)
        self._hash.update(piece)
        self._size += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Flush what was written so far."""
        if self._stream is not None:
            self._stream.flush()

    @property
    def fingerprint(self) -> Fingerprint:
        """Of what was written so far."""
        return Fingerprint(self._size, self._hash.hexdigest())


# --- names


def exists(place: str) -> bool:
    """Whether the name is taken, even by a dangling link."""
    if not is_url(place):
        return os.path.lexists(place)
    location = Location(place)
    with location.naming_errors():
        return location.exists()


def is_folder(place: str) -> bool:
    """Whether a place is a folder."""
    if not is_url(place):
        return Path(place).is_dir()
    if place.endswith("/"):
        return True
    location = Location(place)
    if location.is_http:
        return False
    with location.naming_errors():
        return bool(location.ask("isdir", location.path))


def is_link(place: str) -> bool:
    """Whether a name is a symbolic link's."""
    return not is_url(place) and Path(place).is_symlink()


def joined(folder: str, name: str) -> str:
    """The place of a name below a folder."""
    if is_url(folder):
        return f"{folder}{'' if folder.endswith('/') else '/'}{Path(name).as_posix()}"
    return str(Path(folder, name))


def beside(folder: str, ending: str) -> str:
    """The place beside a folder with its name and an ending; "" for a root or a bucket."""
    if is_url(folder):  # nothing is beside a bucket
        path = folder.rstrip("/") if "/" in Location(folder).path.rstrip("/") else ""
    else:
        path = os.path.normpath(folder)
        if Path(path).name in {"", os.pardir}:
            path = absolute(path)
    return path + ending if last_part(path) else ""


def last_part(place: str) -> str:
    """The name of a file without its folder; for a URL, without secrets."""
    return name_of(place).rpartition("/")[2].partition("?")[0] if is_url(place) else Path(place).name


def folder_of(place: str) -> str:
    """The folder of a file; a URL keeps its slash."""
    return place[: place.rindex("/") + 1] if is_url(place) else str(Path(place).parent)


def absolute(place: str) -> str:
    """The absolute place; links stay."""
    return place if is_url(place) else os.path.abspath(place)  # noqa: PTH100 (links stay)


def resolved(place: str | Path) -> str:
    """The path without links. Links that lead in a circle stay: whatever opens the path names them."""
    return place.rstrip("/") if is_url(place) else os.path.realpath(place)


# --- files


def fingerprint(place: str, *, digest: bool = True) -> Fingerprint:
    """The fingerprint of a regular file; without ``digest``, only its size."""
    measured = Measured()
    if is_url(place):
        if not digest:
            with closing(opened_remote(Location(place))) as remote:
                return Fingerprint(remote.size)
        with closing(Mapped(place)) as mapped:  # of a copy here
            write_all(mapped.data, cast("BinaryIO", measured))
        return measured.fingerprint
    status = Path(place).stat()
    if not stat.S_ISREG(status.st_mode):
        raise ArchiveError(expected="a file", found=stat.filemode(status.st_mode), file=place)
    if not digest:
        return Fingerprint(status.st_size)
    with named(place), Path(place).open("rb") as file:
        shutil.copyfileobj(file, measured)
    return measured.fingerprint


def look(place: str) -> Fingerprint | None:
    """The fingerprint of a regular file; None if there is none, or it cannot be read."""
    try:
        return fingerprint(place)
    except (ArchiveError, OSError):
        return None


def content(url: str) -> bytes:
    """All bytes of a remote file, as they are now."""
    with closing(opened_remote(Location(url))) as remote:
        return remote.read(0, remote.size)


def make_folder_of(place: str) -> None:
    """Make the folder that a file is to be in."""
    if not is_url(place):  # for remote files, a put makes it
        Path(place).parent.mkdir(parents=True, exist_ok=True)


def check_folder_of(place: str) -> None:
    """Refuse a place whose folder is missing and cannot be made, or takes no files."""
    if is_url(place):
        Location(place).check_writable()
        return
    parent = Path(os.path.abspath(place)).parent  # noqa: PTH100 (links may lead in a circle)
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    with os.scandir(parent):  # an error names what isn't a folder
        pass
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(parent))


def copy(place: str, target: Sink, *, force: bool) -> None:
    """Copy a file's content, complete or not at all; a new file also gets its mode."""
    if is_url(place):
        with closing(Mapped(place)) as mapped, replacing(target, force=force) as out:
            write_all(mapped.data, out)
        return
    with unchanged(place), replacing(target, force=force) as out, Path(place).open("rb") as file:
        shutil.copyfileobj(file, out)
        if is_path(target) and not is_url(target) and os.chmod in os.supports_fd:
            os.chmod(out.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))  # noqa: PTH101 (no name yet)


# --- remote folders


def below(folder: str) -> Iterator[tuple[str, str]]:
    """The URLs of all files in a remote folder, sorted, each with its path from there."""
    location = Location(folder)
    with location.naming_errors("listed"):
        paths = sorted(location.files())
    top = location.path.rstrip("/")
    for path in paths:
        relative = path.removeprefix(top).lstrip("/")
        yield joined(folder, relative), relative


def matching(pattern: str) -> Iterator[tuple[str, str]]:
    """The URLs of all files that a glob names, sorted, each with its path below the fixed folder."""
    fixed = pattern[: pattern.index("*")].rpartition("/")[0]
    location, folder = Location(pattern), Location(fixed)
    top = folder.path.rstrip("/")
    parts = location.path.removeprefix(top).strip("/").split("/")
    globs, deepest = Globs([parts]), None if "**" in parts else len(parts)
    with location.naming_errors("listed"):
        paths = folder.files(deepest)
    for relative in sorted(path.removeprefix(top).lstrip("/") for path in paths):
        if globs.fitting(relative.split("/")):
            yield f"{fixed}/{relative}", relative
