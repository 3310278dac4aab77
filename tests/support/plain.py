"""The library's facts in the slow reader's form, so that both can be compared with ``==``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import slow_reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.strings import StringView
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import HandleEntry
    from archive.debuginfo.tables import RangeTable


def plain(view: StringView | None) -> bytes | None:
    return None if view is None else bytes(view)


def plain_ranges(table: RangeTable, record: int) -> list[slow_reader.RangeRow]:
    """The rows of one record; sources are numbered by first appearance."""
    numbers: dict[int, int] = {}
    rows = []
    for number in table.rows(record):
        row, source = table.row(number), int(table.source[number])
        rows.append(
            slow_reader.RangeRow(
                row.offset,
                bytes(row.range.source.text),
                plain(row.range.source.filename),
                row.range.source.starting_line,
                row.range.start,
                row.range.end,
                row.tag,
                numbers.setdefault(source, len(numbers)),
                row.range.source.is_null,
            )
        )
    return rows


def plain_handles(table: HandleTable) -> list[slow_reader.HandleRow]:
    numbers: dict[int, int] = {}
    return [
        plain_handle(
            table.entry(row), [numbers.setdefault(frame, len(numbers)) for frame in table.frames(row)]
        )
        for row in range(len(table))
    ]


def plain_handle(entry: HandleEntry, nodes: Iterable[int]) -> slow_reader.HandleRow:
    calls = tuple(
        slow_reader.Call(
            None if call.module is None else (bytes(call.module.type_name), bytes(call.module.instance)),
            call.tag,
            plain(call.function),
        )
        for call in entry.stack
    )
    return slow_reader.HandleRow(entry.handle, entry.tag, plain(entry.op), calls, tuple(nodes))


def plain_methods(table: MethodTable, *, texts: bool) -> tuple[int, list[tuple[bytes, list[object]]]]:
    def values(method: int) -> list[object]:
        return [bytes(table.strings[value]) if texts else value for value in table.values(method)]

    names = [bytes(table.strings[name]) for name in table.name.tolist()]
    return table.version, [(name, values(method)) for method, name in enumerate(names)]
