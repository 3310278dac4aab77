"""Standard output and standard error: bytes, JSON, tables, and notes for the person at the terminal.

A terminal obeys characters that files and other programs only keep. So foreign text is written to the byte
where standard output is a file or a pipe, and with escapes where it is a terminal.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import click

from archive import __version__
from archive.base.errors import for_terminal, one_line
from archive.cli.showing import CSV, HTML, JSON, has_styles, is_paged, showing
from archive.io.output import STANDARD_OUTPUT, write_all
from archive.render.rows import FactsTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO, TypeAlias

    from rich.console import Console

    from archive.describe.totals import Totals
    from archive.render.as_csv import CsvRows
    from archive.render.as_html import HtmlRows
    from archive.render.ci import SarifResult
    from archive.render.fitted_table import Line, Printed

    AnyText: TypeAlias = "FactsTable | FactsText | None"
    """What a command has besides tables and JSON."""

STANDARD_ERROR = "standard error"
"""Its name in errors."""
UNLIMITED_WIDTH = 1 << 16
"""Columns of an output that isn't a terminal: lines stay whole for other programs."""


def write(data: bytes) -> None:
    """Write bytes to standard output: as they are, or escaped if it is a terminal."""
    if sys.stdout.isatty():
        data = for_terminal(data.decode("utf-8", "backslashreplace")).encode()
    write_file(data)


def write_file(data: bytes | memoryview) -> None:
    """Write the bytes of a file to standard output, which isn't a terminal."""
    with naming(STANDARD_OUTPUT):
        write_all(memoryview(data), sys.stdout.buffer)


def write_line(text: str) -> None:
    """Write one line to standard output; what would make it two, or drive a terminal, is escaped."""
    write(f"{one_line(text)}\n".encode())


def write_sarif(rules: Mapping[str, str], results: Sequence[SarifResult]) -> None:
    """Write findings as SARIF, and a note where they are more than GitHub takes."""
    from archive.render.as_json import as_json  # noqa: PLC0415 (texts do without)
    from archive.render.ci import MOST_RESULTS, sarif  # noqa: PLC0415 (the same)

    _put_json(as_json(sarif(__version__, rules, results)) + "\n", aside=False)
    if len(results) > MOST_RESULTS:
        note(f"SARIF has the {MOST_RESULTS:,} gravest of {len(results):,} findings, as many as GitHub takes")


def write_document(*files: object, text: AnyText = None, aside: bool = False) -> None:
    """Write the document of a command whose facts are all there; see :class:`JsonDocument`."""
    document = facts_document(text, aside=aside)
    for facts in files:
        document.add(facts)
    document.end()


class JsonDocument:
    """The document of the command that runs, written a file at a time: :mod:`archive.render.documents`."""

    def __init__(self, *, aside: bool = False) -> None:
        from archive.render.documents import Document  # noqa: PLC0415 (texts do without)

        names = click.get_current_context().command_path.split(" ")[1:]
        self._document = Document(" ".join(names), __version__)
        self._aside = aside

    def add(self, facts: object) -> None:
        """Write the facts of a file."""
        _put_json(self._document.entry(facts), aside=self._aside)

    def end(self, totals: Totals | None = None) -> None:
        """Write what ends the document: the sums of all files, where there are some."""
        _put_json(self._document.end(totals), aside=self._aside)


DOCUMENTS = {JSON: JsonDocument}
"""What facts of any command are written to, by the form that is asked for."""


def facts_document(text: AnyText = None, *, aside: bool = False) -> JsonDocument | TextDocument:
    """What facts are written to: JSON, rows, or a form that only this command has.

    Args:
        text: the command's rows, or what writes its own form.
        aside: whether JSON goes to standard error.
    """
    if text is None or showing.form in DOCUMENTS:
        return DOCUMENTS[showing.form](aside=aside)
    return ROW_DOCUMENTS[showing.form](text) if isinstance(text, FactsTable) else TextDocument(text)


class FactsText(Protocol):
    """A form of facts about files: :mod:`archive.render.as_csv`, :mod:`archive.render.stacks`."""

    @property
    def head(self) -> str:
        """What stands before all files."""

    @property
    def tail(self) -> str:
        """What follows them."""

    def lines(self, file: str, facts: Any) -> Iterator[str]:  # noqa: ANN401 (each form has its facts)
        """The text of a file, in pieces."""


class TextDocument:
    """Facts in another form than JSON, written a file at a time."""

    def __init__(self, form: FactsText) -> None:
        self._form = form
        _put_text(form.head, aside=False)

    def add(self, facts: object) -> None:
        """Write the lines of a file; one that could not be read has none."""
        keys = facts if isinstance(facts, dict) else {"file": getattr(facts, "file", "")}
        if "error" not in keys:
            for line in self._form.lines(keys["file"], facts):
                write(line.encode())

    def end(self, totals: Totals | None = None) -> None:  # noqa: ARG002 (this form has its own)
        """Write what ends it."""
        write(self._form.tail.encode())


class RowDocument(TextDocument):
    """Facts as rows, which also notes what could not be read."""

    def __init__(self, form: CsvRows | HtmlRows) -> None:
        super().__init__(form)
        self._rows = form

    def add(self, facts: object) -> None:
        """Write the rows of a file; of one that could not be read, why."""
        if isinstance(facts, dict) and "error" in facts:
            write(self._rows.unread(facts["file"], facts["error"]).encode())
        else:
            super().add(facts)


