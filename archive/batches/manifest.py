"""The record of what a batch made, line by line, so that a second run goes on from it.

A line is an outcome in one JSON object, ``LINE``; where they are known, it has the ``archive_id``, too, and
of a migration ``from``, the release that wrote the input.

The last line about an input counts, and only as long as its files have the digests in it.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, escaped, one_line
from archive.batches.jobs import KnownTargets
from archive.batches.line_file import LineFile, built, path_from
from archive.batches.outcome import outcomes
from archive.batches.working import work
from archive.formats.schema.json import DictOf, JsonClass, ListOf, UpTo, checked
from archive.io.places import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from concurrent.futures import Executor

    from archive.batches.jobs import FilePlan, Job
    from archive.batches.working import Made, Task

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
    {"outcome": "str", "reason": "str", "clean": "bool", "exact": "bool"},
    {
        "input": "its path below the folder that was searched",
        "verb": "what was asked, as the library's function is called",
        "options": "as the function takes them",
        "sources": "the files that were read; none where nothing was written",
        "outputs": "the files that were written",
        "outcome": "as archive.batches.outcome.OutcomeKind lists them",
        "reason": "of a file that was not written",
        "clean": "only if false: something was left in the result that should not be there",
        "exact": "only if false: not the file's bytes come back from what was written, but its records",
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
    exact: bool = True


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
        values.get("exact", True),
    )
    return (values["input"], facts) if facts.outputs else None


def _fingerprint(file: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(file["bytes"], file["digest"])


def _files(paths: Iterable[str], fingerprints: Iterable[Fingerprint], folder: str) -> list[dict[str, object]]:
    """Files as a line has them; paths are those from a folder."""
    return [
        {"path": path_from(folder, path), "bytes": fingerprint.size, "digest": fingerprint.digest}
        for path, fingerprint in zip(paths, fingerprints, strict=False)  # the second target may be missing
    ]


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
        whole = not outputs
        return KnownTargets(line.verb, line.options, line.sources, targets, whole, line.clean, line.exact)

    def add(self, outcome: Made) -> None:
        """Add a line about a file, unless the manifest has the same already."""
        job = outcome.job
        paths = [path_from(self.folder, target) for target in outcome.written]
        outputs = tuple(zip(paths, outcome.outputs, strict=True))
        states = outcome.is_clean, outcome.is_given_back
        line = ManifestLine(self._task.verb, self._task.noted, outcome.sources, outputs, *states)
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
        if not line.exact:
            facts["exact"] = False
        made = outcome.facts
        if hasattr(made, "archive_id"):
            facts["archive_id"] = made.archive_id
        if hasattr(made, "origin"):
            facts["from"] = str(made.origin)
        self.write(built(job.relative, facts))


def outcomes_of(
    planned: FilePlan, task: Task, workers: int, executor: Executor | None = None
) -> Generator[Made]:
    """Do all that is planned; the manifest has each outcome as soon as it is there."""
    do, manifest = partial(work, task), Manifest(planned.manifest, task)
    return outcomes(do, planned.jobs, workers, manifest, executor)
