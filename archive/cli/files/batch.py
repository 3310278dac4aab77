"""Files made out of files: a single one is printed as a summary, several as a line each in their order.

The texts that commands print about files they have made, by command.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from archive.base.errors import ArchiveError, ImpossibleError, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.output import STANDARD_OUTPUT
from archive.base.urls import name_of
from archive.batches.batch import outcomes
from archive.batches.executors import dask_executor
from archive.batches.jobs import plan
from archive.batches.outcome import OutcomeKind
from archive.batches.places import exists
from archive.batches.tasks import VERBS, task_of
from archive.batches.working import perform
from archive.cli import printing
from archive.cli.ending import sigterm_as_ctrl_c
from archive.cli.progress import tracker
from archive.cli.several import note_left_out
from archive.cli.status import Status
from archive.report.migration_text import (
    migration_facts,
    migration_line,
    migration_text,
    plan_line,
    plan_text,
)
from archive.report.outcome_text import (
    Sized,
    canonical_text,
    convert_text,
    copied_text,
    join_line,
    join_text,
    lite_text,
    shrink_text,
    size_line,
    split_line,
    split_text,
    total_line,
    would_text,
)
from archive.report.redaction_text import (
    companion_redaction_line,
    companion_redaction_text,
    redact_line,
    redact_plan_line,
    redact_plan_text,
    redact_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rich.console import RenderableType

    from archive.batches.jobs import FilePlan
    from archive.batches.outcome import Outcome
    from archive.batches.tasks import Task

# --- words


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one command.

    Attributes:
        doing: the progress bar's text.
        text: facts and sizes of a single file → its summary.
        line: facts and sizes of one of several files → one line.
        facts: facts → what JSON shows.
        planned: facts and the name of a single file → what a dry run tells before the targets.
        planned_line: the same of one of several files, in one line.
    """

    doing: str
    text: Callable[..., RenderableType]
    line: Callable[..., str]
    facts: Callable[..., dict[str, Any]] = asdict
    planned: Callable[[Any, str], RenderableType] | None = None
    planned_line: Callable[[Any, str], str] | None = None


WORDS = {
    "split": Words("splitting", split_text, split_line),
    "join": Words("joining", join_text, join_line),
    "shrink": Words("shrinking", shrink_text, size_line),
    "restore": Words("restoring", join_text, join_line),
    "redact": Words(
        "redacting", redact_text, redact_line, planned=redact_plan_text, planned_line=redact_plan_line
    ),
    "redact_companion": Words("redacting", companion_redaction_text, companion_redaction_line),
    "migrate": Words("migrating", migration_text, migration_line, migration_facts, plan_text, plan_line),
    "lite": Words("converting", lite_text, size_line),
    "canonicalise": Words("converting", canonical_text, size_line),
    "convert": Words("converting", convert_text, size_line),
}


# --- batch


