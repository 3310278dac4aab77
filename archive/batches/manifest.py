"""The record of work done in a folder, line by line, so that an interrupted command can be resumed.

``manifest.jsonl`` has a JSON object a line:

- ``path`` (below the folder), ``to`` (the target release) and ``aside`` (whether a backup was to be kept);
- ``outcome``: ``migrated``, ``unchanged``, or the reason of a failure;
- for a file without failure also ``from`` (its release), ``source`` (digest of the input), ``bytes`` and
  ``digest`` (size and digest of the output). Digests are blake2b of 16 bytes, in hex.

The last line of a path that has a digest counts, and only if the files still have these digests. A manifest
is a regular file; links, devices and pipes are refused.
"""

from __future__ import annotations

import hashlib
import json
import stat
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, escaped
from archive.base.output import KINDS

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO, Self

    from archive.batches.jobs import FilePlan, Job
    from archive.batches.working import Outcome

    ManifestLine = dict[str, Any]

MANIFEST_NAME = "manifest.jsonl"


class Manifest:
    """The manifest of a folder; inside a ``with`` statement, lines can be added.

    Args:
        folder: the folder; made if it is missing.
        target: the release that the files are migrated to.
        aside: whether each file keeps a backup of the original.
    """

    def __init__(self, folder: Path, target: str, *, aside: bool) -> None:
        self.path = folder / MANIFEST_NAME
        self._folder = folder
        self._asked = {"to": target, "aside": aside}
        self._known: dict[str, ManifestLine] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        _check_kind(self.path)
        self._file = self.path.open("a+b")
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        self._known = dict(_entries(lines))
        if lines[-1]:  # cut short by an interruption; the next entry needs a line of its own
            self._file.write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def left(self, work: FilePlan) -> tuple[FilePlan, int]:
        """The work that is not done yet, and how many of its files are to be done again.

        A file is done if it and its result have the digests of the manifest. If one of them was changed
        since, the file is done again, and its result may be replaced.
        """
        jobs = []
        changed = 0
        for job in work.jobs:
            line = self._known.get(self._name(job), {})
            ours = line.items() >= self._asked.items()
            if ours and _digest(job.out) == line["digest"] and _digest(job.file) == line.get("source"):
                continue
            changed += ours and job.out.exists()
            jobs.append(replace(job, replaces=ours))
        return replace(work, jobs=jobs), changed

    def add(self, outcome: Outcome) -> None:
        """Add a line for a finished file."""
        line: ManifestLine = {"path": self._name(outcome.job), **self._asked}
        if outcome.error:
            line["outcome"] = escaped(outcome.error)
        else:
            facts = outcome.facts
            line |= {
                "source": facts.source_digest,
                "from": str(facts.origin),
                "bytes": facts.out_size,
                "digest": facts.digest,
                "outcome": "migrated" if facts.plan.is_needed else "unchanged",
            }
        assert self._file is not None  # noqa: S101 (inside of the with statement)
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def _name(self, job: Job) -> str:
        return escaped(job.out.relative_to(self._folder).as_posix())


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


def is_same(path: Path, digest: str) -> bool:
    """Whether a file exists and has a digest."""
    return _digest(path) == digest


def _entries(lines: list[bytes]) -> list[tuple[str, ManifestLine]]:
    """Paths and lines that have a digest; anything else in the file is skipped."""
    entries = []
    for line in lines:
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # the last by deeply nested lists
            read = json.loads(line)
            if isinstance(read["digest"], str):
                entries.append((str(read["path"]), read))
    return entries


def _digest(path: Path) -> str | None:
    """A file's digest; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return None
