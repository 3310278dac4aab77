"""The work on one file: a library's function, called with its paths, → an outcome."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from archive.base.mapped import in_memory
from archive.base.problems import problem_of
from archive.batches.jobs import Use
from archive.batches.pool import KILLED, results
from archive.verbs.split import Join

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import BinaryIO

    from archive.batches.jobs import Job

    Verb = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one file's work.

    Attributes:
        job: the file's paths.
        facts: the result of the library's verb; None if it failed.
        sizes: bytes of the input, the output, and the companion if there is one; empty if it failed.
        error: why it failed; "" if it did not.
        is_internal: whether it failed by a fault of this program.
    """

    job: Job
    facts: Any = None
    sizes: tuple[int, ...] = ()
    error: str = ""
    is_internal: bool = False


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
    for place, outcome in results(partial(attempt, verb), jobs, workers):
        yield outcome or Outcome(jobs[place], error=KILLED)


def attempt(verb: Verb, job: Job) -> Outcome:
    """Do one file's work and catch its errors. They become texts, for not every error can be pickled."""
    try:
        return perform(verb, job)
    except Exception as error:  # noqa: BLE001 (the other files still count)
        return failed(job, error)


def failed(job: Job, error: Exception) -> Outcome:
    """The outcome of a file's work that an error has ended."""
    problem = problem_of(error)
    return Outcome(job, error=problem.text, is_internal=problem.is_internal)