@dataclass(frozen=True, slots=True)
class Manner:
    """The options of every command that makes files out of files.

    Attributes:
        jobs: how many files are worked on at a time.
        force: replace existing files.
        as_json: print facts as JSON.
        mapped: map the files that are read.
        limits: what a hostile file may cost.
        dry_run: print what would be written, and write nothing.
        dask: address of the Dask scheduler whose workers do the work of several files; None for this machine.
        manifest: the file in which the work on several files is told; None for the usual one.
    """

    jobs: int
    force: bool
    as_json: bool
    mapped: bool = True
    limits: Limits = DEFAULT_LIMITS
    dry_run: bool = False
    dask: str | None = None
    manifest: str | None = None

    def run(
        self, verb: str, inputs: Sequence[str], out: str, companion: str | None = None, /, **options: object
    ) -> Status:
        """Do one thing to files, folders and globs, and print what came of it.

        Args:
            verb: the name of what is done.
            inputs: the files, folders and globs.
            out: the target, or the folder of targets.
            companion: the same for companions, which are read or written.
            options: the verb's own.

        Returns:
            The exit status.

        Raises:
            ArchiveError: the plan is refused, or a single file; of several files, a failure is printed.
            OSError: the same.
        """
        work = plan(
            inputs,
            out,
            companion,
            VERBS[verb].use,
            VERBS[verb].kinds,
            manifest=self.manifest,
            mapped=self.mapped,
        )
        task = task_of(
            verb,
            options,
            limits=self.limits,
            force=self.force,
            mapped=self.mapped,
            dry_run=self.dry_run,
            many=work.many,
        )
        return self.do(work, task, WORDS[verb])

    def do(self, work: FilePlan, task: Task, words: Words) -> Status:
        """Do all that is planned, and print what came of it.

        Args:
            work: the files.
            task: what is done to each.
            words: the texts to print.

        Returns:
            The exit status.

        Raises:
            ArchiveError: a single file is refused; of several files, a failure is printed.
            OSError: the same.
        """
        if self.dask is not None and not work.many:
            raise ArchiveError("--dask is for several files", file=name_of(work.jobs[0].file))
        with sigterm_as_ctrl_c():
            try:
                return _several(work, task, words, self) if work.many else _one(work, task, words, self)
            except KeyboardInterrupt:
                printing.note("interrupted")
                return Status.INTERRUPTED


def _one(work: FilePlan, task: Task, words: Words, manner: Manner) -> Status:
    """Work on a single file and print its summary or facts; an error is raised."""
    job = work.jobs[0]
    if job.streamed and not task.dry_run:
        return _streamed(work, task, words, manner)
    doing = Text(f"{words.doing} {one_line(name_of(job.file))}")
    try:
        with Console(stderr=True).status(doing) if sys.stderr.isatty() else nullcontext():
            outcome = perform(task, job)
    except ImpossibleError as refusal:
        if task.dry_run and not manner.as_json:
            _print_plan(refusal.facts, name_of(job.file), words)
        raise
    _print_one(outcome, words, manner)
    return status_of(outcome)


def _streamed(work: FilePlan, task: Task, words: Words, manner: Manner) -> Status:
    """Write a single file to standard output, once it is complete, and its summary to standard error."""
    if sys.stdout.isatty():
        raise ArchiveError("is a terminal, and models are no text", file=STANDARD_OUTPUT)
    with printing.naming(STANDARD_OUTPUT):
        outcome = perform(task, work.jobs[0], sys.stdout.buffer)
    _print_one(outcome, words, manner, aside=True)
    return status_of(outcome)


def _print_one(outcome: Outcome, words: Words, manner: Manner, *, aside: bool = False) -> None:
    """Print the summary or the facts of a single file."""
    if manner.as_json:
        printing.write_json(_facts(outcome, words), aside=aside)
    elif manner.dry_run:
        _print_plan(outcome.facts, name_of(outcome.file), words)
        for line in _targets(outcome):
            printing.write_line(line)
    elif outcome.kind is OutcomeKind.NOTHING_TO_DO and outcome.facts is None:
        printing.show(copied_text(outcome.reason, *_sizes(outcome)), aside=aside)
    else:
        printing.show(words.text(outcome.facts, *_sizes(outcome)), aside=aside)


def _print_plan(facts: object, file: str, words: Words) -> None:
    """Print the steps that are planned, where that is more than the targets."""
    if facts is not None and words.planned is not None:
        printing.show(words.planned(facts, file))


def _several(work: FilePlan, task: Task, words: Words, manner: Manner) -> Status:
    """Work on several files: a line each in their order, the total or all facts at the end."""
    finished: list[Outcome] = []
    with (
        _executor(manner) as executor,
        closing(outcomes(work, task, manner.jobs, executor)) as results,
        tracker(words.doing, len(work.jobs)) as lines,
    ):
        for outcome in lines.track(results):
            finished.append(outcome)
            if outcome.kind is OutcomeKind.FAILED:
                lines.note(_problem(outcome))
            elif not manner.as_json:
                lines.write_line(_line(outcome, words, manner))
    note_left_out(work.others)
    if manner.as_json:
        printing.write_json([_facts(outcome, words) for outcome in finished])
    else:
        printing.write_line(_total(finished))
    return max(map(status_of, finished))


