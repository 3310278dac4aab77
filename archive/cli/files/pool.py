"""The work on many files, in a pool of processes that neither a broken file nor Ctrl-C leaves in disorder."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.cli.files.jobs import Use
from archive.cli.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from archive.cli.files.jobs import Job

    Verb = Callable[..., Any]

MAX_WORKERS = 61
"""Workers; Windows waits for no more."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file.

    Attributes:
        job: its paths.
        facts: what the library's verb returned; None where it failed.
        sizes: bytes of what was read, of what was written, and of the companion if there is one.
        error: why it failed.
    """

    job: Job
    facts: Any = None
    sizes: tuple[int, ...] = ()
    error: str = ""


def perform(verb: Verb, job: Job) -> Outcome:
    """Do one file's work.

    Raises:
        ArchiveError: as the verb does.
        OSError: as the verb does, or a folder cannot be made.
    """
    for target in job.targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    facts = verb(*job.paths, force=True) if job.replaces else verb(*job.paths)
    files = [job.file, job.out] if job.use is Use.NONE else [job.file, job.out, job.companion]
    return Outcome(job, facts, tuple(file.stat().st_size for file in files))


def outcomes(verb: Verb, jobs: Sequence[Job], workers: int) -> Generator[Outcome]:
    """Do the work on some files; their outcomes come as they finish.

    Args:
        verb: the library's, which takes a job's paths; also a partial of one.
        jobs: one a file.
        workers: how many processes; 1 works in this one.
    """
    workers = min(workers, len(jobs), MAX_WORKERS)
    if workers == 1:
        yield from (_attempt(verb, job) for job in jobs)
        return
    for job in (yield from _pooled(verb, jobs, workers)):  # alone, so that only the file that does it is lost
        if (yield from _pooled(verb, [job], 1)):
            yield Outcome(job, error="the process that worked on it was killed; is there enough memory?")


def _pooled(verb: Verb, jobs: Sequence[Job], workers: int) -> Generator[Outcome, None, list[Job]]:
    """Do the work in other processes; returns what is left to do if one of them was killed."""
    left = []
    # Spawned: forks would copy the locks of numpy's and rich's threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), _await_the_end) as pool:
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
    """Do one file's work, whatever comes of it. Errors become texts, for not every error can be pickled."""
    try:
        return perform(verb, job)
    except Exception as error:  # noqa: BLE001 (the other files still count)
        return Outcome(job, error=told(error))


def told(error: Exception) -> str:
    """Why a file failed."""
    if isinstance(error, ArchiveError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"internal error: {type(error).__name__}: {error}"


def _work(verb: Verb, job: Job) -> Outcome:
    """One file's work in a worker."""
    try:
        return _attempt(verb, job)
    finally:
        if signal.getsignal(signal.SIGTERM) is _stay:  # unwound; the pool would go on with the next file
            os._exit(Status.INTERRUPTED)


def _await_the_end() -> None:
    """Let a signal end this worker quietly."""
    for one in ENDING_SIGNALS:
        signal.signal(one, _leave)


def _leave(*_: object) -> None:
    for one in ENDING_SIGNALS:
        signal.signal(one, _stay)
    raise SystemExit(Status.INTERRUPTED)


def _stay(*_: object) -> None:
    """This worker is ending already; its unwinding must not be interrupted."""


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C; processes that are started meanwhile inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
