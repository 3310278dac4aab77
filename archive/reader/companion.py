"""Companions read like archives: the same columns and facts, from what a companion holds.

A companion alone knows no code, no tensors and no module tree. Together with the archive that was split
from it, it is the archive again.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion.parse import Opened
from archive.container.serialization_id import RECORD_NAME
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import EMBEDDED
from archive.formats.source_ranges import SUFFIX
from archive.normalform.records import DebugRecords
from archive.reader.archive import Archive
from archive.reader.recognition import COMPANION

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.mapped import Mapped
    from archive.base.output import Target
    from archive.container.container import Container, Record
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import Known
    from archive.debuginfo.tables import HandleTable, MethodTable, RangeTable
    from archive.normalform.form import Facts
    from archive.reader.recognition import Recognised


WIDTH = 40
"""Bits of a column beside its line: no line is longer."""


class MadeRecord:
    """A debug record that is made from a companion when it is asked for; like a ``container.Record``."""

    __slots__ = ("_records", "_view", "name")

    compression = "companion"
    borrowed = False
    stored_size = 0

    def __init__(self, records: DebugRecords, name: str) -> None:
        self.name = name
        self._records = records
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        """The record's bytes, as PyTorch wrote them. Made on the first call, kept from then on."""
        if self._view is None:
            self._view = memoryview(self._records[self.name])
        return self._view

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.view())

    @property
    def crc32(self) -> int:
        """Of the bytes."""
        return zlib.crc32(self.view())


class CompanionFile:
    """A companion as what an archive reads from: its records are made, its data is the file.

    Attributes:
        file: name of the file, for messages.
        root: the folder that records are in: none.
        data: the file's bytes.
    """

    root = ""

    def __init__(self, mapped: Mapped, opened: Opened) -> None:
        self.file = mapped.name
        self.data = mapped.data
        self._mapped = mapped
        self._opened = opened

    @cached_property
    def made(self) -> DebugRecords:
        """What makes the records."""
        try:
            return DebugRecords(self._opened.facts)
        except ArchiveError as problem:
            raise problem.within(file=self.file) from problem.__cause__

    @cached_property
    def records(self) -> Mapping[str, MadeRecord]:
        """The debug records by name."""
        return {name: MadeRecord(self.made, name) for name in self.made}

    def close(self) -> None:
        """Let go of the file."""
        self._mapped.close()


class Companion(Archive):
    """A companion file, read like the archive whose debug information it is. Header and directory come first.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, cut short, or changed.
        LimitError: it asks for more than allowed.
    """

    def __init__(self, mapped: Mapped, limits: Limits = DEFAULT_LIMITS) -> None:
        try:
            self.opened = Opened(mapped.data, limits)
        except ArchiveError as problem:
            raise problem.within(file=mapped.name) from problem.__cause__
        self._source = CompanionFile(mapped, self.opened)
        super().__init__(cast("Container", self._source), limits)

    @property
    def archive_id(self) -> bytes:
        """Of the archive whose debug information this is."""
        return self.opened.directory.archive_id

    @property
    def recognised(self) -> Recognised:
        """That it is a companion."""
        return COMPANION

    @property
    def facts(self) -> Facts:
        """All that the companion holds."""
        return self._source.made.facts

    @property
    def made(self) -> DebugRecords:
        """The debug records, each made when it is asked for."""
        return self._source.made

    @cached_property
    def _known(self) -> Known:
        return self.opened.lookup

    @cached_property
    def range_table(self) -> RangeTable:
        """The source ranges of all records, as columns."""
        return self.made.range_table

    @cached_property
    def handle_table(self) -> HandleTable | None:
        """The call-stack debug map, as columns; None where there is none."""
        return self.made.handle_table if "handle.handle" in self.facts.columns else None

    @cached_property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions, as columns; None where there are none."""
        return self.made.method_table if "method.name" in self.facts.columns else None

    @cached_property
    def path_table(self) -> MethodTable | None:
        """The module paths of 1.7 and 1.8, as columns; None where there are none."""
        return self.made.path_table if "pathed.name" in self.facts.columns else None

    @cached_property
    def top(self) -> str:
        """Class name of the top module; "" where it isn't recorded."""
        return self._name("file.top")

    @cached_property
    def qualified_top(self) -> str:
        """The same with its module."""
        return self._name("file.qualified_top")

    def _name(self, column: str) -> str:
        return self._located(lambda: str(self.opened.lookup.string(self.opened.lookup.at(column, 0))))

    def locate_line(self, name: str, line: int, column: int) -> SourceRange | None:
        """The original source of a place in a generated code record, without that record.

        Args:
            name: of the code record.
            line: from 1.
            column: in bytes, from 0.
        """
        table, columns = self.range_table, self.facts.columns
        record = table.numbers.get(name + SUFFIX)
        if record is None:
            return None
        rows = table.rows(record)
        places = (
            columns["row.line"][rows.start : rows.stop] << WIDTH
            | columns["row.column"][rows.start : rows.stop]
        )
        found = rows.start + int(np.searchsorted(places, line - 1 << WIDTH | column, "right")) - 1
        known = found >= rows.start and columns["row.line"][found] >= 0
        return table.source_range(found) if known else None

    @cached_property
    def classes(self) -> Collection[str]:
        """The qualified names of all classes in the module tree that occur in call stacks."""
        columns = self.facts.columns
        known = columns.get("module.known", np.ones(len(columns.get("module.type", ())), np.int64)) > 0
        return {str(self.facts.strings[int(name)]) for name in columns.get("module.type", known)[known]}