def _executor(manner: Manner) -> AbstractContextManager[Any]:
    """The cluster that does the work; None for this machine."""
    return nullcontext() if manner.dask is None else dask_executor(manner.dask)


def _total(finished: list[Outcome]) -> str:
    """The last line: how many files came to what, and the sums of their sizes."""
    kinds = Counter(outcome.kind for outcome in finished)
    sizes = [outcome.sizes for outcome in finished if outcome.sizes]
    sums = [sum(one[place] for one in sizes if len(one) > place) for place in range(3)]
    return total_line(len(finished), [(kind, kinds[kind]) for kind in OutcomeKind if kinds[kind]], *sums)


def _line(outcome: Outcome, words: Words, manner: Manner) -> str:
    """A file of several, in one line."""
    if outcome.kind is OutcomeKind.SAME:
        return f"{_name(outcome)}: {outcome.kind}"
    if not outcome.outputs:
        return f"{_name(outcome)}: {outcome.kind}: {outcome.reason}"
    made = outcome.kind in {OutcomeKind.DONE, OutcomeKind.TO_DO}
    again = f"; {outcome.reason}" if made and outcome.reason else ""
    if manner.dry_run:
        return "; ".join(_would(outcome, words)) + again
    if outcome.kind is OutcomeKind.NOTHING_TO_DO and outcome.facts is None:
        return f"{_name(outcome)}: {outcome.kind}: {outcome.reason}; copied"
    return words.line(outcome.facts, *_sizes(outcome)) + again


def _would(outcome: Outcome, words: Words) -> Iterator[str]:
    """What a dry run tells of a file of several."""
    if outcome.facts is not None and words.planned_line is not None:
        yield words.planned_line(outcome.facts, name_of(outcome.file))
        yield from _targets(outcome)
    else:
        first, *others = _targets(outcome)
        yield f"{_name(outcome)}: {first}"
        yield from others


def _targets(outcome: Outcome) -> Iterator[str]:
    """What a dry run tells of the targets of a file, and why, where that is not as usual."""
    if outcome.facts is None:
        yield f"{outcome.kind}: {outcome.reason}"
    for path, one in zip(outcome.written, outcome.outputs, strict=True):
        replaced = not outcome.job.streamed and exists(path)
        yield would_text(Sized(name_of(path), one.size), replaced=replaced)


def _name(outcome: Outcome) -> str:
    """The input's name, on one line."""
    return one_line(name_of(outcome.file))


def _problem(outcome: Outcome) -> str:
    """Why a file failed, on one line that begins with the file's name."""
    return f"{_name(outcome)}: {outcome.reason}"


def status_of(outcome: Outcome) -> Status:
    """The exit status that an outcome stands for."""
    if outcome.is_internal:
        return Status.INTERNAL
    if outcome.kind is OutcomeKind.FAILED:
        return Status.FAILED
    well = outcome.kind is not OutcomeKind.IMPOSSIBLE and outcome.is_clean
    return Status.WELL if well else Status.FINDINGS


def _sizes(outcome: Outcome) -> list[Sized]:
    """Input, output, and the companion if there is one, with their sizes."""
    job = outcome.job
    paths = (job.file, job.out, job.companion)
    return [Sized(name_of(path), size) for path, size in zip(paths, outcome.sizes, strict=False)]


def _facts(outcome: Outcome, words: Words) -> dict[str, object]:
    """An outcome for JSON."""
    paths = dict(zip(("file", "out", "companion"), (one.name for one in _sizes(outcome)), strict=False))
    told = {"file": name_of(outcome.file), **paths, "outcome": outcome.kind}
    if outcome.reason:
        told["reason"] = outcome.reason
    return {**told, **(words.facts(outcome.facts) if outcome.facts is not None else {})}
