"""Commands that read many files: their options, the loop over files, and what is printed of each file.

A reading command says which kinds of files it takes, how it reads one, in whichever process, and which
:class:`Row` it prints of one. All else is here.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing, nullcontext
from functools import partial, wraps
from os.path import isfile
from typing import TYPE_CHECKING, TypeVar

import click

from archive import __version__
from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.cli import printing
from archive.cli.ci import Annotations, annotations_of, annotations_option, sarif_option
from archive.cli.ending import sigterm_as_ctrl_c
from archive.cli.options import json_option, limit_option, no_map_option
from archive.cli.progress import Tracker, tracker
from archive.cli.status import ExitStatus
from archive.io.mapped import source_of
from archive.io.urls import is_url
from archive.render.ci import sarif

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from click.decorators import FC

    from archive import Limits
    from archive.batches.inputs import InputFile
    from archive.batches.noted import Notes
    from archive.batches.reading import FoundFiles, Reading
    from archive.io.mapped import Source
    from archive.reader.recognition import FileKind
    from archive.render.ci import SarifResult
    from archive.render.documents import Totals
    from archive.render.fitted_table import Printed

FactsT = TypeVar("FactsT")
FEW = 32
"""Up to this many files take less time in one process than processes take to start."""

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
_jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    show_default=f"number of CPUs; 1 for up to {FEW} files",
    help="How many files to read at a time.",
)
TEXT, JSON, CSV, HTML = "text", "json", "csv", "html"
FOLDED, SPEEDSCOPE = "folded", "speedscope"
FORMS = {
    CSV: "rows of CSV under a line of headings",
    HTML: "a page of the inventory for a browser",
    FOLDED: "stacks of bytes for flamegraph.pl (of two files with --base)",
    SPEEDSCOPE: "the same for speedscope.app",
}
"""What ``--format`` prints besides tables and JSON."""


def _format_option(forms: Sequence[str]) -> Callable[[FC], FC]:
    *first, last = (FORMS[form] for form in forms)
    return click.option(
        "--format",
        "form",
        type=click.Choice([TEXT, JSON, *forms]),
        default=TEXT,
        show_default=True,
        help=f"Print tables and lines, JSON as --json does, {'; '.join([*first, f'or {last}'])}.",
    )


@dataclass(frozen=True, slots=True)
class Row:
    """What is printed of one of several files.

    Attributes:
        status: the exit status that the file stands for.
        facts: with ``--json``: its object in the document.
        lines: lines of standard output, without ``--json`` and ``--sarif``.
        styled: the same with a style each, which a terminal shows.
        on_terminal: what a terminal shows in the place of ``lines``; nothing if it shows them.
        notes: lines of standard error.
        results: with ``--sarif``: its findings.
    """

    status: ExitStatus = ExitStatus.WELL
    facts: object = None
    lines: Iterable[str] = ()
    styled: Iterable[tuple[str, str]] = ()
    on_terminal: Printed = ()
    notes: Iterable[str] = ()
    results: Iterable[SarifResult] = ()


@dataclass(frozen=True, slots=True)
class FileReader:
    """The options of every command that reads files, and the loop over several files.

    Attributes:
        jobs: the number of processes, if it is given.
        mapped: whether files are mapped.
        limits: what a hostile file may cost.
        as_json: whether facts are printed, in whichever form.
        as_sarif: whether findings are printed as SARIF.
        annotations: take what a CI shows beside files.
        form: of facts that are printed: JSON, CSV and so on.
    """

    jobs: int | None
    mapped: bool
    limits: Limits
    as_json: bool
    as_sarif: bool
    annotations: Annotations
    form: str = TEXT

    def source(self, file: str) -> Source:
        """What a file's bytes are read from."""
        return source_of(file, mapped=self.mapped)

    def document(
        self, text: printing.FactsText | None
    ) -> printing.JsonDocument | printing.TextDocument | None:
        """What facts are written to; None where they are not printed.

        Args:
            text: the form that ``--format`` asks for, if that is not JSON.
        """
        if self.form in FORMS and text is not None:
            return printing.TextDocument(text)
        return printing.JsonDocument() if self.as_json else None

    def of_bytes(self, function: Callable[..., FactsT], **options: object) -> Callable[[InputFile], FactsT]:
        """A function of a file, in whichever process, that calls one of its bytes with limits and options."""
        given = {"limits": self.limits, **options}
        return partial(_call_with_bytes, function=function, mapped=self.mapped, options=given)

    def listing(
        self, inputs: Sequence[str], kinds: Collection[FileKind], skipped: Collection[str] = ()
    ) -> FoundFiles:
        """The files that are given or found; see :func:`archive.batches.reading.listing`."""
        from archive.batches.reading import listing  # noqa: PLC0415 (a single file does without)

        return listing(inputs, kinds, skipped, mapped=self.mapped)

    def several(
        self,
        files: FoundFiles,
        read: Callable[[InputFile], FactsT],
        doing: str,
        row_of: Callable[[Reading[FactsT]], Row],
        *,
        more: Iterable[Row] = (),
        rules: Mapping[str, str] | None = None,
        text: printing.FactsText | None = None,
        notes: Notes[FactsT] | None = None,
        totals: Callable[[], Totals | None] = lambda: None,
    ) -> ExitStatus:
        """Read files, and print a row of each, in their order, as soon as it is there.

        Args:
            files: the files; those in folders that no command takes are counted in a note.
            read: gives the facts of a file; it and they can be pickled.
            doing: the progress bar's text.
            row_of: gives the row of a file; it is called in this process.
            more: rows that are of no file.
            rules: kinds of findings, and a sentence about each; for SARIF.
            text: the form that ``--format`` asks for, if that is not JSON.
            notes: where facts are noted, and taken from.
            totals: gives the sums of all files, once they are read; for JSON.

        Returns:
            The gravest status of a row.
        """
        from archive.batches.reading import readings  # noqa: PLC0415 (a single file does without)

        count = len(files.files)
        workers = self.jobs or (1 if count <= FEW else os.cpu_count() or 1)
        status = ExitStatus.WELL
        document = self.document(text)
        results: list[SarifResult] = []

        def write(row: Row, beside_bar: Tracker) -> None:
            nonlocal status
            status = max(status, row.status)
            for line in row.notes:
                (beside_bar.tell if row.status >= ExitStatus.FAILED else beside_bar.note)(line)
            if self.as_sarif:
                results.extend(row.results)
            elif document is not None:
                if row.facts is not None:
                    document.add(row.facts)
            elif row.on_terminal and sys.stdout.isatty():
                with beside_bar.cleared():
                    printing.show(row.on_terminal, may_page=False)
            elif row.styled:
                with beside_bar.cleared():
                    printing.show_lines(row.styled, may_page=False)
            else:
                for line in row.lines:
                    beside_bar.write_line(line)

        def read_files() -> Generator[Reading[FactsT]]:
            if notes is None:
                return readings(read, files.files, workers)
            from archive.batches.noted import noted_readings  # noqa: PLC0415 (few note what they read)

            return noted_readings(read, files.files, workers, notes)

        with (
            sigterm_as_ctrl_c(),
            notes or nullcontext(),
            closing(read_files()) as readings_of_files,
            tracker(doing, count, as_json=self.as_json or self.as_sarif) as beside_bar,
        ):
            for reading in beside_bar.track(readings_of_files):
                write(row_of(reading), beside_bar)
        note_left_out(files.others)
        for row in more:
            write(row, Tracker(None, doing, 0))
        if self.as_sarif:
            printing.write_json(sarif(__version__, rules or {}, results))
        elif document is not None:
            document.end(totals())
        return status


