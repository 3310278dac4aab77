"""The record of what a batch made, line by line, so that a second run goes on from it.

The last line about an input counts, and only as long as its files have the digests that it tells. A line goes
to the end of the file in one call, so that several processes may add to one manifest. A manifest is a regular
file; links, devices and pipes are refused.

Elsewhere, where files do not grow, the manifest is put anew every ten seconds, and at the end. One process
adds to it; what it could not tell any more, a second run finds done (see ``working``).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, escaped, named, one_line
from archive.base.output import KINDS
from archive.base.urls import is_url, name_of
from archive.batches import elsewhere, places
from archive.batches.elsewhere import Growing
from archive.batches.lines import ManifestLine, built, files, known, parsed, path_from

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO, Self

    from archive.batches.jobs import Job
    from archive.batches.lines import Known
    from archive.batches.outcome import Outcome
    from archive.batches.tasks import Task


class Manifest:
    """A manifest, inside a ``with`` statement.

    Args:
        path: the file; it and its folder are made if they are missing.
        task: what is told in it. A dry run reads the manifest, and leaves everything as it is.
    """

    def __init__(self, path: str, task: Task) -> None:
        self.path = path
        self._folder = places.folder_of(path)
        self._task = task
        self._known: dict[str, ManifestLine] = {}
        self._file: BinaryIO | Growing | None = None

    def __enter__(self) -> Self:
        before = b""
        if is_url(self.path):
            before = elsewhere.content(self.path) if places.exists(self.path) else b""
        else:
            _check_kind(Path(self.path))
            before = Path(self.path).read_bytes() if places.exists(self.path) else b""
        cut = self._read(before)
        if not self._task.dry_run:
            self._file = self._opened(before)
            if cut:  # by an interruption; the next entry needs a line of its own
                self._write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with closing(self._file) as file, named(name_of(self.path)):
                if not isinstance(file, Growing):
                    os.fsync(file.fileno())

    def _opened(self, before: bytes) -> BinaryIO | Growing:
        """The manifest, to be added to."""
        if is_url(self.path):
            return Growing(self.path, before)
        places.make_folder_of(self.path)
        return Path(self.path).open("ab", buffering=0)

    def known(self, job: Job) -> Known | None:
        """What is told of a job's targets; None where its input is not told of."""
        line = self._known.get(escaped(job.name))
        return None if line is None else known(line, job.targets, self._folder)

    def add(self, outcome: Outcome) -> None:
        """Add a line about a file, unless the manifest tells the same already.

        Raises:
            OSError: the manifest cannot be written.
        """
        job = outcome.job
        paths = [path_from(self._folder, target) for target in outcome.written]
        outputs = tuple(zip(paths, outcome.outputs, strict=True))
        line = ManifestLine(self._task.verb, self._task.noted, outcome.sources, outputs, outcome.is_clean)
        if self._file is None or (outcome.outputs and self._known.get(escaped(job.name)) == line):
            return
        told: dict[str, object] = {
            "verb": line.verb,
            "options": line.options,
            "outcome": outcome.kind,
            "reason": one_line(outcome.reason),
            "sources": files(job.sources, outcome.sources, self._folder),
            "outputs": files(job.targets, outcome.outputs, self._folder),
        }
        if not line.clean:
            told["clean"] = False
        if hasattr(outcome.facts, "archive_id"):
            told["archive_id"] = outcome.facts.archive_id
        if hasattr(outcome.facts, "origin"):
            told["from"] = str(outcome.facts.origin)
        self._write(built(job.name, told))

    def _read(self, data: bytes) -> bytes:
        """Read all lines, and return what stands behind the last whole one."""
        *lines, rest = data.split(b"\n")
        self._known = dict(filter(None, map(parsed, [*lines, rest])))
        return rest

    def _write(self, line: bytes) -> None:
        assert self._file is not None  # noqa: S101 (inside of the with statement)
        with named(name_of(self.path)):
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check_kind(path: Path) -> None:
    """Refuse links, and files that are not kept: what is read of them, or written to them, has no end.

    Raises:
        ArchiveError: the path is one.
    """
    with suppress(FileNotFoundError):
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR):  # the system refuses a folder, and says so
            raise ArchiveError(
                f"is a {KINDS.get(kind, 'special file')}, and a manifest is a regular file", file=str(path)
            )
