"""The record of what a batch made, line by line, so that a second run goes on from it.

A line is an outcome in one JSON object, ``LINE``; where they are known, it has the ``archive_id``, too, and
of a migration ``from``, the release that wrote the input.

The last line about an input counts, and only as long as its files have the digests in it. A line goes to the
end of the file in one call, so that several processes may add to one manifest. A manifest is a regular file;
links, devices and pipes are refused.

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
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from archive.base.errors import ArchiveError, escaped, named, one_line
from archive.batches.jobs import KnownTargets
from archive.formats.schema.json import DictOf, JsonClass, ListOf, UpTo, checked
from archive.io import places
from archive.io.location import Location
from archive.io.output import KINDS
from archive.io.places import Fingerprint
from archive.io.urls import is_url, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import BinaryIO, Self

    from archive.batches.jobs import Job
    from archive.batches.outcome import Outcome
    from archive.batches.working import Made, Task

LineT = TypeVar("LineT")
PUT_EVERY = 10.0
"""Seconds between two uploads of a remote manifest."""


# --- lines

FILE = JsonClass(
    {"path": "str", "bytes": UpTo((1 << 63) - 1), "digest": "str"},
    docs={
        "path": "from the manifest's folder",
        "digest": "blake2b of 16 bytes, in hex; empty where nobody asked",
    },
)
LINE = JsonClass(
    {
        "input": "str",
        "verb": "str",
        "options": DictOf("any"),
        "sources": ListOf(FILE),
        "outputs": ListOf(FILE),
    },
    {"outcome": "str", "reason": "str", "clean": "bool"},
    {
        "input": "its path below the folder that was searched",
        "verb": "what was asked, as the library's function is called",
        "options": "as the function takes them",
        "sources": "the files that were read; none where nothing was written",
        "outputs": "the files that were written",
        "outcome": "as archive.batches.jobs.OutcomeKind lists them",
        "reason": "of a file that was not written",
        "clean": "only if false: something was left in the result that should not be there",
    },
)
"""A line."""


class ManifestLine(NamedTuple):
    """A line about files that were written.

    Attributes:
        sources: the files that were read, then.
        outputs: the files that were written, with their paths from the manifest's folder.
    """

    verb: str
    options: Mapping[str, Any]
    sources: tuple[Fingerprint, ...]
    outputs: tuple[tuple[str, Fingerprint], ...]
    clean: bool = True


def parsed(line: bytes) -> tuple[str, ManifestLine] | None:
    """The input and the facts of a line; None where it is broken, or nothing was written."""
    try:
        values = checked(json.loads(line), LINE)
    except (ArchiveError, RecursionError, ValueError):  # of whatever stands there
        return None
    facts = ManifestLine(
        values["verb"],
        values["options"],
        tuple(map(_fingerprint, values["sources"])),
        tuple((file["path"], _fingerprint(file)) for file in values["outputs"]),
        values.get("clean", True),
    )
    return (values["input"], facts) if facts.outputs else None


def _fingerprint(file: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(file["bytes"], file["digest"])


def built(name: str, facts: Mapping[str, object]) -> bytes:
    """A line about an input, with its end."""
    return json.dumps({"input": escaped(name), **facts}, ensure_ascii=False).encode() + b"\n"


def _files(paths: Iterable[str], fingerprints: Iterable[Fingerprint], folder: str) -> list[dict[str, object]]:
    """Files as a line has them; paths are those from a folder."""
    return [
        {"path": path_from(folder, path), "bytes": fingerprint.size, "digest": fingerprint.digest}
        for path, fingerprint in zip(paths, fingerprints, strict=False)  # the second target may be missing
    ]


def path_from(folder: str, path: str) -> str:
    """A path from a folder, as a line has it."""
    if is_url(path) or is_url(folder):
        return escaped(name_of(path).removeprefix(name_of(folder)))
    try:
        path = os.path.relpath(path, folder)
    except ValueError:  # of another drive
        path = os.path.abspath(path)  # noqa: PTH100 (links stay)
    return escaped(Path(path).as_posix())


# --- the file


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

    def add(self, outcome: Outcome[Any, Any]) -> None:
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
                        f"is a {KINDS.get(kind, 'special file')}, and a manifest is a regular file",
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


class Manifest(LineFile[ManifestLine]):
    """The manifest of a batch; a dry run reads it, and leaves everything as it is."""

    parsed = staticmethod(parsed)

    def __init__(self, path: str, task: Task) -> None:
        super().__init__(path, read_only=task.dry_run)
        self._task = task

    def known(self, job: Job) -> KnownTargets | None:
        """What it says of a job's targets; None where it has no line about the input, or nothing counts."""
        line = self._lines.get(escaped(job.relative))
        if line is None or self._task.force:
            return None
        outputs = dict(line.outputs)
        targets = tuple(outputs.pop(path_from(self.folder, target), None) for target in job.targets)
        return KnownTargets(line.verb, line.options, line.sources, targets, not outputs, line.clean)

    def add(self, outcome: Made) -> None:
        """Add a line about a file, unless the manifest has the same already."""
        job = outcome.job
        paths = [path_from(self.folder, target) for target in outcome.written]
        outputs = tuple(zip(paths, outcome.outputs, strict=True))
        line = ManifestLine(self._task.verb, self._task.noted, outcome.sources, outputs, outcome.is_clean)
        if self._file is None or (outcome.outputs and self._lines.get(escaped(job.relative)) == line):
            return
        facts: dict[str, object] = {
            "verb": line.verb,
            "options": line.options,
            "outcome": outcome.kind,
            "reason": one_line(outcome.reason),
            "sources": _files(job.sources, outcome.sources, self.folder),
            "outputs": _files(job.targets, outcome.outputs, self.folder),
        }
        if not line.clean:
            facts["clean"] = False
        made = outcome.facts
        if hasattr(made, "archive_id"):
            facts["archive_id"] = made.archive_id
        if hasattr(made, "origin"):
            facts["from"] = str(made.origin)
        self.write(built(job.relative, facts))
