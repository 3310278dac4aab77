"""What came of a file, whatever was done with it, and the one loop over files that every command has.

Work on a file is a function of an :class:`~archive.batches.inputs.InputFile`, or of a
:class:`~archive.batches.jobs.Job` where files are written. It can be pickled, and any process may do it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from archive.base.errors import one_line
from archive.base.problems import problem_of
from archive.base.quick_dataclass import dataclass
from archive.batches.inputs import InputFile
from archive.batches.pool import Lost, in_order, results, results_by

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from concurrent.futures import Executor

    from archive.batches.line_file import LineFile
    from archive.io.places import Fingerprint

JobT = TypeVar("JobT", bound=InputFile)
FactsT = TypeVar("FactsT")


class OutcomeKind(StrEnum):
    """What came of a file.

    Attributes:
        DONE: it is read, or its targets are written.
        TO_DO: of a dry run: they would be written.
        SAME: its targets are there already, made of this very file with these options, as the manifest says;
            or what a manifest has about it is still true.
        NOTHING_TO_DO: the file is already what the verb would make of it, and was copied.
        IMPOSSIBLE: nothing is wrong with the file, but the verb cannot do this to it; nothing is written.
        FAILED: the file is broken, cannot be read, or a target cannot be written; nothing is written.
    """

    DONE = "done"
    TO_DO = "to do"
    SAME = "same"
    NOTHING_TO_DO = "nothing to do"
    IMPOSSIBLE = "impossible"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[JobT, FactsT]):
    """What came of one file.

    Attributes:
        job: its paths.
        kind: what came of the file.
        reason: why, on one line, without the file's name; "" where the file was done as usual.
        facts: what was read, or the result of the library's function, like :class:`archive.Split`.
        sources: the files that were read: size, and of several files the digest; only where some are written.
        outputs: the files that were written: the same; of a dry run those that would be.
        is_internal: whether it failed by a fault of this program.
    """

    job: JobT
    kind: OutcomeKind
    reason: str = ""
    facts: FactsT = None  # type: ignore[assignment] # (of a file that failed)
    sources: tuple[Fingerprint, ...] = ()
    outputs: tuple[Fingerprint, ...] = ()
    is_internal: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether what was made holds nothing that it should not hold."""
        return bool(getattr(self.facts, "is_clean", True))

    @property
    def is_given_back(self) -> bool:
        """Whether the file comes back to the byte from what was made, now or in an earlier run.

        One that was made compact isn't meant to.
        """
        if self.facts is None:
            return bool(getattr(getattr(self.job, "known", None), "exact", True))
        return bool(getattr(self.facts, "exact", True)) or getattr(self.facts, "level", "") == "compact"

    @property
    def has_failed(self) -> bool:
        """Whether nothing was read or written, since something is wrong."""
        return self.kind is OutcomeKind.FAILED

    @property
    def file(self) -> str:
        """The path of the input."""
        return self.job.name

    @property
    def problem(self) -> str:
        """The reason, on a line that begins with the file's name."""
        name = one_line(self.job.label)
        return self.reason if self.reason.startswith(name) else f"{name}: {self.reason}"

    @property
    def written(self) -> tuple[str, ...]:
        """The paths of the targets that are there now, or would be: the output first, then a companion."""
        return tuple(self.job.targets[: len(self.outputs)])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the input, of the output, and of a companion; () where nothing was made."""
        if not self.outputs:
            return ()
        (file, *read), (out, *made) = self.sources, self.outputs
        return (file.size, out.size, *(companion.size for companion in (*read, *made)))


Reading = Outcome[InputFile, FactsT | None]
"""What came of reading a file."""


def reason_of(job: InputFile, error: str) -> str:
    """An error's text without the input's name."""
    return one_line(error).removeprefix(f"{one_line(job.label)}: ")


def attempt(do: Callable[[JobT], Outcome[JobT, FactsT]], job: JobT) -> Outcome[JobT, FactsT]:
    """Do one file's work and catch its errors. They become texts, since not every error can be pickled."""
    try:
        return do(job)
    except Exception as error:  # noqa: BLE001 (the other files still count)
        problem = problem_of(error)
        reason = reason_of(job, problem.text)
        return Outcome(job, OutcomeKind.FAILED, reason, is_internal=problem.is_internal)


def outcomes(
    do: Callable[[JobT], Outcome[JobT, FactsT]],
    jobs: Sequence[JobT],
    workers: int,
    notes: LineFile[Any] | None = None,
    executor: Executor | None = None,
) -> Generator[Outcome[JobT, FactsT]]:
    """Do the work on each file; one that fails, or kills its process, hinders no other.

    Args:
        do: the work; it can be pickled, as its results can.
        jobs: the files, here or remote.
        workers: the number of processes on this machine; 1 works in this one.
        notes: the manifest, which says what is known of a file, and has its outcome as soon as it is there.
        executor: does the work in the place of processes of this machine.
    """
    with notes or nullcontext():
        known = jobs if notes is None else [replace(job, known=notes.known(job)) for job in jobs]
        work = partial(attempt, do)
        if executor is None:
            done = results(work, known, workers)
        else:
            done = results_by(executor, work, [job.absolute() for job in known])

        def noted() -> Generator[tuple[int, Outcome[JobT, FactsT]]]:
            for place, result in done:
                job = replace(jobs[place], known=known[place].known)  # with its paths as they were given
                outcome: Outcome[JobT, FactsT]
                if isinstance(result, Lost):
                    outcome = Outcome(job, OutcomeKind.FAILED, result.reason)
                else:
                    outcome = replace(result, job=job)
                if notes is not None:
                    notes.add(outcome)
                yield place, outcome

        yield from in_order(noted())
