"""Commands that make files out of files: their options, and what is printed of one file or of several.

``archive.batches`` does the work. A single file is printed as a summary, several as a line each in their
order. ``TEXTS`` says which texts a command prints.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from archive.app.verbs import VERBS, task_of
from archive.base.errors import ArchiveError, ImpossibleError, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.batches.batch import outcomes
from archive.batches.jobs import OutcomeKind, plan
from archive.batches.pool import dask_executor
from archive.batches.working import perform
from archive.cli import printing
from archive.cli.ending import sigterm_as_ctrl_c
from archive.cli.options import force_option, json_option, limit_option, no_map_option
from archive.cli.progress import tracker, working
from archive.cli.reading import note_left_out
from archive.cli.status import ExitStatus
from archive.companion.build import DEFAULT_LEVEL
from archive.io.output import STANDARD_OUTPUT
from archive.io.places import exists
from archive.io.urls import name_of
from archive.reader.halves.kept import KINDS
from archive.render import making, migrate, redact
from archive.render.making import Sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from click.decorators import FC

    from archive.batches.jobs import FilePlan, Outcome
    from archive.batches.working import Task
    from archive.render.document_facts import Made
    from archive.render.fitted_table import Printed

# --- texts


@dataclass(frozen=True, slots=True)
class CommandTexts:
    """The texts of one command.

    Attributes:
        doing: the progress bar's text.
        text: facts and sizes of a single file → its summary.
        line: facts and sizes of one of several files → one line.
        facts: facts → what JSON shows.
        planned: facts and the name of a single file → what a dry run says before the targets.
        planned_line: the same of one of several files, in one line.
    """

    doing: str
    text: Callable[..., Printed]
    line: Callable[..., str]
    facts: Callable[..., dict[str, Any]] = asdict
    planned: Callable[[Any, str], Printed] | None = None
    planned_line: Callable[[Any, str], str] | None = None


TEXTS = {
    "split": CommandTexts("splitting", making.split_text, making.split_line),
    "join": CommandTexts("joining", making.join_text, making.join_line),
    "shrink": CommandTexts("shrinking", making.shrink_text, making.size_line),
    "restore": CommandTexts("restoring", making.join_text, making.join_line),
    "redact": CommandTexts(
        "redacting",
        redact.redact_text,
        redact.redact_line,
        planned=redact.redact_plan_text,
        planned_line=redact.redact_plan_line,
    ),
    "redact_companion": CommandTexts(
        "redacting", redact.companion_redaction_text, redact.alone_redaction_line
    ),
    "redact_metadata": CommandTexts("redacting", redact.metadata_redaction_text, redact.alone_redaction_line),
    "redact_checkpoint": CommandTexts(
        "redacting", redact.checkpoint_redaction_text, redact.alone_redaction_line
    ),
    "migrate": CommandTexts(
        "migrating",
        migrate.migration_text,
        migrate.migration_line,
        migrate.migration_facts,
        migrate.plan_text,
        migrate.plan_line,
    ),
    "lite": CommandTexts("converting", making.lite_text, making.size_line),
    "canonicalise": CommandTexts("converting", making.canonical_text, making.size_line),
    "convert": CommandTexts("converting", making.convert_text, making.size_line),
}

# --- work


@dataclass(frozen=True, slots=True)
class FileMaker:
    """The options of every command that makes files out of files.

    Attributes:
        jobs: how many files are worked on at a time.
        force: replace existing files.
        as_json: print facts as JSON.
        mapped: map the files that are read.
        limits: what a hostile file may cost.
        dry_run: print what would be written, and write nothing.
        dask: address of the Dask scheduler whose workers do the work of several files; None for this machine.
        manifest: the file that notes the work on several files; None for the usual one.
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
    ) -> ExitStatus:
        """Do one thing to files, folders and globs, and print what came of it.

        Args:
            verb: the name of what is done.
            inputs: the files, folders and globs.
            out: the target, or the folder of targets.
            companion: the same for companions, which are read or written.
            options: the verb's own.
        """
        use, kinds = VERBS[verb].use, VERBS[verb].kinds
        work = plan(inputs, out, companion, use, kinds, manifest=self.manifest, mapped=self.mapped)
        task = task_of(
            verb,
            options,
            limits=self.limits,
            force=self.force,
            mapped=self.mapped,
            dry_run=self.dry_run,
            many=work.many,
        )
        return self.do(work, task, TEXTS[verb])

    def do(self, work: FilePlan, task: Task, texts: CommandTexts) -> ExitStatus:
        """Do all that is planned, and print what came of it."""
        if self.dask is not None and not work.many:
            raise ArchiveError("--dask is for several files", file=name_of(work.jobs[0].file))
        with sigterm_as_ctrl_c():
            try:
                return self._several(work, task, texts) if work.many else self._single(work, task, texts)
            except KeyboardInterrupt:
                printing.tell("interrupted")
                return ExitStatus.INTERRUPTED

    def _single(self, work: FilePlan, task: Task, texts: CommandTexts) -> ExitStatus:
        """Work on a single file and print its summary or facts; an error is raised."""
        job = work.jobs[0]
        streamed = job.streamed and not task.dry_run
        if streamed and sys.stdout.isatty():
            raise ArchiveError("refusing to write a binary model to a terminal", file=STANDARD_OUTPUT)
        bar = nullcontext() if streamed else working(f"{texts.doing} {name_of(job.file)}")
        naming = printing.naming(STANDARD_OUTPUT) if streamed else nullcontext()
        try:
            with bar, naming:  # what is streamed is written once it is complete; its summary goes aside
                outcome = perform(task, job, sys.stdout.buffer if streamed else None)
        except ArchiveError as error:
            facts = error.facts if isinstance(error, ImpossibleError) else None
            if self.as_json:
                kind = OutcomeKind.IMPOSSIBLE if isinstance(error, ImpossibleError) else OutcomeKind.FAILED
                refused: Made = {"file": name_of(job.file), "outcome": kind, "reason": str(error)}
                printing.write_document(refused | _own_facts(facts, texts), aside=streamed)
            elif task.dry_run and isinstance(error, ImpossibleError):
                _print_plan(facts, name_of(job.file), texts)
            raise
        if self.as_json:
            printing.write_document(_facts(outcome, texts), aside=streamed)
        elif self.dry_run:
            _print_plan(outcome.facts, name_of(outcome.file), texts)
            for line in _targets(outcome):
                printing.write_line(line)
        elif outcome.kind is OutcomeKind.NOTHING_TO_DO and outcome.facts is None:
            printing.show(making.copied_text(outcome.reason, *_sizes(outcome)), aside=streamed)
        else:
            printing.show(texts.text(outcome.facts, *_sizes(outcome)), aside=streamed)
        return _status_of(outcome)

    def _several(self, work: FilePlan, task: Task, texts: CommandTexts) -> ExitStatus:
        """Work on several files: a line each in their order, the total or all facts at the end."""
        finished: list[Outcome] = []
        with (
            nullcontext() if self.dask is None else dask_executor(self.dask) as executor,
            closing(outcomes(work, task, self.jobs, executor)) as results,
            tracker(texts.doing, len(work.jobs)) as lines,
        ):
            for outcome in lines.track(results):
                finished.append(outcome)
                if outcome.kind is OutcomeKind.FAILED:
                    lines.tell(f"{_name(outcome)}: {outcome.reason}")
                elif not self.as_json:
                    lines.write_line(self._line(outcome, texts))
        note_left_out(work.others)
        if self.as_json:
            printing.write_document(*(_facts(outcome, texts) for outcome in finished))
        else:
            kinds = Counter(outcome.kind for outcome in finished)
            sizes = [outcome.sizes for outcome in finished if outcome.sizes]
            sums = [sum(each[place] for each in sizes if len(each) > place) for place in range(3)]
            counts = [(kind, kinds[kind]) for kind in OutcomeKind if kinds[kind]]
            printing.write_line(making.total_line(len(finished), counts, *sums))
        return max(map(_status_of, finished))

    def _line(self, outcome: Outcome, texts: CommandTexts) -> str:
        """A file of several, in one line."""
        if outcome.kind is OutcomeKind.SAME:
            return f"{_name(outcome)}: {outcome.kind}"
        if not outcome.outputs:
            return f"{_name(outcome)}: {outcome.kind}: {outcome.reason}"
        made = outcome.kind in {OutcomeKind.DONE, OutcomeKind.TO_DO}
        again = f"; {outcome.reason}" if made and outcome.reason else ""
        if self.dry_run:
            targets = list(_targets(outcome))
            if outcome.facts is not None and texts.planned_line is not None:
                targets.insert(0, texts.planned_line(outcome.facts, name_of(outcome.file)))
            else:
                targets[0] = f"{_name(outcome)}: {targets[0]}"
            return "; ".join(targets) + again
        if outcome.kind is OutcomeKind.NOTHING_TO_DO and outcome.facts is None:
            return f"{_name(outcome)}: {outcome.kind}: {outcome.reason}; copied"
        return texts.line(outcome.facts, *_sizes(outcome)) + again