def takes_reader(
    *,
    annotations: bool = False,
    sarif: bool = False,
    mapped: bool = True,
    forms: Sequence[str] = (),
) -> Callable[[Callable[..., ExitStatus]], Callable[..., ExitStatus]]:
    """Let a command take the options of :class:`FileReader` as one ``reader``; the innermost decorator.

    Args:
        annotations: whether there is ``--annotations``.
        sarif: whether there is ``--sarif``.
        mapped: whether there is ``--no-map``.
        forms: what ``--format`` prints besides text and JSON; without any, there is no such option.
    """
    options = [_jobs_option]
    options += [annotations_option] * annotations + [no_map_option] * mapped + [limit_option]
    options += [sarif_option] * sarif + ([_format_option(forms)] if forms else []) + [json_option()]

    def decorated(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
        @wraps(command)
        def with_reader(
            *,
            jobs: int | None,
            limits: Limits,
            as_json: bool,
            mapped: bool = True,
            annotations: str | None = None,
            as_sarif: bool = False,
            form: str = TEXT,
            **others: object,
        ) -> ExitStatus:
            if as_sarif and as_json:
                raise click.UsageError("use either --sarif or --json, not both")
            if form in FORMS and (as_json or as_sarif):
                raise click.UsageError(
                    f"--format {form}, --json and --sarif are three forms: give one of them"
                )
            facts = as_json or form != TEXT
            notes = annotations_of(annotations, aside=facts or as_sarif)
            return command(**others, reader=FileReader(jobs, mapped, limits, facts, as_sarif, notes, form))

        for option in reversed(options):
            with_reader = option(with_reader)
        return with_reader

    return decorated


def _call_with_bytes(
    file: InputFile, *, function: Callable[..., FactsT], mapped: bool, options: dict[str, object]
) -> FactsT:
    return function(source_of(file.name, mapped=mapped), **options)


def is_single(files: Sequence[str]) -> bool:
    """Whether one file is given, and neither a folder nor a glob."""
    if len(files) == 1 and not is_url(files[0]) and isfile(files[0]):  # noqa: PTH113 (pathlib costs start-up)
        return True
    from archive.batches.inputs import names_several  # noqa: PLC0415 (a single file does without)

    return len(files) == 1 and not names_several(files[0])


def note_left_out(others: Mapping[FileKind, int]) -> None:
    """Note what a search has found and no command takes, if there is some."""
    if others:
        from archive.batches.inputs import counts  # noqa: PLC0415 (a single file does without)

        printing.note(f"skipped, neither archives nor companions: {counts(others)}")


def problem_line(reading: Reading[FactsT]) -> str:
    """Why a file could not be read, on one line that begins with the file's name."""
    name = one_line(reading.file.label)
    return one_line(reading.error if reading.error.startswith(name) else f"{name}: {reading.error}")


def unread_row(reading: Reading[FactsT]) -> Row:
    """The row of a file that could not be read."""
    from archive.render.documents import Unread  # noqa: PLC0415 (most files can be read)

    why = problem_line(reading)
    return Row(status_of(reading), Unread(file=reading.file.label, error=why), notes=[why])


def status_of(reading: Reading[FactsT]) -> ExitStatus:
    """The exit status that a file stands for, apart from findings."""
    if reading.is_internal:
        return ExitStatus.INTERNAL
    return ExitStatus.FAILED if reading.error else ExitStatus.WELL
