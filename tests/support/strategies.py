"""Hypothesis strategies: tables of every format, and arbitrary pickles of the opcodes that PyTorch knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from archive.base.strings import StringTable
from archive.debuginfo.handle_tables import HandleTable, MethodTable
from archive.debuginfo.model import Generation, RangeLayout
from archive.debuginfo.tables import RangeTable, SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy machines

WIDTHS = [0, 1, 0xFF, 0x100, 0xFFFF, 0x1_0000, (1 << 31) - 1, 1 << 31, (1 << 63) - 1]
EDGES = [*WIDTHS, *(-width for width in WIDTHS), -(1 << 31) - 1, -(1 << 63)]

whole: SearchStrategy[int] = st.one_of(
    st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-2, 300)
)
natural: SearchStrategy[int] = st.one_of(st.sampled_from(WIDTHS), st.integers(0, (1 << 63) - 1))
texts: SearchStrategy[bytes] = st.one_of(
    st.text(max_size=40).map(str.encode),
    st.binary(max_size=20),  # mostly no UTF-8
    st.sampled_from([b"", b"\n", b"x", b"    return x\n", "é☃🐍\n".encode(), b"\xff\xfe", b"."]),
)
names: SearchStrategy[bytes | None] = st.one_of(st.none(), texts)
few = st.integers(0, 5)
EMPTY = [(b"", b"", 0), (b"", None, 0), (b"", b"", 7), (b"", b"m.py", 0), (b"x", b"", 0)]  # the first is null


class Strings:
    """A string table in the making: one buffer, equal strings possibly several times."""

    def __init__(self) -> None:
        self.strings: list[bytes] = []

    def add(self, string: bytes) -> int:
        self.strings.append(string)
        return len(self.strings) - 1

    def table(self) -> StringTable:
        length = np.array([len(string) for string in self.strings], np.int64)
        buffer = np.zeros(len(length), np.int64)
        return StringTable(
            [memoryview(b"".join(self.strings))], [False], buffer, np.cumsum(length) - length, length
        )


def column(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.fromiter(values, np.int64)


def firsts(counts: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return column([0, *np.cumsum(counts, dtype=np.int64).tolist()])


@st.composite
def range_tables(draw: DrawFn, layout: RangeLayout) -> RangeTable:
    """One record, in one layout: 0 to 5 rows that share up to 4 sources, null and empty ones among them."""
    strings = Strings()
    pieced = layout is RangeLayout.STRING_TABLE
    table: list[int] = []
    if pieced:
        own = draw(st.lists(texts, max_size=5, unique=True))
        table = [strings.add(string) for string in dict.fromkeys([b"", *own])]
    sources = [
        draw(_pieced_source(table) if pieced else _inline_source(strings))
        for _ in range(draw(st.integers(1, 4)))
    ]
    rows = draw(few)
    used = [draw(st.integers(0, len(sources) - 1)) for _ in range(rows)]
    tags = [-1] * rows if layout is RangeLayout.PAIR else draw(st.lists(whole, min_size=rows, max_size=rows))
    pieces, filenames, lines, nulls = zip(*sources, strict=True)
    return RangeTable(
        (layout.name,),
        (layout,),
        firsts([rows]),
        column(draw(st.lists(whole, min_size=rows, max_size=rows))),
        column(used),
        column(draw(st.lists(natural, min_size=rows, max_size=rows))),
        column(draw(st.lists(natural, min_size=rows, max_size=rows))),
        column(tags),
        SourceTable(
            strings.table(),
            firsts([len(piece) for piece in pieces]),
            column(string for piece in pieces for string in piece),
            column(filenames),
            column(lines),
            np.array(nulls, np.bool_),
        ),
        firsts([len(table)]),
        column(table),
    )


@st.composite
def _inline_source(draw: DrawFn, strings: Strings) -> tuple[list[int], int, int, bool]:
    """Pieces, filename, line, and whether that makes the null source."""
    text, filename, line = draw(st.one_of(st.sampled_from(EMPTY), st.tuples(texts, names, whole)))
    return (
        [strings.add(text)],
        -1 if filename is None else strings.add(filename),
        line,
        (text, filename, line) == (b"", b"", 0),
    )


@st.composite
def _pieced_source(draw: DrawFn, table: list[int]) -> tuple[list[int], int, int, bool]:
    pieces = draw(st.one_of(st.sampled_from([[], table[:1]]), st.lists(st.sampled_from(table), max_size=5)))
    filename = draw(st.one_of(st.just(table[0]), st.sampled_from(table)))
    line = draw(st.one_of(st.sampled_from([0, 7]), whole))
    return pieces, filename, line, (pieces, filename, line) == ([], table[0], 0)


@st.composite
def handle_tables(draw: DrawFn, *, functions: bool) -> HandleTable:
    """A call-stack map with functions' names, or without (1.9.0): stacks share frames, frames modules."""
    strings = Strings()
    modules = [(strings.add(draw(texts)), strings.add(draw(texts))) for _ in range(draw(few))]
    frames = draw(few)
    module = [draw(st.integers(-1, len(modules) - 1)) for _ in range(frames)]
    following = [draw(st.integers(-1, frame - 1)) for frame in range(frames)]
    function = [strings.add(draw(texts)) if functions else -1 for _ in range(frames)]
    handles = draw(st.lists(whole, max_size=5, unique=True))
    ops = [strings.add(draw(texts)) if functions else -1 for _ in handles]
    return HandleTable(
        strings.table(),
        column(handles),
        column(draw(st.lists(whole, min_size=len(handles), max_size=len(handles)))),
        column(ops),
        column(draw(st.integers(-1, frames - 1)) for _ in handles),
        column(following),
        column(module),
        column(draw(st.one_of(st.just(-1), natural)) for _ in range(frames)),
        column(function),
        column(type_name for type_name, _ in modules),
        column(instance for _, instance in modules),
    )


