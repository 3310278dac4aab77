"""The inventory that ``inspect`` makes: a row for each of many files, in any form, and their sums."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.batches.inputs import OtherFiles, is_false_model, other_files
from archive.batches.jobs import MANIFEST_SUFFIX
from archive.batches.outcome import Outcome, OutcomeKind
from archive.batches.reading import found_files
from archive.cli import printing
from archive.cli.files import Row, note_left_out
from archive.cli.questions import QUESTIONS
from archive.cli.showing import CSV, HTML
from archive.cli.status import Cause, status_of
from archive.describe.inventory import InventoryRow, inventoried
from archive.describe.totals import Inventory
from archive.io.mapped import by_ranges
from archive.io.urls import is_url, name_of
from archive.reader.recognition import recognise
from archive.reader.recognition.kinds import ADVICE, FOLDER_KINDS, FileKind
from archive.render.inventory import INVENTORY, UnreadRow, dumped, loaded, row_text, totals_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.batches.inputs import InputFile
    from archive.batches.noted import Notes
    from archive.batches.outcome import Reading
    from archive.cli.printing import AnyText
    from archive.cli.reading import FileReader
    from archive.cli.status import ExitStatus
    from archive.page.inventory import InventoryPage

INVENTORY_KINDS = FOLDER_KINDS["inspect"]
"""The kinds of files that have a row."""


def show_inventory(
    inputs: Sequence[str], asked: Mapping[str, bool], manifest: str | None, reader: FileReader
) -> ExitStatus:
    """Print a row for each file, and the sums.

    Args:
        inputs: files and folders.
        asked: of digest, leaks and verify, which are asked about each file: each reads all of it.
        manifest: where rows are noted; None for nowhere.
        reader: the options.
    """
    files = found_files(inputs, mapped=reader.mapped)
    run = _Run([*map(name_of, inputs)], files.others, reader, verified=asked["verify"])
    notes = None if manifest is None else _notes(manifest, asked)
    more = [question for name, question in QUESTIONS.items() if asked[name]]
    read = reader.of_bytes(inventoried, more=more)
    status = reader.several(
        replace(files, others=OtherFiles()),
        read,
        "inspecting",
        run.row,
        text=run.form,
        notes=notes,
        totals=run.totals,
    )
    run.print_sums(inputs)
    return status


def _notes(manifest: str, question: Mapping[str, bool]) -> Notes:
    from archive import __version__  # noqa: PLC0415 (one run in many)
    from archive.batches.noted import Notes  # noqa: PLC0415 (the same)

    if not manifest.endswith(MANIFEST_SUFFIX):
        raise ArchiveError(expected=f"a manifest, FILE{MANIFEST_SUFFIX}", found=name_of(manifest))
    asked = {"inventory": dict(question), "version": __version__}
    return Notes(manifest, asked, dumped, loaded)


def _place(name: str) -> str:
    """Device and inode of a file, which all links to it have; "" where the system has none."""
    with suppress(OSError):
        if not is_url(name):
            status = Path(name).stat()
            return f"{status.st_dev} {status.st_ino}" if status.st_ino else ""
    return ""


class _Run:
    """One run: the rows of files, and their sums.

    Args:
        names: of what was asked for.
        others: what a search has found that is no file; what has no row is added.
        reader: the options.
        verified: whether files are checked.

    Attributes:
        form: what ``--format`` asks for, if that is neither text nor JSON.
        totals: the sums of all rows so far.
    """

    def __init__(
        self, names: Sequence[str], others: OtherFiles, reader: FileReader, *, verified: bool
    ) -> None:
        self._reader, self._inventory = reader, Inventory(INVENTORY_KINDS)
        self.totals = self._inventory.totals
        self.totals.others.update(others)
        self._others = others
        self._page: InventoryPage | None = None
        self.form: AnyText = INVENTORY if reader.form == CSV else None
        if reader.form == HTML:
            from archive.page.inventory import InventoryPage  # noqa: PLC0415 (few ask for pages)

            self.form = self._page = InventoryPage(names, self.totals, verified=verified)

    def row(self, reading: Reading[InventoryRow]) -> Row:
        """The row of a file, with the one that it is the same as."""
        name, row = reading.job.label, reading.facts
        is_other = row is not None and row.kind not in INVENTORY_KINDS
        if row is not None and is_other and self._is_refused(reading.job, row.kind):
            refusal = str(ArchiveError(expected="a model", found=f"{row.kind}: {ADVICE[row.kind]}"))
            reading, row = Outcome(reading.job, OutcomeKind.FAILED, refusal), None
        if row is None:
            why = reading.problem
            self.totals.unread += 1
            if self._page is not None:
                self._page.refuse(name, reading.reason)
            return Row(status_of(reading), self._unread(reading.job, why), notes=[why])
        taken = self._inventory.take(replace(row, file=name), _place(reading.job.name))
        if taken is None:
            self._others.add(reading.job, row.kind)
            return Row()
        return Row(Cause.UNDONE.when(taken.problems), taken, lines=[f"{name}: {row_text(taken)}"])

    @staticmethod
    def _is_refused(file: InputFile, kind: FileKind) -> bool:
        """Whether a file that isn't a model was given itself, or should be one."""
        return not file.searched or is_false_model(file.name, kind)

    def _unread(self, file: InputFile, why: str) -> object:
        """What the document says of a file that could not be read."""
        name, kind, size = file.label, FileKind.UNKNOWN, None
        with suppress(ArchiveError, OSError):  # which are why it could not be read
            with closing(by_ranges(self._reader.source(file.name))) as opened:
                size = len(opened.data)
            kind = recognise(self._reader.source(file.name), limits=self._reader.limits, look=False).kind
        unread = [why.removeprefix(f"{name}: ")]
        if self._reader.form == CSV:
            return InventoryRow(name, kind, size, unread=unread)
        return UnreadRow(file=name, kind=kind, size=size, error=why, unread=unread)

    def print_sums(self, inputs: Sequence[str]) -> None:
        """Print the sums, and which other files are there."""
        if not self.totals.all.files + self.totals.unread:
            raise ArchiveError(
                f"no model in it{other_files(self._others)}", file=", ".join(map(name_of, inputs))
            )
        note_left_out(self._others)
        if not self._reader.as_json:
            printing.show(totals_text(self.totals))