def _csv_document(table: FactsTable) -> RowDocument:
    from archive.render.as_csv import CsvRows  # noqa: PLC0415 (texts do without)

    return RowDocument(CsvRows(table))


def _html_document(table: FactsTable) -> RowDocument:
    from archive.render.as_html import HtmlRows  # noqa: PLC0415 (texts do without)

    title = click.get_current_context().command_path
    return RowDocument(HtmlRows(table, title, f"debug-archive {__version__}"))


ROW_DOCUMENTS = {CSV: _csv_document, HTML: _html_document}
"""What the rows of any command are written to, by the form that is asked for."""


def _put_json(text: str, *, aside: bool) -> None:
    """Write JSON; what a terminal obeys gets JSON's own escapes there."""
    if (sys.stderr if aside else sys.stdout).isatty():
        from archive.render.as_json import json_escape  # noqa: PLC0415 (files and pipes do without)

        text = for_terminal(text, json_escape)
    _put_text(text, aside=aside)


def _put_text(text: str, *, aside: bool) -> None:
    if aside:
        with naming(STANDARD_ERROR):
            _put_aside(text)
    else:
        write_file(text.encode())


def _put_aside(text: str) -> None:
    """Write to standard error, at once; what it does not take is forgotten."""
    try:
        write_all(memoryview(text.encode()), sys.stderr.buffer)
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)
        raise


def show(printed: Printed, *, aside: bool = False, may_page: bool = True) -> None:
    """Print tables and lines to standard output, or aside to standard error."""
    from archive.render.fitted_table import lines_of  # noqa: PLC0415 (most of a start-up)

    stream = sys.stderr if aside else sys.stdout
    width = console(aside=aside).width if stream.isatty() else UNLIMITED_WIDTH
    lines = lines_of(printed, width)
    if stream.isatty() or has_styles(stream):
        _show_styled(lines, aside=aside, may_page=may_page)
    else:
        _put_text("".join([f"{''.join([text for text, _ in line])}\n" for line in lines]), aside=aside)


def show_lines(lines: Iterable[tuple[str, str]], *, may_page: bool = True) -> None:
    """Print lines with their styles, which only a terminal shows; there wide lines become several."""
    if sys.stdout.isatty():
        from archive.render.fitted_table import hanging  # noqa: PLC0415 (terminals only)

        width = console().width
        fitted = ([(part, style)] for line, style in lines for part in hanging(line, width))
        _show_styled(fitted, may_page=may_page)
    elif has_styles(sys.stdout):
        _show_styled([line] for line in lines)
    else:
        write_file("".join(f"{line}\n" for line, _ in lines).encode())


def console(*, aside: bool = False) -> Console:
    """The console of rich for standard output or standard error, with styles where they are wanted."""
    from rich.console import Console  # noqa: PLC0415 (most of a start-up)

    styled = has_styles(sys.stderr if aside else sys.stdout)
    return Console(
        stderr=aside, highlight=False, force_terminal=True if styled else None, no_color=not styled
    )


def _show_styled(lines: Iterable[Line], *, aside: bool = False, may_page: bool = True) -> None:
    """Print lines with their styles, which are of a terminal, in a pager if they are more than it shows."""
    from rich.segment import Segment, Segments  # noqa: PLC0415 (most of a start-up)

    styled, shown_on = has_styles(sys.stderr if aside else sys.stdout), console(aside=aside)
    segments: list[Segment] = []
    for line in lines:
        segments += (
            Segment(for_terminal(text), shown_on.get_style(style) if style and styled else None)
            for text, style in line
        )
        segments.append(Segment.line())
    with shown_on.capture() as captured:
        shown_on.print(Segments(segments), crop=False)
    if may_page and not aside and is_paged():
        from archive.cli.paging import paged  # noqa: PLC0415 (terminals only)

        flush()
        if paged(captured.get()):
            return
    _put_text(captured.get(), aside=aside)


def flush() -> None:
    """Hand on what is written so far."""
    with naming(STANDARD_OUTPUT):
        sys.stdout.flush()


def note(message: str) -> None:
    """Write a line for the person at the terminal to standard error, unless ``--quiet`` is given."""
    if not showing.quiet:
        print_error(message)


def print_error(message: str) -> None:
    """Write a line about an error to standard error, if that is open and can be written."""
    complain(f"debug-archive: {one_line(message)}\n")


def print_unread(unread: Mapping[str, str]) -> None:
    """Write a line for each model that could not be read."""
    for file, why in unread.items():
        print_error(f"not read: {file}: {why}")


def complain(text: str) -> None:
    """Write to standard error, if that is open and can be written."""
    with suppress(OSError, ValueError):  # nobody is left to read it
        _put_aside(text)


@contextmanager
def naming(stream: str) -> Iterator[None]:
    """Let errors of the block name a stream, unless they name a file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or stream
        raise


def drop(stream: TextIO) -> None:
    """Forget what a stream cannot take; the interpreter would fail on it again at its end, with 120."""
    with suppress(OSError, ValueError):  # no file, where a test captures the output
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
