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
    from archive.normalform.columns import Columns
    from archive.normalform.form import NormalForm


@dataclass(frozen=True, eq=False)
class Contents:
    """The debug information of an archive, and what a join needs besides.

    Attributes:
        archive_id: of the archive, 16 bytes.
        form: the debug information. Among its columns are those of the tables ``member`` and ``raw`` and the
            facts in ``file``, which a normal form alone goes without.
        raw: the bytes of the records that PyTorch's rules would not give again, one record behind the other.
    """

    archive_id: bytes
    form: NormalForm
    raw: bytes | memoryview = b""

    @property
    def columns(self) -> Columns:
        """All columns by name."""
        return self.form.columns

    @property
    def version(self) -> int:
        """The first version of the format that has all its columns."""
        return 2 if "program.name" in self.columns else 1

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
        return DebugRecords(self.form, self._raw_records())

    def _raw_records(self) -> dict[str, memoryview | bytes]:
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
