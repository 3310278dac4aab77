"""All that a companion file holds, as one value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from archive.base.columns import firsts
from archive.base.errors import ArchiveError
from archive.normalform.names import record_names
from archive.normalform.records import DebugRecords

if TYPE_CHECKING:
    from archive.base.strings import StringTable
    from archive.formats.elf.model import SectionTable
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns
    from archive.normalform.form import NormalForm

OBJECT_TABLE: tuple[ColumnName, ...] = ("object.start", "object.sections", "object.names")
"""The columns of a :class:`~archive.formats.elf.model.SectionTable`."""


@dataclass(frozen=True, eq=False)
class Contents:
    """The debug information of an archive, and what a join needs besides.

    Attributes:
        archive_id: of the archive, 16 bytes.
        form: the debug information. Among its columns are those of the tables ``member`` and ``raw`` and the
            facts in ``file``, which a normal form alone goes without.
        raw: the bytes of the records that PyTorch's rules would not give again, one record behind the other.
        behind: the bytes that stood behind the segments of shared objects, one object's behind the other's.
    """

    archive_id: bytes
    form: NormalForm
    raw: bytes | memoryview = b""
    behind: bytes | memoryview = b""

    @property
    def columns(self) -> Columns:
        """All columns by name."""
        return self.form.columns

    @property
    def version(self) -> int:
        """The first version of the format that has all its columns."""
        return 2 if {"program.name", "object.length"} & self.columns.keys() else 1

    @property
    def strings(self) -> StringTable:
        """The strings that columns refer to."""
        return self.form.strings

    def with_columns(self, columns: Columns) -> Contents:
        """The same archive id, strings and raw records with other columns."""
        return replace(self, form=self.form.with_columns(columns))

    @cached_property
    def records(self) -> DebugRecords:
        """The debug records by name, each made when it is asked for.

        Raises:
            ArchiveError: two records have one name, or the raw ones are not as long as columns say.
        """
        return DebugRecords(self.form, self.raw_records)

    @cached_property
    def objects(self) -> list[tuple[SectionTable, memoryview]]:
        """Of each shared object where its section headers were, and what stood behind its segments.

        Raises:
            ArchiveError: they are not as long as columns say.
        """
        from archive.formats.elf.model import SectionTable  # noqa: PLC0415 (few archives have compiled models)

        columns = [self.columns[name].tolist() for name in OBJECT_TABLE if name in self.columns]
        bounds = firsts(self.columns["object.length"]).tolist() if columns else [0]
        if bounds[-1] != len(self.behind):
            expected = f"{len(self.behind)} bytes"
            raise ArchiveError(place="object.length", expected=expected, found=str(bounds[-1]))
        pieces = [memoryview(self.behind)[begin:end] for begin, end in pairwise(bounds)]
        tables = zip(*columns, strict=True)
        return [(SectionTable(*table), piece) for table, piece in zip(tables, pieces, strict=True)]

    @cached_property
    def raw_records(self) -> dict[str, memoryview | bytes]:
        """The records that are kept as they were, by name.

        Raises:
            ArchiveError: two have one name, or they are not as long as columns say.
        """
        if "raw.length" not in self.columns:
            numbers, bounds = [], [0]
        else:
            numbers = self.columns["raw.name"].tolist()
            bounds = firsts(self.columns["raw.length"]).tolist()
        if bounds[-1] != len(self.raw):
            raise ArchiveError(place="raw.length", expected=f"{len(self.raw)} bytes", found=str(bounds[-1]))
        names = record_names(self.strings, numbers, self.form.allowance)
        if len(set(names)) < len(names):
            raise ArchiveError(place="raw.name", expected="each record once", found="one twice")
        return {name: self.raw[begin:end] for name, (begin, end) in zip(names, pairwise(bounds), strict=True)}
