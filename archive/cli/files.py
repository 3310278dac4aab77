"""Commands about files: the options that all of them have, and the loop that prints what came of each file.

A command finds files, says what is done with one, in whichever process, and which :class:`Row` it prints of
one; ``reading`` is for those that print facts, ``making`` for those that make files. All else is here.
"""

from __future__ import annotations

import sys
from contextlib import closing
from os.path import isfile
from typing import TYPE_CHECKING, Any, TypeVar

import click

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.cli import printing
from archive.cli.ending import sigterm_as_ctrl_c
from archive.cli.forms import SARIF
from archive.cli.progress import Tracker, tracker
from archive.cli.showing import showing
from archive.cli.status import Cause, ExitStatus, status_of
from archive.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from click.decorators import FC

    from archive import Limits
    from archive.batches.inputs import OtherFiles
    from archive.batches.outcome import Outcome
    from archive.describe.totals import Totals
    from archive.reader.recognition import FileKind
    from archive.render.ci import SarifResult
    from archive.render.fitted_table import Printed

OutcomeT = TypeVar("OutcomeT", bound="Outcome[Any, Any]")

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())


def jobs_option(what: str, usual: str) -> Callable[[FC], FC]:
    """``--jobs``, with what is done with files, and how many at a time if it is not given."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        show_default=usual,
        help=f"How many files to {what} at a time.",
    )


@dataclass(frozen=True, slots=True)
class Row:
    """What is printed of one of several files.

    Attributes:
        status: the exit status that the file stands for.
        facts: its object in the document.
        lines: lines of standard output, where no facts are printed.
        styled: the same with a style each, which a terminal shows.
        on_terminal: what a terminal shows in the place of ``lines``; nothing if it shows them.
        notes: lines of standard error.
        results: its findings in SARIF.
    """

    status: ExitStatus = ExitStatus.WELL
    facts: object = None
    lines: Iterable[str] = ()
    styled: Iterable[tuple[str, str]] = ()
    on_terminal: Printed = ()
    notes: Iterable[str] = ()
    results: Iterable[SarifResult] = ()


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of every command about files; ``as_json`` is whether facts are printed, in any form."""

    jobs: int | None
    mapped: bool
    limits: Limits
    as_json: bool

    @property
    def as_sarif(self) -> bool:
        """Whether findings are printed as SARIF, for code scanners."""
        return showing.form == SARIF

    def show(
        self,
        outcomes: Generator[OutcomeT],
        count: int,
        doing: str,
        row_of: Callable[[OutcomeT], Row],
        *,
        others: OtherFiles,
        more: Iterable[Row] = (),
        rules: Mapping[str, str] | None = None,
        text: printing.AnyText = None,
        totals: Totals | None = None,
    ) -> ExitStatus:
        """Print a row of each file, in their order, as soon as it is there.

        Args:
            outcomes: what comes of each file.
            count: how many there are.
            doing: the progress bar's text.
            row_of: gives the row of a file.
            others: files in folders that the command does not take, for a note.
            more: rows that are of no file.
            rules: kinds of findings, and a sentence about each; for SARIF.
            text: the form that ``--format`` asks for, if not every command has it.
            totals: the sums of all files, which ``row_of`` adds up; for JSON.

        Returns:
            The gravest status of a row.
        """
        status = ExitStatus.WELL
        document = printing.facts_document(text) if self.as_json else None
        results: list[SarifResult] = []

        def write(row: Row, beside_bar: Tracker) -> None:
            nonlocal status
            status = max(status, row.status)
            for line in row.notes:
                (beside_bar.print_error if row.status >= Cause.UNDONE.status else beside_bar.note)(line)
            if self.as_sarif:
                results.extend(row.results)
            elif document is not None:
                if row.facts is not None:
                    document.add(row.facts)
            elif row.on_terminal and sys.stdout.isatty():
                with beside_bar.cleared():
                    printing.show(row.on_terminal, may_page=False)
            elif row.styled or (row.lines and sys.stdout.isatty()):
                lines = row.styled or ((one_line(line), "") for line in row.lines)
                with beside_bar.cleared():
                    printing.show_lines(lines, may_page=False)
            else:
                for line in row.lines:
                    beside_bar.write_line(line)

        is_document = self.as_json or self.as_sarif
        with sigterm_as_ctrl_c(), closing(outcomes), tracker(doing, count, as_json=is_document) as beside_bar:
            for outcome in beside_bar.track(outcomes):
                write(row_of(outcome), beside_bar)
        note_left_out(others)
        for row in more:
            write(row, Tracker(None, doing, 0))
        if self.as_sarif:
            printing.write_sarif(rules or {}, results)
        elif document is not None:
            document.end(totals)
        return status


def is_single(files: Sequence[str]) -> bool:
    """Whether one file is given, and neither a folder nor a glob."""
    if len(files) == 1 and not is_url(files[0]) and isfile(files[0]):  # noqa: PTH113 (pathlib costs start-up)
        return True
    from archive.batches.inputs import names_several  # noqa: PLC0415 (a single file does without)

    return len(files) == 1 and not names_several(files[0])


def note_left_out(others: Mapping[FileKind, int]) -> None:
    """Note what a search has found and the command does not take, if there is some."""
    if others:
        printing.note(f"skipped, files of other kinds: {others}")


def unread_row(outcome: Outcome[Any, Any]) -> Row:
    """The row of a file that could not be read."""
    from archive.render.documents import Unread  # noqa: PLC0415 (most files can be read)

    why = outcome.problem
    return Row(status_of(outcome), Unread(file=outcome.job.label, error=why), notes=[why])
