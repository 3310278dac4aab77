"""Many files at once: plan, do, note in the manifest; outcomes in the order of the input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from archive.batches.jobs import Outcome, OutcomeKind
from archive.batches.manifest import Manifest
from archive.batches.pool import Lost, in_order, results, results_by
from archive.batches.working import attempt

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Executor

    from archive.batches.jobs import FilePlan
    from archive.batches.working import Task


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
        The outcomes in the order of the jobs. The manifest has each as soon as it is there.
    """
    with Manifest(work.manifest, task) as manifest:
        jobs = work.jobs
        if not task.force:
            jobs = [replace(job, known=manifest.known(job)) for job in jobs]
        do = partial(attempt, task)
        if executor is None:
            done = results(do, jobs, workers)
        else:
            done = results_by(executor, do, [job.absolute() for job in jobs])

        def noted() -> Generator[tuple[int, Outcome]]:
            for place, result in done:
                job = work.jobs[place]  # with its paths as they were given
                if isinstance(result, Lost):
                    outcome = Outcome(job, OutcomeKind.FAILED, result.reason)
                else:
                    outcome = replace(result, job=job)
                manifest.add(outcome)
                yield place, outcome

        yield from in_order(noted())
