"""Commands that make files out of files: their options, and what is printed of one file or of several.

``archive.batches`` does the work. A single file is printed as a summary, several as a line each.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import asdict, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from archive.app.verbs import planned, task_of
from archive.base.cores import using_cores
from archive.base.errors import ArchiveError, ImpossibleError, one_line
from archive.base.quick_dataclass import dataclass
from archive.batches.manifest import outcomes_of
from archive.batches.outcome import OutcomeKind
from archive.batches.pool import dask_executor
from archive.batches.working import perform
from archive.cli import printing
from archive.cli.ending import sigterm_as_ctrl_c
from archive.cli.files import FileOptions, Row, jobs_option
from archive.cli.forms import facts_options
from archive.cli.options import force_option, limit_option, no_map_option
from archive.cli.progress import working
from archive.cli.status import status_of
from archive.companion.build import DEFAULT_LEVEL
from archive.io.output import STANDARD_OUTPUT
from archive.io.places import exists
from archive.io.urls import name_of
from archive.reader.halves.kept import KIND_BY_WORD
from archive.render import making
from archive.render.making import Sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from click.decorators import FC

    from archive.batches.jobs import FilePlan, Job
    from archive.batches.working import Made, Task
    from archive.cli.status import ExitStatus
    from archive.render import documents
    from archive.render.fitted_table import Printed


class VerbTexts(NamedTuple):
    """What a command does, and what it prints.

    Attributes:
        verb: what is done, a row of :data:`archive.app.verbs.VERBS`.
        doing: the progress bar's text.
        text: facts and sizes of a single file → its summary.
        line: facts and sizes of one of several files → one line.
        facts: facts → what JSON shows.
        planned: facts and the name of a single file → what a dry run says before the targets.
        planned_line: the same of one of several files, in one line.
        back: the command that gives the original again; "" where none does.
        total: facts of the files that were made, and how many were left → what the last line says of them.
    """

    verb: str
    doing: str
    text: Callable[..., Printed]
    line: Callable[..., str]
    facts: Callable[..., dict[str, Any]] = asdict
    planned: Callable[[Any, str], Printed] | None = None
    planned_line: Callable[[Any, str], str] | None = None
    back: str = ""
    total: Callable[[Sequence[Any], int], str] | None = None


# --- work


@dataclass(frozen=True, slots=True)
class FileMaker(FileOptions):
    """The options of every command that makes files out of files.

    Attributes:
        out: the target, or the folder of targets.
        companion: the same for companions, which are read or written.
        dask: address of the Dask scheduler whose workers do the work of several files; None for this machine.
        manifest: the file that notes the work on several files; None for the usual one.
    """

    inputs: Sequence[str] = ()
    out: str = ""
    companion: str | None = None
    force: bool = False
    dry_run: bool = False
    dask: str | None = None
    manifest: str | None = None

    def run(self, texts: VerbTexts, **options: object) -> ExitStatus:
        """Do one thing to the files, by the options of the library's function; print what came of it."""
        verb, mapped = texts.verb, self.mapped
        work = planned(verb, self.inputs, self.out, self.companion, manifest=self.manifest, mapped=mapped)
        common = {"limits": self.limits, "force": self.force, "dry_run": self.dry_run}
        return self.do(work, task_of(verb, options, mapped=mapped, many=work.many, **common), texts)

    def do(self, work: FilePlan, task: Task, texts: VerbTexts) -> ExitStatus:
        """Do all that is planned, and print what came of it."""
        if work.many:
            with using_cores(self.jobs):
                return self._several(work, task, texts)
        if self.dask is not None:
            raise ArchiveError("--dask is for several files", file=work.jobs[0].label)
        with sigterm_as_ctrl_c(), using_cores(self.jobs):
            return self._single(work.jobs[0], task, texts)

    def _single(self, job: Job, task: Task, texts: VerbTexts) -> ExitStatus:
        """Work on a single file and print its summary or facts; an error is raised."""
        streamed = job.streamed and not task.dry_run
        if streamed and sys.stdout.isatty():
            raise ArchiveError("refusing to write a binary model to a terminal", file=STANDARD_OUTPUT)
        bar = nullcontext() if streamed else working(f"{texts.doing} {job.label}")
        naming = printing.naming(STANDARD_OUTPUT) if streamed else nullcontext()
        try:
            with bar, naming:  # what is streamed is written once it is complete; its summary goes aside
                outcome = perform(task, job, sys.stdout.buffer if streamed else None)
        except ArchiveError as error:
            facts = error.facts if isinstance(error, ImpossibleError) else None
            if self.as_json:
                kind = OutcomeKind.IMPOSSIBLE if isinstance(error, ImpossibleError) else OutcomeKind.FAILED
                refused: documents.Made = {"file": job.label, "outcome": kind, "reason": str(error)}
                printing.write_document(refused | _own_facts(facts, texts), aside=streamed)
            elif task.dry_run and isinstance(error, ImpossibleError):
                _print_plan(facts, job.label, texts)
            raise
        if self.as_json:
            printing.write_document(_facts(outcome, texts), aside=streamed)
        elif self.dry_run:
            _print_plan(outcome.facts, outcome.job.label, texts)
            for line in _targets(outcome):
                printing.write_line(line)
        elif outcome.kind is OutcomeKind.NOTHING_TO_DO and outcome.facts is None:
            printing.show(making.copied_text(outcome.reason, *_sizes(outcome)), aside=streamed)
        else:
            printing.show(texts.text(outcome.facts, *_sizes(outcome)), aside=streamed)
        return status_of(outcome)

    def _several(self, work: FilePlan, task: Task, texts: VerbTexts) -> ExitStatus:
        """Work on several files: a line each in their order, and the total."""
        finished: list[Made] = []

        def row(outcome: Made) -> Row:
            finished.append(outcome)
            notes = [f"{_name(outcome)}: {outcome.reason}"] if outcome.has_failed else []
            facts = _facts(outcome, texts) if self.as_json else None
            lines = [] if notes or self.as_json else [self._line(outcome, texts)]
            return Row(status_of(outcome), facts, lines, notes=notes)

        with nullcontext() if self.dask is None else dask_executor(self.dask) as executor:
            workers = self.jobs or os.cpu_count() or 1
            made = outcomes_of(work, task, workers, executor)
            status = self.show(made, len(work.jobs), texts.doing, row, others=work.others)
        if not self.as_json:
            kinds = Counter(outcome.kind for outcome in finished)
            sizes = [outcome.sizes for outcome in finished if outcome.sizes]
            sums = [sum(each[place] for each in sizes if len(each) > place) for place in range(3)]
            counts = [(kind, kinds[kind]) for kind in OutcomeKind if kinds[kind]]
            total = making.total_line(len(finished), counts, sums, _unmade(finished))
            printing.write_line(total + _backs(finished, texts))
            if self.dry_run and work.model_bytes and sums[0]:
                printing.write_line(making.whole_line(work.model_bytes, *sums[:2]))
        return status

    def _line(self, outcome: Made, texts: VerbTexts) -> str:
        """A file of several, in one line."""
        if outcome.kind is OutcomeKind.SAME:
            return f"{_name(outcome)}: {outcome.kind}" + _back(outcome, texts)
        if not outcome.outputs:
            return f"{_name(outcome)}: {outcome.kind}: {outcome.reason}"
        made = outcome.kind in {OutcomeKind.DONE, OutcomeKind.TO_DO}
        again = f"; {outcome.reason}" if made and outcome.reason else ""
        if self.dry_run:
            targets = list(_targets(outcome))
            if outcome.facts is not None and texts.planned_line is not None:
                targets.insert(0, texts.planned_line(outcome.facts, outcome.job.label))
            else:
                targets[0] = f"{_name(outcome)}: {targets[0]}"
            return "; ".join(targets) + again + _back(outcome, texts)
        if outcome.kind is OutcomeKind.NOTHING_TO_DO and outcome.facts is None:
            return f"{_name(outcome)}: {outcome.kind}: {outcome.reason}; copied"
        return texts.line(outcome.facts, *_sizes(outcome)) + again + _back(outcome, texts)


