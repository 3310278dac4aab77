"""A manifest as a file: lines of JSON, each about one file, the last of which counts.

A line goes to the end of the file in one call, so that several processes may add to one manifest. It is a
regular file; links, devices and pipes are refused.

Remote files do not grow, so a remote manifest is uploaded whole every ten seconds, and at the end. One
process adds to it; what it could not add any more, a second run finds done (see ``working``).
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from archive.base.errors import ArchiveError, escaped, named
from archive.io import places
from archive.io.location import Location
from archive.io.output import SPECIAL_FILES
from archive.io.urls import is_url, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import BinaryIO, Self

LineT = TypeVar("LineT")
PUT_EVERY = 10.0
"""Seconds between two uploads of a remote manifest."""


def built(name: str, facts: Mapping[str, object]) -> bytes:
    """A line about an input, with its end."""
    return json.dumps({"input": escaped(name), **facts}, ensure_ascii=False).encode() + b"\n"


def path_from(folder: str, path: str) -> str:
    """A path from a folder, as a line has it."""
    if is_url(path) or is_url(folder):
        return escaped(name_of(path).removeprefix(name_of(folder)))
    try:
        path = os.path.relpath(path, folder)
    except ValueError:  # of another drive
        path = os.path.abspath(path)  # noqa: PTH100 (links stay)
    return escaped(Path(path).as_posix())


class Growing:
    """A remote file that grows by lines. It is uploaded again now and then, and at the end."""

    def __init__(self, url: str, data: bytes) -> None:
        self._place = Location(url)
        self._place.check_writable()
        self._data = bytearray(data)
        self._put_at = time.monotonic()
        self._is_put = True

    def write(self, line: bytes, /) -> int:
        """Add a line."""
        self._data += line
        self._is_put = False
        if time.monotonic() - self._put_at > PUT_EVERY:
            self._put()
        return len(line)

    def close(self) -> None:
        """Put what was added."""
        if not self._is_put:
            self._put()

    def _put(self) -> None:
        data = bytes(self._data)
        with self._place.naming_errors("written"):
            self._place.ask("pipe_file", self._place.path, data, moved=len(data))
        self._put_at, self._is_put = time.monotonic(), True


class LineFile(Generic[LineT]):
    """A manifest: a file of lines that grows, inside a ``with`` statement; it and its folder are made.

    What a line is about stands in its ``input``, and the last one about a file counts.
    """

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = path
        self.folder = places.folder_of(path)
        self._lines: dict[str, LineT] = {}
        self._read_only = read_only
        self._file: BinaryIO | Growing | None = None

    def parsed(self, line: bytes) -> tuple[str, LineT] | None:
        """The input that a line is about, and what counts; None of a line that is broken, or another's."""
        raise NotImplementedError

    def known(self, job: Any) -> Any | None:  # noqa: ANN401 (each manifest has its facts)
        """What it says about a file; None where no line about it counts."""
        raise NotImplementedError

    def add(self, outcome: Any) -> None:  # noqa: ANN401 (the same)
        """Note what came of a file, unless that is there already."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        is_elsewhere, path = is_url(self.path), Path(self.path)
        if not is_elsewhere:
            # What is read of a link or a special file, or written to it, may have no end.
            with suppress(FileNotFoundError):
                kind = stat.S_IFMT(path.lstat().st_mode)
                if kind not in (stat.S_IFREG, stat.S_IFDIR):  # the system refuses a folder, and says so
                    raise ArchiveError(
                        f"is a {SPECIAL_FILES.get(kind, 'special file')}, and a manifest is a regular file",
                        file=str(path),
                    )
        before = b""
        if places.exists(self.path):
            before = places.content(self.path) if is_elsewhere else path.read_bytes()
        lines = before.split(b"\n")
        if not self._read_only:
            if is_elsewhere:
                self._file = Growing(self.path, before)
            else:
                places.make_folder_of(self.path)
                self._file = path.open("ab", buffering=0)
            if lines[-1]:  # it was cut where a run was interrupted: the next entry needs its own line
                self.write(b"\n")
        self._lines = dict(filter(None, map(self.parsed, lines)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with closing(self._file) as file, named(name_of(self.path)):
                if not isinstance(file, Growing):
                    os.fsync(file.fileno())

    def write(self, line: bytes) -> None:
        """Add a line, with its end."""
        assert self._file is not None  # noqa: S101 (inside of the with statement)
        with named(name_of(self.path)):
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
