"""What has been done in a folder, told line by line, so that an interrupted command goes on where it was.

``manifest.jsonl`` has a JSON object a line: ``path`` (below the folder), ``to``, ``aside`` (whether the
original was to be kept) and ``outcome``: migrated, unchanged, or why not; of files that went well also
``source`` (digest of what was read), ``from``, ``bytes`` and ``digest`` (of what was written). Digests are
blake2b of 16 bytes, in hex. The last line of a path that tells a digest counts, and is believed only as far
as the files are still those.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.cli import printing
from archive.report.as_json import escaped

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO, Self

    from archive.cli.files.jobs import FilePlan, Job
    from archive.cli.files.pool import Outcome

    ManifestLine = dict[str, Any]

MANIFEST_NAME = "manifest.jsonl"


class Manifest:
    """The manifest of a folder; in a ``with`` statement it takes new lines.

    Args:
        folder: which; made if need be.
        target: what its files are migrated to.
        aside: whether originals are kept.
    """

    def __init__(self, folder: Path, target: str, *, aside: bool) -> None:
        self.path = folder / MANIFEST_NAME
        self._folder = folder
        self._asked = {"to": target, "aside": aside}
        self._known: dict[str, ManifestLine] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        self._known = dict(_told(lines))
        if lines[-1]:  # cut short by an interruption: what comes next is a line of its own
            self._file.write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def left(self, work: FilePlan) -> FilePlan:
        """What is not done yet: all but files that are as they were, with results that are as written.

        Results of files that were changed since, or that were changed themselves, may be replaced.
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
        done = len(work.jobs) - len(jobs)
        if done:
            files = f"file{'s' * (len(work.jobs) != 1)}"
            printing.note(f"done already, and left as they are: {done:,} of {len(work.jobs):,} {files}")
        if changed:
            printing.note(f"changed since, and done again: {changed:,}")
        return replace(work, jobs=jobs)

    def add(self, outcome: Outcome) -> None:
        """A line for a file that is finished."""
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


def is_same(path: Path, digest: str) -> bool:
    """Whether a file is there and has a digest."""
    return _digest(path) == digest


def _told(lines: list[bytes]) -> list[tuple[str, ManifestLine]]:
    """The lines that tell a digest, by path; whatever else stands there is passed over."""
    told = []
    for line in lines:
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # the last of lists in lists in lists
            read = json.loads(line)
            if isinstance(read["digest"], str):
                told.append((str(read["path"]), read))
    return told


def _digest(path: Path) -> str | None:
    """None where no file can be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return None