def _print_plan(facts: object, file: str, texts: CommandTexts) -> None:
    """Print the steps that are planned, where that is more than the targets."""
    if facts is not None and texts.planned is not None:
        printing.show(texts.planned(facts, file))


def _targets(outcome: Outcome) -> Iterator[str]:
    """What a dry run says of a file's targets, and why, where that is not as usual."""
    if outcome.facts is None:
        yield f"{outcome.kind}: {outcome.reason}"
    for path, output in zip(outcome.written, outcome.outputs, strict=True):
        replaced = not outcome.job.streamed and exists(path)
        yield making.would_text(Sized(name_of(path), output.size), replaced=replaced)


def _name(outcome: Outcome) -> str:
    return one_line(name_of(outcome.file))


def _status_of(outcome: Outcome) -> ExitStatus:
    if outcome.is_internal:
        return ExitStatus.INTERNAL
    if outcome.kind is OutcomeKind.FAILED:
        return ExitStatus.FAILED
    well = outcome.kind is not OutcomeKind.IMPOSSIBLE and outcome.is_clean
    return ExitStatus.WELL if well else ExitStatus.FINDINGS


def _sizes(outcome: Outcome) -> list[Sized]:
    """Input, output, and the companion if there is one, with their sizes."""
    job = outcome.job
    paths = (job.file, job.out, job.companion)
    return [Sized(name_of(path), size) for path, size in zip(paths, outcome.sizes, strict=False)]


