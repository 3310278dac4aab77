"""The work on many files in a pool of processes; neither a crash nor Ctrl-C leaves anything behind."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any

from archive.base.mapped import in_memory
from archive.cli.ending import problem_of
from archive.cli.files.jobs import Use
from archive.cli.status import Status
from archive.verbs.split import Join

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from typing import BinaryIO

    from archive.cli.files.jobs import Job

    Verb = Callable[..., Any]

MAX_WORKERS = 61
"""Processes; Windows waits for no more."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
KILLED = "the process that worked on it was killed; is there enough memory?"
CLEAN_END = 2.0
"""Seconds that a worker has to end in the clean way when its parent is gone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one file's work.

    Attributes:
        job: the file's paths.
        facts: the result of the library's verb; None if it failed.
        sizes: bytes of the input, the output, and the companion if there is one; empty if it failed.
        error: why it failed; "" if it did not.
        status: the exit status that it stands for.
    """

    job: Job
    facts: Any = None
    sizes: tuple[int, ...] = ()
    error: str = ""
    status: Status = Status.WELL


def perform(verb: Verb, job: Job, stream: BinaryIO | None = None) -> Outcome:
    """Do one file's work.

    Args:
        verb: the library's function; it takes the job's sources, then its targets.
        job: the paths.
        stream: takes the output of a job without a target.

    Raises:
        ArchiveError: the verb raises it.
        OSError: the verb raises it, or a folder cannot be made.
    """
    for target in job.targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    sources = job.sources if job.mapped else map(in_memory, job.sources)
    if stream is not None:
        facts = verb(*sources, stream)
        size, *rest = (file.stat().st_size for file in job.sources)
        return Outcome(job, facts, (size, facts.size if isinstance(facts, Join) else facts.out_size, *rest))
    facts = verb(*sources, *job.targets, **({"force": True} if job.replaces else {}))
    files = [job.file, job.out]
    if job.use in (Use.READ, Use.WRITTEN):
        files.append(job.companion)
    return Outcome(job, facts, tuple(file.stat().st_size for file in files))


def outcomes(verb: Verb, jobs: Sequence[Job], workers: int) -> Generator[Outcome]:
    """Do the work on some files.

    Args:
        verb: the library's function, or a partial of it; it takes a job's paths.
        jobs: one job a file.
        workers: the number of processes; 1 works in this one.

    Yields:
        The outcomes, as files finish.
    """
    workers = min(workers, len(jobs), MAX_WORKERS)
    if workers == 1:
        yield from (_attempt(verb, job) for job in jobs)
        return
    # A killed process breaks the pool. Each file that was left is tried alone, so that only the file that
    # kills its process is lost.
    for job in (yield from _pooled(verb, jobs, workers)):
        if (yield from _pooled(verb, [job], 1)):
            yield Outcome(job, error=KILLED, status=Status.FAILED)


def _pooled(verb: Verb, jobs: Sequence[Job], workers: int) -> Generator[Outcome, None, list[Job]]:
    """Do the work in other processes, and return the jobs that are left if one of them was killed."""
    left = []
    # Spawned: forks would copy the locks of numpy's and rich's threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker) as pool:
        try:
            with _without_interrupts():
                futures = {pool.submit(_work, verb, job): job for job in jobs}
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    left.append(futures[future])
        except BaseException:
            for child in active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return left


def _attempt(verb: Verb, job: Job) -> Outcome:
    """Do one file's work and catch its errors. They become texts, for not every error can be pickled."""
    try:
        return perform(verb, job)
    except Exception as error:  # noqa: BLE001 (the other files still count)
        return failed(job, error)


def failed(job: Job, error: Exception) -> Outcome:
    """The outcome of a file's work that an error has ended."""
    problem, status = problem_of(error)
    return Outcome(job, error=problem, status=status)


def _work(verb: Verb, job: Job) -> Outcome:
    """Do one file's work in a worker process."""
    try:
        return _attempt(verb, job)
    finally:
        # A signal has ended the work, and all is cleaned up; the pool would go on with the next file.
        if signal.getsignal(signal.SIGTERM) is _stay:
            os._exit(Status.INTERRUPTED)


def _prepare_worker() -> None:
    """Prepare a worker: a signal ends it quietly, and so does the end of the process that started it."""
    for one in ENDING_SIGNALS:
        signal.signal(one, _leave)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the parent, however it ends, and then end this worker."""
    parent = parent_process()
    assert parent is not None  # noqa: S101 (a worker has one)
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)  # the clean way, which waits for calls into C code
    time.sleep(CLEAN_END)
    os._exit(Status.INTERRUPTED)


def _leave(*_: object) -> None:
    """End this worker, once: later signals are ignored."""
    for one in ENDING_SIGNALS:
        signal.signal(one, _stay)
    raise SystemExit(Status.INTERRUPTED)


def _stay(*_: object) -> None:
    """Ignore a signal: this worker is ending already, and its clean-up must not be interrupted."""


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C; processes that are started meanwhile inherit this."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
