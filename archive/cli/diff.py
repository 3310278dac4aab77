"""``debug-archive diff``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

import archive
from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.cli import options, printing
from archive.cli.files import Row
from archive.cli.forms import ROW_FORMS
from archive.cli.reading import takes_reader
from archive.cli.status import Cause, ExitStatus, status_of
from archive.compare.sameness import IGNORABLE, Level
from archive.formats.record_kinds import holds_ranges
from archive.io.mapped import source_of
from archive.io.places import is_folder
from archive.io.urls import name_of
from archive.reader.recognition import OPENED_KINDS, listed_kind, recognise
from archive.reader.recognition.kinds import FOLDER_KINDS, LOGS
from archive.render.diff import diff_facts, diff_text, summary_line
from archive.render.documents import Unread
from archive.render.rows import DIFF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Archive, Diff, Limits
    from archive.batches.inputs import InputFile
    from archive.batches.outcome import Reading
    from archive.cli.reading import FileReader
    from archive.render.diff import DiffFacts


@click.command("diff")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "-c",
    "--companion",
    "companions",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="The companion of OLD, of NEW or of both; the archive id says which. May be repeated.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice([level.value for level in IGNORABLE]),
    help="Leave out differences of this level: `extras` (extra files, sample inputs), `debug` "
    "(source, ranges, handles), `layout` (how records are stored), `ids` (numbers of a process or save), "
    "`format` (versions, kinds). May be repeated.",
)
@click.option("--stat", is_flag=True, help="Count lines instead of showing them.")
@options.top_option("Differences of each level to show; 0 for all, with all of their lines.")
@takes_reader(*ROW_FORMS)
def command(
    old: str,
    new: str,
    *,
    companions: tuple[str, ...],
    ignored: tuple[str, ...],
    stat: bool,
    rows: int,
    reader: FileReader,
) -> ExitStatus:
    """Show what differs between OLD and NEW, from the model down to the line of its source.

    Tensors are compared element by element, attributes by value, code by function, exported programs by
    node; records, numbers and mangled names that a process chooses do not count as differences of the model.
    Two files of different kinds are compared in what both have: a checkpoint and its safetensors in their
    tensors. Two folders are compared file by file, by relative path.

    "same model" is said only if everything that belongs to the model was compared.

    \b
    Examples:
      debug-archive diff old.pt new.pt
      debug-archive diff epoch1.pt epoch2.pt --stat
      debug-archive diff old.pt migrated.pt --ignore format --ignore layout
      debug-archive diff release-1/ release-2/ --ignore debug --ignore ids
      debug-archive diff split.ptl new.ptl -c split.ptdbg
    """  # noqa: D301 (click reads the backspace)
    question = _PairQuestion(new, companions, tuple(map(Level, ignored)), reader.limits, reader.mapped)
    if is_folder(old) != is_folder(new):
        raise click.UsageError("compare two files or two folders, not a file with a folder")
    if is_folder(old):
        if companions:
            raise click.UsageError("-c is for two files, not for folders")
        return _folders(old, question, reader, rows, stat=stat)
    diff = question.of_pair(old, new)
    if reader.as_json:
        facts = diff_facts(diff)
        printing.write_document({"file": diff.new, **facts} if reader.form in ROW_FORMS else facts, text=DIFF)
    else:
        printing.show_lines(diff_text(diff, rows, stat=stat))
    return _status(diff)


def _folders(old: str, question: _PairQuestion, reader: FileReader, rows: int, *, stat: bool) -> ExitStatus:
    """Compare the files of the same relative paths, and list those that only one folder has."""

    def row(reading: Reading[Diff | None]) -> Row:
        name, diff = reading.job.relative, reading.facts
        if reading.has_failed:
            unread = Unread(file=name, error=reading.problem)
            return Row(status_of(reading), unread, notes=[reading.problem])
        if diff is None:
            return Row(Cause.DIFFERS.status, {"file": name, "status": "gone"}, [f"{name}: gone"])
        facts: DiffFacts = {"file": name, **diff_facts(diff)}
        if stat or not diff.changes:
            return Row(_status(diff), facts, [f"{name}: {summary_line(diff)}"])
        return Row(_status(diff), facts, styled=diff_text(diff, rows))

    files = reader.listing([old], FOLDER_KINDS["diff"])
    paths = {file.relative for file in files.files}
    others = reader.listing([question.new], FOLDER_KINDS["diff"]).files
    more = [_added(file, reader) for file in others if file.relative not in paths]
    return reader.several(files, question.of, "comparing", row, more=more, text=DIFF)


def _added(file: InputFile, reader: FileReader) -> Row:
    """The row of a file that only the new folder has; an error where it should be a model and isn't one."""
    from archive.batches.inputs import is_false_model  # noqa: PLC0415 (only folders need it)

    kind = listed_kind(file.name, mapped=reader.mapped)
    if kind is not None and is_false_model(file.name, kind):
        refusal = recognise(reader.source(file.name), limits=reader.limits).refusal(file.label)
        why = one_line(str(refusal))
        return Row(Cause.UNDONE.status, Unread(file=file.relative, error=why), notes=[why])
    name = file.relative
    return Row(Cause.DIFFERS.status, {"file": name, "status": "added"}, [f"{name}: added"])


def _status(diff: Diff) -> ExitStatus:
    return Cause.DIFFERS.when(diff.changes)


@dataclass(frozen=True, slots=True)
class _PairQuestion:
    """What is asked of each pair of files, in whichever process; ``new`` is the new file or folder."""

    new: str
    companions: Sequence[str]
    ignored: Sequence[Level]
    limits: Limits
    mapped: bool

    def of(self, file: InputFile) -> Diff | None:
        """The difference of a file of the old folder from that of the new one; None if that is missing."""
        other = file.in_folder(self.new)
        return None if other is None else self.of_pair(file.name, other)

    def of_pair(self, old: str, new: str) -> Diff:
        """The difference of two files."""
        with ExitStack() as stack:
            files = [stack.enter_context(self._opened(name)) for name in (old, new)]
            paired = [files[0], files[1]]
            for companion in self.companions:
                with archive.open(source_of(companion, mapped=self.mapped), limits=self.limits) as opened:
                    identity = opened.archive_id
                fitting = [at for at, file in enumerate(files) if file.archive_id == identity]
                if not fitting:
                    raise ArchiveError("is the companion of neither file", file=name_of(companion))
                lacking = [at for at in fitting if not any(holds_ranges(name) for name in files[at].records)]
                for at in lacking or fitting:
                    paired[at] = stack.enter_context(self._opened((old, new)[at], companion))
            return archive.diff(*paired, ignore=self.ignored)

    def _opened(self, name: str, companion: str | None = None) -> Archive:
        try:
            return archive.open(
                source_of(name, mapped=self.mapped),
                companion=None if companion is None else source_of(companion, mapped=self.mapped),
                limits=self.limits,
                name=name_of(name),
                kinds=OPENED_KINDS,
            )
        except ArchiveError as error:
            error.problem = error.problem.removesuffix(f"; {LOGS}")  # nobody compares a model with a log
            raise
