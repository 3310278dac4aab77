"""The parts of an archive's debug info, each with its digest: what it says, in whichever layout it is kept.

============================  ===============================================================================
part                          what it is of
============================  ===============================================================================
``ranges/RECORD``             the source of each place of a record of code: file, lines and text
``handles``                   the operator, place and calls of each debug handle
``methods/NAME``              the handle of each instruction
``paths/NAME``                the module path of each instruction, of PyTorch 1.7 and 1.8
``nodes/PROGRAM``             the metadata of each node of an exported program, its ids numbered
============================  ===============================================================================
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from archive.debuginfo.model import NO_TAG
from archive.formats.exported.canonical import Numbering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.debuginfo.model import InlinedCall
    from archive.debuginfo.tables import RangeTable
    from archive.reader.archive import Archive

LONGEST_NAME = 1 << 16
"""Characters of a file's name that are written; of a longer one, which no file has, its digest."""


def debug_parts(archive: Archive) -> Mapping[str, str]:
    """The parts of an archive's debug info, sorted, with their digests as hexadecimal digits.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    return dict(sorted(_parts(archive)))


def _parts(archive: Archive) -> Iterator[tuple[str, str]]:
    places: dict[int, tuple[object, ...]] = {}
    ranges = _Ranges(archive.range_table)
    for name, number in archive.range_table.numbers.items():
        rows = ranges.of(number)
        places |= {tag: place for _, tag, place in rows if tag != NO_TAG}
        yield f"ranges/{name}", _digest((offset, place) for offset, _, place in rows)
    if archive.handles:
        entries = sorted(archive.handles.items())
        calls = ((at, one, [_call(call, places) for call in one.stack]) for at, one in entries)
        yield "handles", _digest((at, str(one.op), places.get(one.tag), stack) for at, one, stack in calls)
    for name, numbers in archive.methods.items():
        yield f"methods/{name}", _digest(map(int, numbers))
    for name, paths in archive.module_paths.items():
        yield f"paths/{name}", _digest(map(str, paths))
    for name, program in archive.programs.items():
        numbering = Numbering()
        sites = (
            (key, sorted(numbering.numbered(one.metadata).items())) for key, one in program.sites.items()
        )
        yield f"nodes/{name}", _digest(sites)


class _Ranges:
    """What source ranges say, without the numbers that a process gave them. Each text is read once."""

    def __init__(self, table: RangeTable) -> None:
        self._table = table
        self._files: dict[int, str] = {}
        self._sources: dict[int, tuple[object, ...]] = {}

    def of(self, record: int) -> list[tuple[int, int, tuple[object, ...]]]:
        """Offset, tag and place of each range of a record."""
        table, rows = self._table, self._table.rows(record)
        columns = (table.offset, table.tag, table.start, table.end, table.source)
        lists = [column[rows.start : rows.stop].tolist() for column in columns]
        return [
            (offset, tag, (start, end, *self._source(source)))
            for offset, tag, start, end, source in zip(*lists, strict=True)
        ]

    def _source(self, number: int) -> tuple[object, ...]:
        if number not in self._sources:
            source, name = self._table.sources[number], int(self._table.sources.filename[number])
            if name not in self._files:
                file = str(source.filename)
                is_long = len(file) > LONGEST_NAME
                self._files[name] = hashlib.sha256(file.encode()).hexdigest() if is_long else file
            text = hashlib.sha256(bytes(source.text)).hexdigest()
            self._sources[number] = self._files[name], source.starting_line, text
        return self._sources[number]


def _call(call: InlinedCall, places: Mapping[int, tuple[object, ...]]) -> tuple[object, ...]:
    module = call.module and (str(call.module.type_name), str(call.module.instance))
    return module, str(call.function), places.get(call.tag)


def _digest(rows: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(row).encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
