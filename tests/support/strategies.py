"""Random values: tables of every format, whole archives, and pickles of the opcodes that PyTorch knows."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from archive.base.strings import StringTable
from archive.container.write import new_member
from archive.debuginfo.handle_tables import HandleTable, MethodTable
from archive.debuginfo.model import Generation, RangeLayout
from archive.debuginfo.tables import RangeTable, SourceTable
from archive.formats.callstack_map import build_callstack_map
from archive.formats.method_handles import build_methods
from archive.formats.source_ranges import build_source_ranges
from tests.support import plain
from tests.support.corpus import CALLSTACKS, DELEGATED, HANDLES, PATHS
from tests.support.tampering import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


# --- Random pickles: programs of the opcodes that PyTorch knows, in any mix that leaves one value


PROTO, STOP = b"\x80\x02", b"."
OPCODES = b"\x80.(KMJ\x8a\x88\x89NGX\x8d)\x85\x86\x87t]lae}dsucR\x81bQqrhj"
CONSTANTS = [b"N", b"\x88", b"\x89", b")", b"\x8a\x00", b"\x8a\x01\xff", b"\x8a\x03\x00\x00\x01"]
FLOATS = [0.0, -0.0, 1.5, -math.inf, math.nan, 5e-324]
GLOBALS = [b"__torch__.m\nNet\xc3\xa9\n", b"torch.jit._pickle\nbuild_intlist\n", b"os\nsystem\n", b"\n\n"]
FOREIGN = bytes(range(0x80, 0x100))
SMALL = 256
LENGTHS = (0, 1, 2, 3, 7, 40, 251, 256, 700)


def integer(value: int, width: int = 0) -> bytes:
    """An integer in the least width that holds it, or in a wider one, as nobody would write it."""
    forms = [(b"K", "<B"), (b"M", "<H"), (b"J", "<i"), (b"\x8a\x08", "<q")]
    for opcode, layout in forms[width:]:
        try:
            return opcode + struct.pack(layout, value)
        except struct.error:
            continue
    raise ValueError(value)


def text(data: bytes, *, long: bool = False) -> bytes:
    """A text, as BINUNICODE or BINUNICODE8."""
    return (b"\x8d" + len(data).to_bytes(8, "little") if long else b"X" + struct.pack("<I", len(data))) + data


def put(index: int, *, long: bool = False) -> bytes:
    """A memo entry for what stands on the stack."""
    return b"r" + struct.pack("<I", index) if long or index >= SMALL else b"q" + bytes([index])


def get(index: int, *, long: bool = False) -> bytes:
    """A read of a memo entry."""
    return b"j" + struct.pack("<I", index) if long or index >= SMALL else b"h" + bytes([index])


@dataclass
class Program:
    """A program in the making, with the kinds of the values on its stack, level by level."""

    random: random.Random
    lengths: Sequence[int] = LENGTHS
    ascii: bool = False
    out: list[bytes] = field(default_factory=lambda: [PROTO])
    levels: list[list[str]] = field(default_factory=lambda: [[]])
    memo: dict[int, str] = field(default_factory=dict)

    def run(self, steps: int) -> bytes:
        """A pickle of about that many instructions."""
        for _ in range(steps):
            self.random.choice(self.possible())()
        while len(self.levels) > 1:
            self.close("t", "tuple")
        if len(self.levels[0]) != 1:
            self.out.insert(1, b"(")
            self.out.append(b"t")
        return b"".join(self.out) + STOP

    @property
    def level(self) -> list[str]:
        return self.levels[-1]

    def possible(self) -> list[Callable[[], None]]:
        """What may stand next. Values are the likelier, the fewer there are."""
        steps = [self.atom, self.atom, self.mark]
        if self.memo:
            steps.append(self.read)
        if len(self.levels) > 1:
            steps += self.closings()
        if self.level:
            steps += [self.note, self.take, *([self.take] if len(self.level) > 3 else [])]
        return steps

    def closings(self) -> list[Callable[[], None]]:
        """Ends of the innermost MARK: a container of its own, or one that stands below is filled."""
        even, below = len(self.level) % 2 == 0, self.levels[-2][-1:]
        ends: list[Callable[[], None]] = [lambda: self.close("t", "tuple"), lambda: self.close("l", "list")]
        if even:
            ends.append(lambda: self.close("d", "dict"))
        if below == ["list"]:
            ends.append(lambda: self.close("e", ""))
        if below == ["dict"] and even:
            ends.append(lambda: self.close("u", ""))
        return ends

    def close(self, opcode: str, kind: str) -> None:
        self.levels.pop()
        self.emit(opcode.encode(), kind)

    def emit(self, code: bytes, kind: str = "") -> None:
        self.out.append(code)
        if kind:
            self.level.append(kind)

    def mark(self) -> None:
        if len(self.levels) < 60:
            self.emit(b"(")
            self.levels.append([])

    def atom(self) -> None:
        pick = self.random.randrange(9)
        if pick < 3:
            self.emit(integer(self.random.choice(EDGES), self.random.randrange(4) if pick else 0), "int")
        elif pick < 6:
            data = bytes(self.random.choices(OPCODES, k=self.random.choice(self.lengths)))
            data = data.translate(None, FOREIGN) if self.ascii else data
            self.emit(text(data, long=pick == 3), "text")
        elif pick == 6:
            self.emit(b"G" + struct.pack(">d", self.random.choice(FLOATS)), "float")
        elif pick == 7:
            self.emit(b"c" + self.random.choice(GLOBALS[self.ascii :]), "global")
        else:
            constant = self.random.choice(CONSTANTS)
            self.emit(*self.random.choice([(b"]", "list"), (b"}", "dict"), (constant, "constant")]))

    def note(self) -> None:
        index = self.random.choice([0, 1, len(self.memo), 255, 256, 0xFFFF_FFFF])
        self.emit(put(index, long=self.random.random() < 0.2))
        self.memo[index] = self.level[-1]

    def read(self) -> None:
        index = self.random.choice(list(self.memo))
        self.emit(get(index, long=self.random.random() < 0.2), self.memo[index])

    def take(self) -> None:
        """Instructions that take one to three values off the stack."""
        two, three = self.level[-2:], self.level[-3:]
        ways = [(b"\x85", 1, "tuple"), (b"Q", 1, "persistent")]
        if len(two) == 2:
            ways += [(b"\x86", 2, "tuple"), (b"R", 2, "object"), (b"\x81", 2, "object")]
            ways += [(b"a", 1, "")] * (2 * (two[0] == "list")) + [(b"b", 1, "")] * (2 * (two[0] == "object"))
        if len(three) == 3:
            ways += [(b"\x87", 3, "tuple")] + [(b"s", 2, "")] * (3 * (three[0] == "dict"))
        code, count, kind = self.random.choice(ways)
        del self.level[-count:]
        self.emit(code, kind)


def program(seed: int, steps: int, lengths: Sequence[int] = LENGTHS, *, ascii_only: bool = False) -> bytes:
    """The pickle that a seed stands for."""
    return Program(random.Random(seed), lengths, ascii_only).run(steps)  # noqa: S311 (not for secrets)


# --- Whole archives with debug records of any content, as PyTorch would write them


LAYOUTS = [layout for layout in RangeLayout if layout is not RangeLayout.EMPTY]
UNPIECED = [layout for layout in LAYOUTS if layout is not RangeLayout.STRING_TABLE]
"""The layouts whose records PyTorch's rules always give again: texts have no pieces there."""
STACKS = [None, Generation.CALLSTACK_3, Generation.CALLSTACK_4]


