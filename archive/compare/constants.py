"""The lines of the model that use a constant of generated code: its name, ``CONSTANTS.c0``, says nothing.

Tracing makes a constant of each number and tensor that the model's Python writes down, so a changed line of a
traced model is often a constant that differs, in the same code.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError, several
from archive.compare.changes import Status, TensorChange
from archive.debuginfo.source_lines import lines_of, model_line
from archive.formats.record_kinds import is_code, range_records_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.compare.changes import Change
    from archive.reader.archive import Archive

CONSTANT = re.compile(rb"\bCONSTANTS\.c\d+\b")
USES = 64
"""Uses of one constant that are followed to their lines."""


class ConstantLines:
    """The lines of the model that use each constant of an archive's code."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @cached_property
    def _uses(self) -> Mapping[str, list[tuple[str, int]]]:
        """The places of each constant in code: a record and a byte, up to ``USES``."""
        uses: dict[str, list[tuple[str, int]]] = {}
        for name, record in self._archive.records.items():
            if is_code(name):
                for use in CONSTANT.finditer(record.view()):
                    places = uses.setdefault(use[0].decode(), [])
                    if len(places) < USES:
                        places.append((name, use.start()))
        return uses

    def of(self, constant: str) -> str:
        """The lines, in words; "" where none is known: without debug info, or for other names."""
        if CONSTANT.fullmatch(constant.encode("utf-8", "surrogatepass")) is None:
            return ""
        try:
            lines = dict.fromkeys(self._line(*use) for use in self._uses.get(constant, ()))
        except LimitError:
            raise
        except ArchiveError:  # debug info is compared on its own
            return ""
        return several([line for line in lines if line])

    def _line(self, code: str, position: int) -> str:
        table = self._archive.range_table
        record = next((name for name in range_records_of(code) if name in table.numbers), None)
        found = None if record is None else table.locate(record, position)
        line = None if found is None else model_line(lines_of(found))
        return "" if line is None else str(line)


def with_lines(rows: Iterable[Change], old: Archive, new: Archive) -> Iterator[Change]:
    """Rows about tensors, those of constants with the lines that use them."""
    was, now = ConstantLines(old), ConstantLines(new)
    for row in rows:
        if isinstance(row, TensorChange):
            yield replace(row, new=now.of(row.name))
        elif row.status in {Status.ADDED, Status.GONE}:
            lines = (now if row.status is Status.ADDED else was).of(row.name)
            at = f" at {lines}" if lines else ""
            yield replace(row, old=row.old and row.old + at, new=row.new and row.new + at)
        else:
            yield row
