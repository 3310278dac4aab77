"""Many files at once: plan, do, tell in the manifest; outcomes in the order of the input.

The record of what a batch made, line by line, so that a second run goes on from it.

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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, escaped, named, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.output import KINDS
from archive.base.urls import is_url, name_of
from archive.batches import elsewhere, places
from archive.batches.elsewhere import Growing
from archive.batches.executors import results_by
from archive.batches.jobs import plan
from archive.batches.lines import ManifestLine, built, files, known, parsed, path_from
from archive.batches.outcome import Outcome, OutcomeKind
from archive.batches.pool import Lost, in_order, results
from archive.batches.tasks import VERBS, task_of
from archive.batches.working import attempt

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from concurrent.futures import Executor
    from types import TracebackType
    from typing import BinaryIO, Self

    from archive.base.output import Target
    from archive.batches.jobs import FilePlan, Job
    from archive.batches.lines import Known
    from archive.batches.tasks import Task

# --- manifest


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


# --- batch


def batch(
    verb: str,
    inputs: Target | Iterable[Target],
    out: Target,
    companions: Target | None = None,
    *,
    manifest: Target | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    dry_run: bool = False,
    force: bool = False,
    mapped: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    **options: Any,  # noqa: ANN401 (those of the verb)
) -> list[Outcome]:
    """Do one thing to many files, as the command of that name does it.

    What is done is told in a manifest, from which another run goes on. Archives for which there is nothing
    to do are copied, so that ``out`` holds every archive.

    Args:
        verb: ``split``, ``join``, ``shrink``, ``restore``, ``redact``, ``migrate``, ``convert`` or
            ``canonicalise``.
        inputs: files, folders and globs; or one of them.
        out: the folder for what is written.
        companions: the folder of companions: ``split`` and ``redact`` write them there, and need it;
            ``join`` reads them there, or by default beside the inputs.
        manifest: a name that ends with ``.jsonl``. By default ``companions/manifest.jsonl`` where companions
            are written, else ``out.manifest.jsonl`` beside the folder ``out``, which is shipped.
        executor: does the work, wherever it does: that of a Dask client, say. Its workers see the same files
            by the same absolute paths. By default processes on this machine do it.
        jobs: the number of those processes, by default of CPUs; 1 works in this one.
        dry_run: tell what would be written, and write nothing.
        force: replace existing files.
        mapped: map files instead of reading them.
        limits: what a hostile file may cost.
        options: the verb's own, by name: ``to="latest"``.

    Returns:
        An outcome a file, in the order of the input.

    Raises:
        ArchiveError: the plan is refused, and nothing is done: a target would be an input, say, or there is
            no folder for companions.
        OSError: a folder cannot be read, or the manifest cannot be written.
    """
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    task = task_of(verb, options, limits=limits, force=force, mapped=mapped, dry_run=dry_run, many=True)
    work = plan(
        [os.fspath(one) for one in given],
        os.fspath(out),
        None if companions is None else os.fspath(companions),
        VERBS[verb].use,
        VERBS[verb].kinds,
        manifest=None if manifest is None else os.fspath(manifest),
        mapped=mapped,
        several=True,
    )
    return list(outcomes(work, task, jobs or os.cpu_count() or 1, executor))


def outcomes(
    work: FilePlan, task: Task, workers: int, executor: Executor | None = None
) -> Generator[Outcome]:
    """Do all that is planned.

    Args:
        work: the files.
        task: what is done to each.
        workers: the number of processes on this machine.
        executor: does the work in their place.

    Yields:
        The outcomes in the order of the jobs. The manifest tells each one as soon as it is there.

    Raises:
        ArchiveError: the manifest is no regular file.
        OSError: it cannot be written.
    """
    with Manifest(work.manifest, task) as manifest:
        jobs = work.jobs
        if not task.force:
            jobs = [replace(job, known=manifest.known(job)) for job in jobs]
        yield from in_order(_told(manifest, work.jobs, _results(task, jobs, workers, executor)))


def _told(
    manifest: Manifest, jobs: Sequence[Job], found: Iterable[tuple[int, Outcome | Lost]]
) -> Generator[tuple[int, Outcome]]:
    """Outcomes with their paths as they were given, each told in the manifest."""
    for place, result in found:
        if isinstance(result, Lost):
            outcome = Outcome(jobs[place], OutcomeKind.FAILED, result.reason)
        else:
            outcome = replace(result, job=jobs[place])
        manifest.add(outcome)
        yield place, outcome


def _results(
    task: Task, jobs: Sequence[Job], workers: int, executor: Executor | None
) -> Generator[tuple[int, Outcome | Lost]]:
    """The results as they come, of processes on this machine or of an executor."""
    work = partial(attempt, task)
    if executor is None:
        return results(work, jobs, workers)
    return results_by(executor, work, [job.absolute() for job in jobs])