class Rejoined(Companion):
    """An archive and its companion, read as the archive that they were split from.

    Args:
        container: the archive without debug information.
        mapped: the companion.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the companion is broken, or another archive's.
    """

    def __init__(self, container: Container, mapped: Mapped, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(mapped, limits)
        self._mapped = mapped
        check_same_model(container.records, self.archive_id, container.file, mapped.name)
        self.container = container

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The records by name: those of the archive, and behind them those that the companion gives."""
        gone = {EMBEDDED, RECORD_NAME}
        kept = {name: record for name, record in self.container.records.items() if name not in gone}
        made = {name: MadeRecord(self.made, name) for name in self.made}
        return kept | cast("dict[str, Record]", made)

    def remade(self) -> Archive:
        """The archive as its records tell it, those that the companion gives read like any others."""
        return Archive(cast("Container", _Remade(self)), self.limits)

    def close(self) -> None:
        """Let go of both files."""
        self._mapped.close()
        super().close()

    def save(self, path: Target, *, force: bool = False) -> None:
        """Write the archive; unchanged content gives identical bytes.

        Only if its companion is inside of it. Two files are made one by :func:`archive.join`.

        Args:
            path: the target; written beside it and moved there when complete.
            force: replace an existing file.

        Raises:
            ArchiveError: the companion is a file of its own, or the target exists and ``force`` is not given.
        """
        if EMBEDDED not in self.container.records:
            raise ArchiveError(
                "read together with a companion, which would be missing; write both as one with archive.join",
                file=self.file,
            )
        super().save(path, force=force)

    recognised = Archive.recognised
    top = Archive.top
    qualified_top = Archive.qualified_top
    classes = Archive.classes


class _Remade:
    """What an archive reads from: the records of an archive and its companion."""

    def __init__(self, both: Rejoined) -> None:
        self.file, self.root = both.file, both.root
        self.data = both.container.data
        self.records = both.records

    def close(self) -> None:
        """The files are another's."""


def check_same_model(records: Mapping[str, Record], known: bytes, file: str, companion: str) -> None:
    """Refuse a companion of another archive.

    Raises:
        ArchiveError: the archive ids differ.
    """
    found = archive_id(records)
    if found != known:
        raise ArchiveError(
            f"{companion} is the companion of another model",
            file=file,
            expected=f"archive id {known.hex()}",
            found=found.hex(),
        )
