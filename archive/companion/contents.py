"""Everything that a companion file holds, as one value."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.base.errors import ArchiveError, shown
from archive.base.quick_dataclass import dataclass
from archive.container.names import as_bytes, as_text
from archive.formats.archive_id import ID_TEXT, ID_WORDS
from archive.formats.release_label import checked_label
from archive.normalform.columns import BY_NAME, NO_ROW
from archive.normalform.pool import Pool, record_names
from archive.normalform.records import DebugRecords

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from archive.base.strings import StringTable
    from archive.formats.elf.model import SectionTable
    from archive.normalform.columns import Columns
    from archive.normalform.form import NormalForm

OBJECT_TABLE: tuple[str, ...] = ("object.start", "object.sections", "object.names")
"""The columns of a :class:`~archive.formats.elf.model.SectionTable`."""

LABEL = "file.label"
"""The column of the release's label."""
LINE_DIGESTS: tuple[str, ...] = ("code.name", "code.lines", "digest.line")
"""The columns of the digests of lines of code."""
REPLACED: tuple[str, ...] = ("replaced.name", "replaced.by")
"""The columns of records that the redacted archive has under other names."""


def raw_columns(raw: Mapping[str, bytes], pool: Pool) -> Columns:
    """The columns of the records that are kept unchanged, by name; empty if there are none."""
    if not raw:
        return {}
    lengths = np.array([len(data) for data in raw.values()], np.int64)
    return {"raw.name": pool.numbers(map(as_bytes, raw)), "raw.length": lengths}


def redacted_id(digits: str | None) -> bytes | None:
    """An archive id from its digits."""
    if digits is None:
        return None
    if not ID_TEXT.fullmatch(digits):
        raise ArchiveError(place="file.redacted", expected=ID_WORDS, found=shown(digits))
    return bytes.fromhex(digits)


@dataclass(frozen=True, eq=False)
class Contents:
    """The debug information of an archive, and what else a join needs.

    Attributes:
        form: the debug information. Among its columns are those of the tables ``member`` and ``raw`` and the
            facts in ``file``, which other normal forms lack.
        raw: the bytes of the records that PyTorch's rules cannot rebuild, concatenated.
        object_tails: the bytes after the segments of shared objects, concatenated.
    """

    archive_id: bytes
    form: NormalForm
    raw: bytes | memoryview = b""
    object_tails: bytes | memoryview = b""

    @property
    def columns(self) -> Columns:
        """All columns by name."""
        return self.form.columns

    @property
    def strings(self) -> StringTable:
        """The strings that columns refer to."""
        return self.form.strings

    def with_columns(self, columns: Columns) -> Contents:
        """The same archive id, strings and raw records with other columns."""
        return replace(self, form=self.form.with_columns(columns))

    def with_strings(self, columns: Mapping[str, Sequence[bytes]]) -> Contents:
        """The same with further columns, whose values are strings."""
        pool = Pool()
        pool.numbers(self.strings.copies())
        made = {name: pool.numbers(strings) for name, strings in columns.items()}
        form = replace(self.form, columns={**self.columns, **made}, strings=pool.table())
        return replace(self, form=form)

    def labelled(self, label: str) -> Contents:
        """The same with the label of a release; "" is none."""
        return self.with_strings({LABEL: [checked_label(label).encode()]}) if label else self

    def unlabelled(self) -> Contents:
        """The same as before it got a label: companions that differ in theirs say the same."""
        return self._without({LABEL})

    def without_line_digests(self) -> Contents:
        """The same as ``split`` makes it without ``--fingerprints``."""
        return self._without(LINE_DIGESTS)

    def _without(self, names: Collection[str]) -> Contents:
        """The same without some columns, and without the strings that only these refer to."""
        taken = {name: values for name, values in self.columns.items() if name in names}
        if not taken:
            return self
        columns = {name: values for name, values in self.columns.items() if name not in names}
        references = {name: values for name, values in columns.items() if BY_NAME[name].refers == "string"}
        is_kept = np.ones(len(self.strings) + 1, np.bool_)  # the last one is NO_ROW's
        for name, values in taken.items():
            if BY_NAME[name].refers == "string":
                is_kept[values] = False
        for values in references.values():
            is_kept[values] = True
        numbers = np.append(np.cumsum(is_kept[:-1]) - 1, NO_ROW)
        columns |= {name: numbers[values] for name, values in references.items()}
        places = ("buffer", "start", "length")
        kept = {name: getattr(self.strings, name)[is_kept[:-1]] for name in places}
        return replace(self, form=replace(self.form, columns=columns, strings=replace(self.strings, **kept)))

    @cached_property
    def records(self) -> DebugRecords:
        """The debug records by name, each made when it is asked for."""
        return DebugRecords(self.form, self.raw_records)

    @cached_property
    def objects(self) -> list[tuple[SectionTable, memoryview]]:
        """For each shared object, where its section headers were, and the bytes after its segments."""
        from archive.formats.elf.model import SectionTable  # noqa: PLC0415 (few archives have compiled models)

        columns = [self.columns[name].tolist() for name in OBJECT_TABLE if name in self.columns]
        bounds = firsts(self.columns["object.length"]).tolist() if columns else [0]
        if bounds[-1] != len(self.object_tails):
            expected = f"{len(self.object_tails)} bytes"
            raise ArchiveError(place="object.length", expected=expected, found=str(bounds[-1]))
        pieces = [memoryview(self.object_tails)[begin:end] for begin, end in pairwise(bounds)]
        tables = zip(*columns, strict=True)
        return [(SectionTable(*table), piece) for table, piece in zip(tables, pieces, strict=True)]

    @property
    def root(self) -> str | None:
        """The folder that all records were in; None if that is the same as in the other file."""
        return self._string("file.root")

    @property
    def redacted_id(self) -> bytes | None:
        """The archive id of the redacted archive; None if it is the archive's own, or if there is none."""
        return redacted_id(self._string("file.redacted"))

    @cached_property
    def replaced(self) -> dict[str, str]:
        """The records that the redacted archive has under other names: that name → the name here."""
        if "replaced.name" not in self.columns:
            return {}
        names, others = (record_names(self.strings, self.columns[name].tolist()) for name in REPLACED)
        return dict(zip(others, names, strict=True))

    def _string(self, name: str) -> str | None:
        if name not in self.columns:
            return None
        return as_text(bytes(self.strings.data(int(self.columns[name][0]))))

    @cached_property
    def raw_records(self) -> dict[str, memoryview | bytes]:
        """The records that are kept unchanged, by name."""
        if "raw.length" not in self.columns:
            numbers, bounds = [], [0]
        else:
            numbers = self.columns["raw.name"].tolist()
            bounds = firsts(self.columns["raw.length"]).tolist()
        if bounds[-1] != len(self.raw):
            raise ArchiveError(place="raw.length", expected=f"{len(self.raw)} bytes", found=str(bounds[-1]))
        names = record_names(self.strings, numbers)
        if len(set(names)) < len(names):
            raise ArchiveError(place="raw.name", expected="each record once", found="one twice")
        return {name: self.raw[begin:end] for name, (begin, end) in zip(names, pairwise(bounds), strict=True)}