@st.composite
def method_tables(draw: DrawFn, *, paths: bool) -> MethodTable:
    """Methods with a list of handles each, or of module paths (1.7, 1.8)."""
    strings = Strings()
    names = [strings.add(name) for name in draw(st.lists(texts, max_size=5))]
    value = texts.map(strings.add) if paths else whole
    lists = [draw(st.lists(value, max_size=5)) for _ in names]
    return MethodTable(
        Generation.MODULE_PATHS if paths else Generation.METHOD_HANDLES,
        strings.table(),
        draw(whole),
        column(names),
        firsts([len(one) for one in lists]),
        column(value for values in lists for value in values),
    )


class Range(NamedTuple):
    """A source range with a source of its own."""

    text: bytes
    start: int
    end: int
    filename: bytes | None = b"m.py"
    line: int = 1


def table_of(offsets: Sequence[int], ranges: Sequence[Range], layout: RangeLayout) -> RangeTable:
    """One record: a row for each range."""
    strings = Strings()
    table, texts, filenames = [strings.add(b"")], [], []
    for one in ranges:
        texts.append(strings.add(one.text))
        filenames.append(-1 if one.filename is None else strings.add(one.filename))
        table += [texts[-1], filenames[-1]]
    pieced = layout is RangeLayout.STRING_TABLE
    if pieced:
        filenames = [table[0] if name < 0 else name for name in filenames]
        table = [string for string in table if string >= 0]
    return RangeTable(
        ("made",),
        (layout,),
        firsts([len(ranges)]),
        column(offsets),
        column(range(len(ranges))),
        column(one.start for one in ranges),
        column(one.end for one in ranges),
        column(range(1, len(ranges) + 1)),
        SourceTable(
            strings.table(),
            column(range(len(ranges) + 1)),
            column(texts),
            column(filenames),
            column(one.line for one in ranges),
            np.zeros(len(ranges), np.bool_),
        ),
        firsts([len(table) if pieced else 0]),
        column(table if pieced else []),
    )
