"""The debug information of a whole archive as one value.

Source ranges of a normal form as records, each to the byte, or as the table that parsing these gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base.columns import firsts, spread, windows
from archive.base.limits import Allowance, unbounded
from archive.debuginfo.model import RangeLayout
from archive.debuginfo.tables import RangeSummary, RangeTable, SourceTable
from archive.formats.schema import Gathered, Indexed, Ragged, Repeated
from archive.formats.source_ranges import record_of
from archive.normalform.columns import RANGE_LAYOUTS, VALUE_BYTES
from archive.normalform.handles import unpack_handles, unpack_methods, unpack_paths
from archive.normalform.names import record_names
from archive.normalform.relayout import LaidOut, laid_out

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.normalform.columns import Columns
    from archive.normalform.metadata import Metadata

# --- range records

PIECE_BYTES = 2
"""Bytes of the shortest integer in a record."""


@dataclass(frozen=True, eq=False)
class RangeRecords:
    """The records of source ranges that some columns stand for.

    Attributes:
        columns: by name.
        strings: what columns of names refer to.
        allowance: the memory that records and their table may cost.
    """

    columns: Columns
    strings: StringTable
    allowance: Allowance

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The records."""
        return record_names(self.strings, self.columns["record.name"].tolist(), self.allowance)

    @cached_property
    def layouts(self) -> tuple[RangeLayout, ...]:
        """The layout of each record."""
        return tuple(RANGE_LAYOUTS[layout] for layout in self.columns["record.layout"].tolist())

    @cached_property
    def laid_out(self) -> LaidOut:
        """The sources of all records.

        Raises:
            LimitError: they would take more memory than allowed.
        """
        return laid_out(self.columns, self.strings, self.allowance)

    @property
    def summary(self) -> RangeSummary:
        """How much the records hold."""
        return RangeSummary(self.names, self.layouts, self.columns["record.rows"], len(self.laid_out.source))

    def build(self, record: int) -> bytes:
        """One record as PyTorch writes it.

        Raises:
            LimitError: it would take more memory than allowed.
        """
        columns, laid, layout = self.columns, self.laid_out, self.layouts[record]
        rows = slice(int(laid.row_first[record]), int(laid.row_first[record + 1]))
        own = slice(int(laid.own_first[record]), int(laid.own_first[record + 1]))
        span = columns["row.range"][rows]
        source = Indexed(laid.own[rows] - own.start, self._sources(record, own))
        fields = {
            "offset": columns["row.offset"][rows],
            "range": {
                "source": source,
                "start": Gathered(columns["range.start"], span),
                "end": Gathered(columns["range.end"], span),
            },
            "tag": Gathered(columns["range.tag"], span),
        }
        with self.allowance.part() as meanwhile:
            meanwhile.take(VALUE_BYTES * (len(span) + 4 * (own.stop - own.start)), "source ranges")
            with meanwhile.lent(self._least_bytes(own), "texts of a record"):
                pass
            strings = laid.pieces.strings
            return record_of(fields, self._string_table(record), strings, layout, meanwhile)

    def _least_bytes(self, own: slice) -> int:
        """Bytes that the texts of some sources take at least in a record with a string table."""
        laid = self.laid_out
        pieces = np.diff(laid.pieces.first)[laid.text[own]]
        return PIECE_BYTES * int(pieces.sum())

    def _string_table(self, record: int) -> Ints | None:
        """A record's string table; None in layouts without one."""
        if self.layouts[record] is not RangeLayout.STRING_TABLE:
            return None
        first = self.laid_out.table_first
        return self.laid_out.table[int(first[record]) : int(first[record + 1])]

    def _sources(self, record: int, own: slice) -> dict[str, Any]:
        """The columns of a record's sources."""
        laid, text = self.laid_out, self.laid_out.text[own]
        first, piece, base = laid.pieces.first, laid.pieces.piece, int(laid.table_first[record])
        line = self.columns["source.line"][laid.source[own]]
        if self.layouts[record] is not RangeLayout.STRING_TABLE:
            return {"text": piece[first[text]], "filename": laid.name[own], "starting_line": line}
        low, high = (int(text.min()), int(text.max()) + 1) if len(text) else (0, 0)  # the record's own texts
        lines = Ragged(first[low : high + 1] - first[low], piece[first[low] : first[high]] - base)
        return {
            "text": Repeated(text - low, lines),
            "filename": laid.name[own] - base,
            "starting_line": line,
        }

    @cached_property
    def table(self) -> RangeTable:
        """The rows of all records.

        Raises:
            LimitError: it would take more memory than allowed.
        """
        columns, laid = self.columns, self.laid_out
        span, source = columns["row.range"], laid.source
        counts = np.diff(laid.pieces.first)[laid.text]
        values = 4 * len(span) + 4 * len(source) + int(counts.sum())
        self.allowance.take(VALUE_BYTES * values, "source ranges")
        piece, name = laid.pieces.piece.copy(), laid.name.copy()
        in_lines = np.repeat(laid.in_lines, np.diff(laid.pieces.first))
        piece[in_lines] = laid.table[piece[in_lines]]
        named = laid.in_lines[laid.text]
        name[named] = laid.table[name[named]]
        sources = SourceTable(
            laid.pieces.strings,
            firsts(counts),
            _repeated(piece, laid.pieces.first[laid.text], counts),
            name,
            columns["source.line"][source],
            columns["source.null"][source] > 0,
        )
        return RangeTable(
            self.names,
            self.layouts,
            laid.row_first,
            columns["row.offset"],
            laid.own.astype(np.int64),
            columns["range.start"][span],
            columns["range.end"][span],
            columns["range.tag"][span],
            sources,
            laid.table_first,
            laid.table,
        )


