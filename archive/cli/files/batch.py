"""Files made out of files: a single one is printed as a summary, several as a line each when they finish."""

from __future__ import annotations

import signal
import sys
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from archive.base.errors import ArchiveError, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.output import STANDARD_OUTPUT
from archive.batches.inputs import told
from archive.batches.working import outcomes, perform
from archive.cli import printing
from archive.cli.status import Status
from archive.report.outcome_text import Sized, total_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from archive.batches.jobs import FilePlan, Job
    from archive.batches.working import Outcome, Verb
    from archive.cli.files.words import Words


@dataclass(frozen=True, slots=True)
class Manner:
    """The options of every command that makes files out of files.

    Attributes:
        jobs: how many files are worked on at a time.
        force: replace existing files.
        as_json: print facts as JSON.
        mapped: map the files that are read.
        limits: what a hostile file may cost; commands hand it to the library's functions.
    """

    jobs: int
    force: bool
    as_json: bool
    mapped: bool = True
    limits: Limits = DEFAULT_LIMITS

    def run(
        self, work: FilePlan, verb: Verb, words: Words, finished: Callable[[Outcome], None] | None = None
    ) -> Status:
        """Do all that is planned, and print what came of it.

        Args:
            work: the files.
            verb: the library's function, called once a file; it takes ``force``.
            words: the texts to print.
            finished: called with each of several files as it finishes.

        Returns:
            The exit status.

        Raises:
            ArchiveError: the verb raises it for a single file; of several files, a failure is printed.
            OSError: the same.
        """
        verb = partial(verb, force=self.force)
        with _sigterm_as_ctrl_c():
            try:
                if work.many:
                    return _several(work, verb, words, self, finished or (lambda _: None))
                return _one(work, verb, words, self)
            except KeyboardInterrupt:
                printing.note("interrupted")
                return Status.INTERRUPTED


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, so that it leaves nothing half written either."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _one(work: FilePlan, verb: Verb, words: Words, manner: Manner) -> Status:
    """Work on a single file and print its summary or facts; an error is raised."""
    job = work.jobs[0]
    if job.streamed:
        return _streamed(work, verb, words, manner)
    doing = Text(f"{words.doing} {one_line(str(job.file))}")
    with Console(stderr=True).status(doing) if sys.stderr.isatty() else nullcontext():
        outcome = perform(verb, job)
    if manner.as_json:
        printing.write_json(_facts(outcome, words))
    else:
        printing.show(words.text(outcome.facts, *_sizes(outcome)))
    return Status.WELL


def _streamed(work: FilePlan, verb: Verb, words: Words, manner: Manner) -> Status:
    """Write a single file to standard output, once it is complete, and its summary to standard error."""
    if sys.stdout.isatty():
        raise ArchiveError("is a terminal, and models are no text", file=STANDARD_OUTPUT)
    with printing.naming_output():
        outcome = perform(verb, work.jobs[0], sys.stdout.buffer)
    if manner.as_json:
        printing.write_json(_facts(outcome, words), aside=True)
    else:
        printing.show(words.text(outcome.facts, *_sizes(outcome)), aside=True)
    return Status.WELL


def _several(
    work: FilePlan, verb: Verb, words: Words, manner: Manner, finished: Callable[[Outcome], None]
) -> Status:
    """Work on several files: a line each as they finish, the total or all facts at the end."""
    found: dict[Job, Outcome] = {}
    bar = Progress(
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with closing(outcomes(verb, work.jobs, manner.jobs)) as results, bar:
        for outcome in bar.track(results, total=len(work.jobs), description=words.doing):
            found[outcome.job] = outcome
            finished(outcome)
            if outcome.error:
                _print_line(bar, f"debug-archive: {problem(outcome)}", sys.stderr)
            elif not manner.as_json:
                _print_line(bar, words.line(outcome.facts, *_sizes(outcome)), sys.stdout)
    note_left_out(work)
    if manner.as_json:
        printing.write_json([_facts(found[job], words) for job in work.jobs])
    else:
        printing.write_line(_total(list(found.values())))
    return max(status_of(outcome) for outcome in found.values())


def _total(finished: list[Outcome]) -> str:
    """The last line: how many files went well, and the sums of their sizes."""
    well = [outcome.sizes for outcome in finished if not outcome.error]
    return total_line(len(finished), len(finished) - len(well), *map(sum, zip(*well, strict=True)))


def note_left_out(work: FilePlan) -> None:
    """Note which files of folders are not worked on."""
    if work.others:
        printing.note(f"neither archives nor companions, and left out: {told(work.others)}")
    if work.left_out:
        printing.note(f"without {work.lacking}, and left out: {work.left_out:,}")


def _print_line(bar: Progress, line: str, stream: TextIO) -> None:
    """Print a line at once; above the progress bar where both are on one terminal."""
    if stream.isatty() and not bar.disable:
        bar.console.print(Text(line), soft_wrap=True)
    elif stream is sys.stdout:
        printing.write_line(line)
        printing.flush()
    else:
        printing.complain(f"{line}\n")


def problem(outcome: Outcome) -> str:
    """Why a file failed, on one line that begins with the file's name."""
    file = str(outcome.job.file)
    return one_line(outcome.error if outcome.error.startswith(file) else f"{file}: {outcome.error}")


def status_of(outcome: Outcome) -> Status:
    """The exit status that an outcome stands for."""
    if outcome.is_internal:
        return Status.INTERNAL
    return Status.FAILED if outcome.error else Status.WELL


def _sizes(outcome: Outcome) -> list[Sized]:
    """Input, output, and the companion if there is one, with their sizes."""
    files = (outcome.job.file, outcome.job.out, outcome.job.companion)
    return [Sized(str(file), size) for file, size in zip(files, outcome.sizes, strict=False)]


def _facts(outcome: Outcome, words: Words) -> dict[str, object]:
    """An outcome for JSON."""
    if outcome.error:
        return {"file": str(outcome.job.file), "error": problem(outcome)}
    paths = dict(zip(("file", "out", "companion"), (one.name for one in _sizes(outcome)), strict=False))
    return {**paths, **words.facts(outcome.facts)}