def _back(outcome: Made, texts: VerbTexts) -> str:
    """What a row adds where the original does not come back to the byte."""
    return making.back_note(texts.back) if texts.back and not outcome.is_given_back else ""


def _unmade(finished: Sequence[Made]) -> str:
    """What the last line says of files whose bytes are in no sum, since nothing was made of them."""
    unmade = [outcome for outcome in finished if not outcome.sizes]
    kinds, size = Counter(outcome.kind for outcome in unmade), None
    with suppress(OSError):  # gone, or elsewhere
        size = sum(Path(outcome.job.name).stat().st_size for outcome in unmade)
    return making.unmade_text([(kind, kinds[kind]) for kind in OutcomeKind if kinds[kind]], size)


def _backs(finished: Sequence[Made], texts: VerbTexts) -> str:
    """What the last line adds about the originals of all files that are made."""
    if texts.total is not None:
        facts = [outcome.facts for outcome in finished if outcome.outputs and outcome.facts is not None]
        return texts.total(facts, sum(outcome.kind is OutcomeKind.SAME for outcome in finished))
    copied = OutcomeKind.NOTHING_TO_DO
    made = [outcome for outcome in finished if outcome.outputs and outcome.kind is not copied]
    layouts = sum(not outcome.is_given_back for outcome in made)
    return making.back_total(len(made), layouts, texts.back) if texts.back else ""


