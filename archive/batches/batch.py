"""Many files at once: plan, do, tell in the manifest; outcomes in the order of the input."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.batches.executors import results_by
from archive.batches.jobs import plan
from archive.batches.manifest import Manifest
from archive.batches.outcome import Outcome, OutcomeKind
from archive.batches.pool import Lost, in_order, results
from archive.batches.tasks import VERBS, task_of
from archive.batches.working import attempt

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from concurrent.futures import Executor

    from archive.base.output import Target
    from archive.batches.jobs import FilePlan, Job
    from archive.batches.tasks import Task


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
