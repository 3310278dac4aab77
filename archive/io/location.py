"""Remote places, on fsspec's file systems: what is there, in which version, and one error for all.

fsspec knows ``s3://``, ``gs://``, ``https://``, ``memory://`` and more; users install the package of a
scheme. Whatever a file system raises becomes one error that names the URL, without secrets. How long a
request may take is decided by :mod:`~archive.io.patience`.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.deadline import LateError
from archive.base.errors import LONGEST_CAUSE, ArchiveError, one_line
from archive.base.extras import how_to_install
from archive.io.patience import Patience, SilentError
from archive.io.s3 import MOST_FILES, TOO_MANY, files_below
from archive.io.urls import is_url, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXTRA = f"files by URL need fsspec: {how_to_install('fleet')}"
UNEXPECTED = (LookupError, AttributeError, TypeError, NotImplementedError)
"""What file systems raise for URLs that they did not expect; their messages are for programmers."""
NO_PLACES = {"data"}
"""Schemes of URLs that contain bytes rather than name a place."""
VERSION_FACTS = (
    "size",
    "ETag",
    "etag",
    "Content-MD5",
    "Digest",
    "Last-Modified",
    "LastModified",
    "last_modified",
    "modified",
    "updated",
    "mtime",
    "created",
    "generation",
    "md5Hash",
    "crc32c",
    "VersionId",
    "sha",
)
"""Fields of fsspec's ``info`` that identify a file's version."""
LISTED = 1 << 22
"""Bytes that a listing gets time for, since nobody knows how many have arrived: ten minutes."""
CERTAIN_FACTS = {"ETag", "etag", "Content-MD5", "Digest", "generation", "md5Hash", "VersionId", "sha"}
"""Those that differ between any two versions. Times may not: two versions may share a second."""


class Version(NamedTuple):
    """A version of a remote file; ``file_system`` is a number for the file system and its options."""

    file_system: int
    path: str
    facts: tuple[tuple[str, str], ...]

    @property
    def is_certain(self) -> bool:
        """Whether no other version has these facts."""
        return any(key in CERTAIN_FACTS and not value.startswith("W/") for key, value in self.facts)


class Location:
    """A place on one of fsspec's file systems."""

    def __init__(self, source: Any) -> None:  # noqa: ANN401 (an fsspec file has no type)
        if is_url(source):
            self.name = one_line(shown(source))
            self.fs, self.path = _located(source, self.name)
        else:
            self.fs, self.path = source.fs, source.path
            self.name = one_line(shown(self.fs.unstrip_protocol(self.path)))
        protocol = self.fs.protocol
        self.schemes = {protocol} if isinstance(protocol, str) else set(protocol)

    def ask(self, method: str, *arguments: object, moved: int = 0, **named: object) -> Any:  # noqa: ANN401 (of fsspec)
        """The result of a method of the file system, in the time for a request that moves this many bytes."""
        if not self.fs.async_impl:
            return getattr(self.fs, method)(*arguments, **named)
        return Patience(self.fs, moved).run(getattr(self.fs, f"_{method}"), *arguments, **named)

    @property
    def is_local(self) -> bool:
        """Whether the path is on this machine."""
        return "file" in self.schemes

    @property
    def is_http(self) -> bool:
        """Whether an HTTP server has the file."""
        return "http" in self.schemes

    @property
    def is_s3(self) -> bool:
        """Whether S3, or something that speaks its protocol, has the file."""
        return "s3" in self.schemes

    def facts(self) -> dict[str, Any]:
        """What the file system says of the file now; raises whatever it raises."""
        self.fs.invalidate_cache(self.path)
        facts: dict[str, Any] = self.ask("info", self.path)
        return facts

    def files(self, depth: int | None = None) -> dict[str, dict[str, Any]]:
        """The files up to ``depth`` folders deep, by their paths, with what the file system says of them."""
        self.fs.invalidate_cache()
        files: dict[str, dict[str, Any]]
        if self.is_s3:
            return files_below(self.fs, self.path, depth, self.name)
        files = self.ask("find", self.path, maxdepth=depth, detail=True, moved=LISTED)
        if len(files) > MOST_FILES:
            raise ArchiveError(TOO_MANY, file=self.name)
        return files

    def kind(self) -> str:
        """``file``, ``directory``, or "" if there is neither; raises whatever the file system raises."""
        try:
            return str(self.facts()["type"])
        except FileNotFoundError:
            return ""

    def exists(self) -> bool:
        """Whether there is such a file or folder now; raises whatever the file system raises."""
        return bool(self.kind())

    def check_writable(self) -> None:
        """Refuse a place that takes no files."""
        if self.is_http:
            raise ArchiveError("HTTP is for reading; write a file here and upload it", file=self.name)

    def version(self, facts: Mapping[str, Any]) -> Version:
        """The version of the file that has such facts."""
        known = tuple((key, str(facts[key])) for key in VERSION_FACTS if facts.get(key) is not None)
        return Version(hash(self.fs), self.path, known)

    @contextmanager
    def naming_errors(self, doing: str = "read") -> Iterator[None]:
        """Turn whatever a file system raises into one error that names the URL and shows no secrets."""
        try:
            yield
        except (ArchiveError, LateError, MemoryError, RecursionError):
            raise
        except SilentError as error:
            raise TimeoutError(errno.ETIMEDOUT, f"cannot be {doing}: {error}", self.name) from None
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name) from None
        except FileExistsError:
            raise
        except Exception as error:  # noqa: BLE001 (each file system raises what its library does)
            raise _without_secrets(error, self.path, self.name, doing) from None


def _without_secrets(error: Exception, path: str, name: str, doing: str) -> OSError:
    """An error of a file system, in one line that names the URL."""
    if isinstance(error, UNEXPECTED):
        cause = "fsspec knows no file by this URL"
    else:
        text = re.sub(rf"(?<!\w){re.escape(path)}(?!\w)", lambda _: name, str(error)) if path else str(error)
        cause = one_line(f"{type(error).__name__}: {shown(text) or 'no reason given'}")[:LONGEST_CAUSE]
    return OSError(errno.EIO, f"cannot be {doing}: {cause}", name)


def _located(url: str, name: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    scheme = url.partition("://")[0]
    if scheme.lower() in NO_PLACES:
        raise ArchiveError(f"no such place: {scheme}:// names no file", file=name)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 (an optional package, for URLs only)
    except ImportError:
        raise ArchiveError(EXTRA, file=name) from None
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        raise ArchiveError(f"{scheme}:// needs a package: {error}", file=name) from None
    except ValueError as error:
        raise ArchiveError(f"no such place: {shown(str(error))}", file=name) from None
    except Exception as error:  # noqa: BLE001 (some file systems connect at once, and raise whatever they do)
        raise _without_secrets(error, url, name, "reached") from None
    return fs, path
