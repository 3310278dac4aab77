"""The library's facts in the slow reader's form, so that both can be compared with ``==``."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.container.write import new_member, write_archive
from archive.debuginfo.model import Generation
from archive.formats.bytecode import parse_bytecode
from archive.formats.callstack_map import parse_callstack_map
from archive.formats.inert_values import inert_value
from archive.formats.lowered import find_lowered
from archive.formats.method_handles import parse_methods
from archive.formats.source_ranges import parse_source_ranges
from archive.pickles.ops import ValueKind
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.support import slow_reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive import Archive, Limits
    from archive.base.strings import StringView
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import HandleEntry
    from archive.debuginfo.tables import RangeTable
    from archive.pickles.tree import Tree


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


# --- Reading made-up records: to a tree, to the last fact, inside an archive; compared with the slow reader


RANGES = "code/m.py.debug_pkl"


def tree_of(*records: bytes, limits: Limits = DEFAULT_LIMITS) -> Tree:
    pickles = [Pickle(f"record {number}", memoryview(data)) for number, data in enumerate(records)]
    with memory.charged(limits.allowance(sum(map(len, records)))):
        return read_trees(pickles, [False] * len(pickles))


def refused(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ArchiveError:
    """The error of a pickle that is none; it names the record and a place in it."""
    with pytest.raises(ArchiveError) as caught:
        tree_of(data, limits=limits)
    assert caught.value.record == "record 0"
    assert caught.value.place
    return caught.value


def read(name: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> object:
    """All facts of a record, whose kind its name tells, in plain Python values."""
    with memory.charged(limits.allowance(len(data))):
        tree = read_trees([Pickle(name, memoryview(data))], [False])
        if name.endswith(".debug_pkl"):
            return plain_ranges(parse_source_ranges(tree), 0)
        if name == "callstack_debug_map.pkl":
            return plain_handles(parse_callstack_map(tree, 0))
        if name == "mobile_debug_handles.pkl":
            return plain_methods(parse_methods(tree, 0, Generation.METHOD_HANDLES), texts=False)
        if name == "mobile_debug.pkl":
            return plain_methods(parse_methods(tree, 0, Generation.MODULE_PATHS), texts=True)
        if name == "bytecode.pkl":
            return parse_bytecode(tree, 0)
        return find_lowered(inert_value(tree, int(tree.roots[0])))


CONSTANTS = new_member("constants.pkl", b"\x80\x02).")
"""Every archive of TorchScript has this record."""


def archive_of(limits: Limits = DEFAULT_LIMITS, **records: bytes) -> Archive:
    """An archive in memory; ``data="…"`` becomes its record ``data.pkl``, ``code`` its source ranges."""
    names = {"code": RANGES}
    out = io.BytesIO()
    members = [new_member(names.get(key, f"{key}.pkl"), data) for key, data in records.items()]
    write_archive(out, "made", [*members, CONSTANTS, new_member("version", b"3\n")])
    return archive.open(out.getvalue(), limits=limits, name="made.pt")


def assert_same(tree: Tree, root: int, value: slow_reader.Value) -> None:
    """A node and the stack machine's value: equal all the way down, with the same sharing."""
    seen: dict[int, int] = {}
    pairs = [(root, value)]
    while pairs:
        node, slow = pairs.pop()
        kind, items = tree.kind(node), tree.items(node)
        if kind in (
            ValueKind.INT,
            ValueKind.BOOL,
            ValueKind.NONE,
            ValueKind.FLOAT,
            ValueKind.TEXT,
            ValueKind.GLOBAL,
        ):
            assert leaf(tree, node, kind) == (struct.pack("<d", slow) if type(slow) is float else slow)
            assert kind is not ValueKind.INT or type(slow) is int
            continue
        if node in seen:
            assert seen[node] == id(slow)
            continue
        if slow != ():  # of which Python has only one
            seen[node] = id(slow)
        parts = children(slow, kind)
        if node in tree.states:
            items.append(tree.states[node])
        assert len(items) == len(parts)
        pairs += zip(items, parts, strict=True)
    assert len(set(seen.values())) == len(seen)


def leaf(tree: Tree, node: int, kind: ValueKind) -> object:
    if kind is ValueKind.TEXT:
        return bytes(tree.strings[int(tree.value[node])])
    if kind is ValueKind.GLOBAL:
        return slow_reader.Name(*tree.names(node))
    if kind is ValueKind.FLOAT:
        return struct.pack("<q", int(tree.value[node]))
    if kind is ValueKind.NONE:
        return None
    return int(tree.value[node]) if kind is ValueKind.INT else bool(tree.tokens.op[node] == 0x88)


def children(slow: slow_reader.Value, kind: ValueKind) -> list[slow_reader.Value]:
    if isinstance(slow, slow_reader.Made):
        assert kind is {"REDUCE": ValueKind.REDUCE, "NEWOBJ": ValueKind.OBJECT}[slow.how]
        state = [] if slow.state is slow_reader.NOTHING else [slow.state]
        return [slow.what, slow.arguments, *state]
    if isinstance(slow, slow_reader.Persistent):
        assert kind is ValueKind.PERSISTENT
        return [slow.identity]
    if isinstance(slow, slow_reader.Dict):
        assert kind is ValueKind.DICT
        return slow.items
    assert kind is (ValueKind.TUPLE if isinstance(slow, tuple) else ValueKind.LIST)
    return list(slow)