def _print_plan(facts: object, file: str, texts: VerbTexts) -> None:
    """Print the steps that are planned, where that is more than the targets."""
    if facts is not None and texts.planned is not None:
        printing.show(texts.planned(facts, file))


def _targets(outcome: Made) -> Iterator[str]:
    """What a dry run says of a file's targets, and why, where that is not as usual."""
    if outcome.facts is None:
        yield f"{outcome.kind}: {outcome.reason}"
    for path, output in zip(outcome.written, outcome.outputs, strict=True):
        replaced = not outcome.job.streamed and exists(path)
        yield making.would_text(Sized(name_of(path), output.size), replaced=replaced)


def _name(outcome: Made) -> str:
    return one_line(outcome.job.label)


def _sizes(outcome: Made) -> list[Sized]:
    """Input, output, and the companion if there is one, with their sizes."""
    job = outcome.job
    paths = (job.name, job.out, job.companion)
    return [Sized(name_of(path), size) for path, size in zip(paths, outcome.sizes, strict=False)]


def _facts(outcome: Made, texts: VerbTexts) -> Mapping[str, object]:
    """An outcome for JSON."""
    paths = dict(zip(("file", "out", "companion"), (file.name for file in _sizes(outcome)), strict=False))
    made: dict[str, object] = {"file": outcome.job.label, **paths, "outcome": outcome.kind}
    if outcome.reason:
        made["reason"] = outcome.reason
    return made | _own_facts(outcome.facts, texts)


def _own_facts(facts: object, texts: VerbTexts) -> dict[str, Any]:
    """The keys of a command's own result."""
    return {} if facts is None else texts.facts(facts)


# --- options

MAX_LEVEL = 19
"""zstd's level for ``--max``. Levels above it need much memory for reading, too."""


def max_option(name: str) -> Callable[[FC], FC]:
    """``--max``; the command takes it by the name that the library's function has for it."""
    return click.option(
        "--max",
        name,
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
    kinds = click.Choice(list(KIND_BY_WORD))
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


def takes_files(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
    """``IN...`` and ``--output``, which the maker has; the outermost decorator."""
    return _inputs_argument(_output_option(command))


def takes_maker(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
    """Let a command take the options of :class:`FileMaker` as one ``maker``; the innermost decorator."""

    @wraps(command)
    def with_maker(**given: Any) -> ExitStatus:  # noqa: ANN401 (as click gives them)
        own = {field.name: given.pop(field.name) for field in fields(FileMaker) if field.name in given}
        return command(**given, maker=FileMaker(**own))

    shown = no_map_option(limit_option(facts_options()(with_maker)))
    shown = _dask_option(_manifest_option(force_option()(_dry_run_option(shown))))
    return jobs_option("work on", "number of CPUs")(shown)
