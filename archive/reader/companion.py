"""A companion file, opened: the debug records of an archive, and the columns that they are made from.

A companion has no code, no tensors and no module tree. Together with the archive that was split from it, it
is the archive again.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.closing import Closing
from archive.base.errors import ArchiveError, in_file
from archive.companion.contents import LABEL, redacted_id
from archive.companion.hashed_names import salt_of
from archive.companion.parse import OpenedCompanion
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import RANGES_SUFFIX
from archive.formats.release_label import checked_label
from archive.reader.line_digests import LineDigests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from archive.companion.contents import Contents
    from archive.container.record import Record
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import HandleLookup
    from archive.debuginfo.tables import RangeSummary, RangeTable
    from archive.debuginfo.unique_handles import HandleForm
    from archive.io.mapped import Mapped
    from archive.normalform.metadata import Metadata
    from archive.normalform.records import DebugRecords


class MadeRecord:
    """A debug record, made from a companion when it is asked for: a :class:`~.records.ReadableRecord`."""

    __slots__ = ("_records", "_view", "allowance", "name")

    compression = "companion"
    borrowed = False
    stored_size = 0

    def __init__(self, records: DebugRecords, name: str) -> None:
        self.name = name
        self._records = records
        self.allowance = memory.current()
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        if self._view is None:
            with memory.charged(self.allowance):
                data = self._records[self.name]
                memory.take(len(data), "bytes of a record", record=self.name)
            self._view = memoryview(data)
        return self._view

    @property
    def size(self) -> int:
        return len(self.view())

    @property
    def crc32(self) -> int:
        return zlib.crc32(self.view())


@memory.kept
class Companion(Closing):
    """A companion file. Its header and directory are read when it is opened, the rest when it is asked for.

    It provides what :class:`~archive.reader.archive.Archive` needs: :class:`~.records.Records`,
    :class:`~.records.DebugTables` and :class:`~.records.ModuleClassNames`.

    Attributes:
        allowance: as given.
        opened: its header, and what its sections hold.
    """

    root = ""

    def __init__(self, mapped: Mapped) -> None:
        self.allowance = memory.current()
        self.file = mapped.name
        self.data = mapped.data
        self._mapped = mapped
        with in_file(self.file):
            self.opened = OpenedCompanion(mapped.data)

    def __repr__(self) -> str:
        return f"<Companion {self.file!r}, {self.layout}, of archive {self.archive_id.hex()}>"

    @property
    def size(self) -> int:
        return len(self.data)

    def fetch(self, names: Iterable[str]) -> None:
        """Read some records; they are made when they are asked for, so nothing is done."""

    def check_unchanged(self) -> None:
        self._mapped.check_unchanged()

    def close(self) -> None:
        self._mapped.close()

    @property
    def archive_id(self) -> bytes:
        """The id of the archive whose debug information this is."""
        return self.opened.directory.archive_id

    @cached_property
    def redacted_id(self) -> bytes | None:
        """The archive id of the redacted archive that it belongs to; None if that has the same one."""
        if not self._has("file.redacted"):
            return None
        with in_file(self.file):
            return redacted_id(self._name("file.redacted"))

    @cached_property
    def label(self) -> str:
        """The label of the release that it is of; "" for none."""
        if not self._has(LABEL):
            return ""
        with in_file(self.file):
            return checked_label(self._name(LABEL), LABEL)

    @cached_property
    def replaced(self) -> Mapping[str, str]:
        """The records that a redacted archive has under other names: its name → the name here."""
        with in_file(self.file):
            return self.contents.replaced if self._has("replaced.name") else {}

    @cached_property
    def salt(self) -> bytes:
        """The key of the hashes that stand for names in the redacted archive; b"" where it has none."""
        if not self._has("file.salt"):
            return b""
        with in_file(self.file):
            return salt_of(self._name("file.salt"))

    @cached_property
    def line_digests(self) -> Mapping[str, LineDigests]:
        """Digests of the lines of each code record; none where they were not asked for."""
        if not self._has("code.name"):
            return {}
        columns, names = self.contents.columns, self.contents.strings
        digests = np.split(columns["digest.line"], np.cumsum(columns["code.lines"])[:-1])
        return {
            str(names[int(name)]): LineDigests(lines)
            for name, lines in zip(columns["code.name"], digests, strict=True)
        }

    @property
    def layout(self) -> str:
        """How its columns are stored: ``packed`` or ``mapped``."""
        return self.opened.directory.layout.name.lower()

    # Records

    @cached_property
    def contents(self) -> Contents:
        """All that the companion holds, checked."""
        with in_file(self.file):
            return self.opened.contents

    @cached_property
    def records(self) -> Mapping[str, MadeRecord]:
        """The debug records by name, each made when it is asked for."""
        made = self.contents.records
        return {name: MadeRecord(made, name) for name in made}

    @cached_property
    def metadata(self) -> Metadata | None:
        """The metadata of exported programs; None where it has none."""
        if not self._has("program.name"):
            return None
        with in_file(self.file):
            return self.contents.form.metadata

    # Debug tables

    @property
    def known(self) -> HandleLookup:
        return self.opened.lookup

    @property
    def handle_form(self) -> HandleForm:
        """The form of the handles in its columns, and of those that the split archive prints."""
        return self.opened.lookup.handle_form

    @cached_property
    def range_table(self) -> RangeTable:
        return self.contents.form.range_table

    @property
    def range_summary(self) -> RangeSummary:
        return self.contents.form.range_records.summary

    @property
    def range_names(self) -> Collection[str]:
        with in_file(self.file):
            return self.opened.places.records

    def locate(self, name: str, position: int) -> SourceRange | None:
        with in_file(self.file):
            return self.opened.places.of_byte(name, position)

    @cached_property
    def handle_table(self) -> HandleTable | None:
        return self.contents.form.handle_table

    @cached_property
    def method_table(self) -> MethodTable | None:
        return self.contents.form.method_table

    @cached_property
    def path_table(self) -> MethodTable | None:
        return self.contents.form.path_table

    # Class names

    @cached_property
    def top(self) -> str:
        return self._name("file.top")

    @cached_property
    def qualified_top(self) -> str:
        return self._name("file.qualified_top")

    def _has(self, column: str) -> bool:
        with in_file(self.file):
            return column in self.opened.columns

    def _name(self, column: str) -> str:
        with in_file(self.file):
            return str(self.opened.lookup.string(self.opened.lookup.at(column, 0)))

    @cached_property
    def classes(self) -> Collection[str]:
        """The qualified names of all classes in the module tree that occur in call stacks."""
        columns = self.contents.columns
        names = columns.get("module.type", np.zeros(0, np.int64))
        in_tree = columns.get("module.known", np.ones(len(names), np.int64)) > 0
        return {str(self.contents.strings[int(name)]) for name in names[in_tree]}

    def locate_line(self, name: str, line: int, column: int) -> SourceRange | None:
        """The original source of a place in a generated code record, without that record.

        Args:
            line: from 1.
            column: in bytes, from 0.

        Returns:
            The source range; None if the record is missing, or no range begins before the place.
        """
        with in_file(self.file):
            return self.opened.places.of_line(name + RANGES_SUFFIX, line, column)

    def check_fits(self, records: Mapping[str, Record], file: str) -> None:
        """Refuse an archive that this companion doesn't belong to."""
        own = archive_id(records)
        known = [self.archive_id, *([] if self.redacted_id is None else [self.redacted_id])]
        if own not in known:
            raise ArchiveError(
                f"{self.file} is the companion of another model",
                file=file,
                expected=f"archive id {' or '.join(id_.hex() for id_ in known)}",
                found=own.hex(),
            )