def _repeated(values: Ints, first: Ints, counts: Ints) -> Ints:
    """Runs of values, one behind the other, in windows: ``counts[i]`` of them from ``first[i]`` on."""
    begin = firsts(counts)
    runs = np.empty(int(begin[-1]), np.int64)
    for low, high in windows(begin):
        runs[begin[low] : begin[high]] = values[spread(first[low:high], counts[low:high])]
    return runs


# --- form

HANDLE_BYTES = 160
"""Bytes of memory that a debug handle costs in a table: 32 in columns, the others once all are listed."""


@dataclass(frozen=True, eq=False)
class NormalForm:
    """The debug information of an archive as columns, each fact once, whatever layouts its records have.

    It holds the same as the archive's tables, which are made of it when they are asked for;
    :class:`~archive.normalform.records.DebugRecords` are its records, to the byte. A
    :class:`~archive.normalform.builder.FormBuilder` makes a form of tables.

    Attributes:
        columns: by name: see :mod:`archive.normalform.columns`.
        strings: what columns of names refer to.
        allowance: the memory that tables and records may cost.
    """

    columns: Columns
    strings: StringTable
    allowance: Allowance = field(default_factory=unbounded)

    @cached_property
    def range_records(self) -> RangeRecords:
        """The records of source ranges, each built when it is asked for."""
        return RangeRecords(self.columns, self.strings, self.allowance)

    @property
    def range_table(self) -> RangeTable:
        """The source ranges, laid out as the records have them.

        Raises:
            LimitError: they would take more memory than allowed.
        """
        return self.range_records.table

    @cached_property
    def handle_table(self) -> HandleTable | None:
        """The call-stack map; None where there is none.

        Raises:
            LimitError: it would take more memory than allowed.
        """
        if "handle.handle" not in self.columns:
            return None
        self.allowance.take(HANDLE_BYTES * len(self.columns["handle.handle"]), "debug handles")
        return unpack_handles(self.columns, self.strings)

    @cached_property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions; None where there are none."""
        return unpack_methods(self.columns, self.strings) if "method.name" in self.columns else None

    @cached_property
    def path_table(self) -> MethodTable | None:
        """The module paths of each method's operators; None where there are none."""
        return unpack_paths(self.columns, self.strings) if "pathed.name" in self.columns else None

    @cached_property
    def metadata(self) -> Metadata:
        """The metadata of exported programs, which it has."""
        from archive.normalform.metadata import Metadata  # noqa: PLC0415 (few archives have programs)

        return Metadata(self.columns, self.strings, self.allowance)

    def with_columns(self, columns: Columns) -> NormalForm:
        """Another form, of the same strings."""
        return replace(self, columns=columns)