def _facts(outcome: Outcome, texts: CommandTexts) -> Mapping[str, object]:
    """An outcome for JSON."""
    paths = dict(zip(("file", "out", "companion"), (file.name for file in _sizes(outcome)), strict=False))
    made: dict[str, object] = {"file": name_of(outcome.file), **paths, "outcome": outcome.kind}
    if outcome.reason:
        made["reason"] = outcome.reason
    return made | _own_facts(outcome.facts, texts)


def _own_facts(facts: object, texts: CommandTexts) -> dict[str, Any]:
    """The keys of a command's own result."""
    return {} if facts is None else texts.facts(facts)


# --- options

MAX_LEVEL = 19
"""zstd's level for ``--max``. Levels above it need much memory for reading, too."""

max_option = click.option(
    "--max",
    "strength",
    flag_value=MAX_LEVEL,
    type=int,
    default=DEFAULT_LEVEL,
    help="Compress the companion further; takes longer.",
)
_inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="IN...", type=click.Path())
_output_option = click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="OUT",
    type=click.Path(),
    help="File or folder to write; - for standard output, where one file is written.",
)
_jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of CPUs",
    help="How many files to work on at a time.",
)
_dask_option = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Let the workers of this Dask scheduler do the work on several files. They see the same files by "
    "the same absolute paths.",
)
_manifest_option = click.option(
    "--manifest",
    metavar="FILE.jsonl",
    type=click.Path(),
    show_default="COMPANION/manifest.jsonl where companions are written, else OUT.manifest.jsonl",
    help="Progress file for several inputs; a second run resumes from it.",
)
_dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be written, and write nothing."
)


def companion_option(usual: str, words: str) -> Callable[[FC], FC]:
    """``--companion``, with the file that it defaults to and its help text."""
    return click.option(
        "-c", "--companion", metavar="COMPANION", type=click.Path(), show_default=usual, help=words
    )


def handles_options(usual: str) -> Callable[[FC], FC]:
    """``--handles``, with its default, and ``--salt``; the verb decides where no option is given."""
    handles: Callable[[FC], FC] = click.option(
        "--handles",
        type=click.Choice(["unique", "keep", "drop"]),
        show_default=usual,
        help="By mobile_debug_handles.pkl failures on a device name their handles; unique ones name the "
        "archive, too: 18 digits, of which the first ten are the archive's.",
    )
    salt: Callable[[FC], FC] = click.option(
        "--salt",
        metavar="TEXT",
        default="",
        help="Any text: unique handles get other first digits, where another archive has the same.",
    )
    return lambda command: handles(salt(command))


def kinds_options(command: FC) -> FC:
    """``--keep`` and ``--drop``: which debug info stays in exported programs and compiled models."""
    kinds = click.Choice(list(KINDS))
    keep: Callable[[FC], FC] = click.option(
        "--keep",
        multiple=True,
        type=kinds,
        help="Debug info that stays in a .pt2; the companion has it, too. Repeatable.",
    )
    drop: Callable[[FC], FC] = click.option(
        "--drop",
        multiple=True,
        type=kinds,
        help="Debug info that does not: without modules, torch.export.unflatten does not work.",
    )
    return keep(drop(command))


def layout_option(**settings: Any) -> Callable[[FC], FC]:  # noqa: ANN401 (as click takes them)
    """``--layout``, with click's settings for whether it must be given."""
    return click.option(
        "--layout",
        type=click.Choice(["packed", "mapped"]),
        help="Of the companion: small, or opened in no time at any size.",
        **settings,
    )


def check_max(layout: str, strength: int) -> None:
    """Refuse ``--max`` where nothing is compressed.

    Raises:
        UsageError: the companion is a mapped one.
    """
    if strength == MAX_LEVEL and layout != "packed":
        raise click.UsageError("--max is for packed companions; a mapped one is not compressed")


def takes_files(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
    """Let a command take ``IN...`` as ``inputs`` and ``--output`` as ``out``; the outermost decorator."""
    return _inputs_argument(_output_option(command))


def takes_maker(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
    """Let a command take the options of :class:`FileMaker` as one ``maker``; the innermost decorator."""

    @wraps(command)
    def with_maker(
        *,
        jobs: int,
        dask: str | None,
        manifest: str | None,
        force: bool,
        dry_run: bool,
        mapped: bool,
        limits: Limits,
        as_json: bool,
        **others: object,
    ) -> ExitStatus:
        maker = FileMaker(jobs, force, as_json, mapped, limits, dry_run, dask, manifest)
        return command(**others, maker=maker)

    shown = no_map_option(limit_option(json_option()(with_maker)))
    return _jobs_option(_dask_option(_manifest_option(force_option()(_dry_run_option(shown)))))