class Made(NamedTuple):
    """An archive, and the debug records in it by name."""

    data: bytes
    debug: dict[str, bytes]


@st.composite
def archives(draw: DrawFn, layouts: Sequence[RangeLayout] = LAYOUTS) -> Made:
    """An archive with at least one debug record."""
    ranges = st.sampled_from(layouts).flatmap(range_tables).map(lambda table: build_source_ranges(table, 0))
    names = draw(st.lists(st.sampled_from(["a", "b/é", "___torch_mangle_7"]), max_size=3, unique=True))
    code = {f"code/{name}.py": draw(texts) for name in names if draw(st.booleans())}
    debug = {f"code/{name}.py.debug_pkl": draw(ranges) for name in names}
    if draw(st.booleans()):
        debug[DELEGATED] = draw(ranges)
    generation = draw(st.sampled_from(STACKS))
    if generation is not None:
        functions = generation is Generation.CALLSTACK_4
        debug[CALLSTACKS] = build_callstack_map(draw(handle_tables(functions=functions)), generation)
    if draw(st.booleans()):
        debug[PATHS] = build_methods(draw(method_tables(paths=True)))
    if not debug or draw(st.booleans()):
        debug[HANDLES] = build_methods(draw(method_tables(paths=False)))
    records = {**code, **debug, plain.CONSTANTS.name: bytes(plain.CONSTANTS.data), "version": b"3\n"}
    order = draw(st.permutations(list(records)))
    return Made(
        packed(new_member(name, records[name]) for name in order), {n: debug[n] for n in order if n in debug}
    )
