"""The call-stack map, and the handles or paths of methods, are written in few bytes.

- Equal call stacks are one tuple, and so are equal modules. PyTorch shares only what was one object.
- Rows stand in the order that deflates best; PyTorch takes any (tried with 2.13). Rows of one call stack
  stand together, by tag and then by handle. Call stacks that differ only in modules, as those of a model's
  equal layers do, are neighbours: their rows are alike, except for the handles.
- If some handles take four bytes, all may. Then rows of equal length stand at equal distances.
- The handles of a method count up. Deflate finds more repetition in them if all take four bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, numbered
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.model import Generation
from archive.pickles.write import BYTE
from archive.rewrite.compact.instructions import (
    BUILDER,
    CLOSE,
    GET,
    INT,
    MARK,
    NEVER,
    NONE,
    PUT,
    SHARED_INT,
    SHARED_TEXT,
    TUPLE,
    WIDE,
    Composer,
    Instructions,
    each,
    integer_lists,
    pickled,
    tuple_of,
    tuples,
)
from archive.rewrite.compact.texts import own_strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable, MethodTable

MANY_HANDLES = 50_000
"""Handles from which on only the one way is tried that suits large maps."""


@dataclass(frozen=True, slots=True, eq=False)
class _Frames:
    """f distinct frames and m distinct modules.

    Attributes:
        next: the frame one call deeper, or -1 (f).
        module: the number of the frame's module, or -1 (f).
        tag: of the call (f).
        function: the number of the function's name, or -1 (f).
        modules: the numbers of class and instance names (m).
    """

    next: list[int]
    module: list[int]
    tag: list[int]
    function: list[int]
    modules: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to write the map.

    Attributes:
        named: whether rows and frames have a fourth element, a name.
        wide: whether all handles take four bytes.
        shared_from: tags from this one on are written once and read from the memo.
    """

    named: bool
    wide: bool
    shared_from: int


def stack_ways(table: HandleTable, generation: Generation) -> Iterator[bytes]:
    """Write the map in several ways, with as many elements a row as its layout has."""
    memory.take(memory.ROW * len(table) + memory.ROW * len(table.next), "handles and frames")
    columns = (table.op, table.function, table.module_type, table.module_instance)
    strings, number = own_strings(table.strings, np.concatenate(columns))
    op, function, types, instances = np.split(number, np.cumsum([len(column) for column in columns])[:-1])
    frames, frame, role = _distinct(table, function, types, instances)
    stack, role = (np.append(numbers, -1)[table.stack] for numbers in (frame, role))
    by_handle = np.argsort(table.handle, kind="stable")
    names, stacks, roles = (numbered(column[by_handle])[0] for column in (op, stack, role))
    order: Ints = by_handle[np.lexsort((names, table.tag[by_handle], stacks, roles))]
    rows = table.handle[order], table.tag[order], op[order], stack[order]
    named = generation is Generation.CALLSTACK_4
    far = int(table.handle.max(initial=0)) >= 1 << 16
    # All handles may be wide only if some take four bytes anyway.
    choices = [(wide, shared) for wide in ((False, True) if far else (False,)) for shared in (BYTE, NEVER)]
    for wide, shared_from in [(far, BYTE)] if len(table) > MANY_HANDLES else choices:
        code = tuple_of(_rows(*rows, frames, _Way(named, wide, shared_from)))
        yield pickled(code, strings)


def _distinct(table: HandleTable, function: Ints, types: Ints, instances: Ints) -> tuple[_Frames, Ints, Ints]:
    """The distinct frames, and for each frame of the table its number among them, and its role (f).

    Frames have the same role if they, and all frames further in, differ only in modules.
    """
    modules: dict[tuple[int, int], int] = {}
    named = zip(types.tolist(), instances.tolist(), strict=True)
    distinct = [modules.setdefault(pair, len(modules)) for pair in named]
    module = np.array([*distinct, -1])[table.module]
    calls = list(zip(table.call_tag.tolist(), function.tolist(), strict=True))
    frame = frame_numbers(table.next, list(zip(module.tolist(), calls, strict=True)), {})
    role = frame_numbers(table.next, calls, {})
    first = np.unique(frame, return_index=True)[1]
    inner = np.append(frame, -1)[table.next[first]]
    frames = _Frames(
        next=inner.tolist(),
        module=module[first].tolist(),
        tag=table.call_tag[first].tolist(),
        function=function[first].tolist(),
        modules=list(modules),
    )
    return frames, frame, role


def frame_numbers(following: Ints, facts: Sequence[object], known: dict[tuple[int, object], int]) -> Ints:
    """Number frames: equal numbers for equal frames, all frames further in included (f).

    Args:
        following: the frame one call deeper, or -1 (f).
        facts: of each frame, by which it is compared (f).
        known: numbers by the inner frame's number, or -1, and the frame's facts. New ones are added.
    """
    inner = following.tolist()
    number = [-1] * len(inner)
    for outer in range(len(inner)):
        opened = []
        frame = outer
        while frame >= 0 and number[frame] < 0:
            opened.append(frame)
            frame = inner[frame]
        last = number[frame] if frame >= 0 else -1
        for frame_of_stack in reversed(opened):
            last = number[frame_of_stack] = known.setdefault((last, facts[frame_of_stack]), len(known))
    return np.array(number, np.int64)


def _rows(handle: Ints, tag: Ints, op: Ints, stack: Ints, frames: _Frames, way: _Way) -> Instructions:  # noqa: PLR0917 (columns)
    """The instructions of the rows, which are given in the order of writing."""
    stacked = np.flatnonzero(stack >= 0)
    begins = stacked[numbered(stack[stacked])[1]]
    rest = np.setdiff1d(stacked, begins, assume_unique=True)
    rows = Composer(len(handle))
    if way.named:
        rows.add(MARK)
    rows.add(WIDE if way.wide else INT, handle)
    rows.add(np.where(tag >= way.shared_from, SHARED_INT, INT), tag)
    if way.named:
        rows.add(SHARED_TEXT, op)
    rows.add(NONE, at=np.flatnonzero(stack < 0))
    rows.insert(_Definitions(frames, way).code(stack[begins].tolist()), at=begins)
    rows.add(GET, stack[rest], at=rest)
    rows.add(TUPLE if way.named else CLOSE[3])
    return rows.code()


class _Definitions:
    """Writes call stacks: a frame in full where it stands first, later read from the memo.

    Keys are the numbers of frames, then those of modules.
    """

    def __init__(self, frames: _Frames, way: _Way) -> None:
        self.frames, self.way = frames, way
        self.op: list[int] = []
        self.arg: list[int] = []
        self.written: set[int] = set()

    def code(self, stacks: Sequence[int]) -> Instructions:
        """The instructions of call stacks, given by their outermost frames."""
        sizes = []
        for stack in stacks:
            before = len(self.op)
            self.stack(stack)
            sizes.append(len(self.op) - before)
        return Instructions(
            firsts(np.array(sizes, np.int64)), np.array(self.op, np.uint8), np.array(self.arg, np.int64)
        )

    def add(self, op: int, arg: int = 0) -> None:
        self.op.append(op)
        self.arg.append(arg)

    def stack(self, frame: int) -> None:
        opened = []
        while frame >= 0 and frame not in self.written:
            opened.append(frame)
            self.written.add(frame)
            if self.way.named:
                self.add(MARK)
            self.module(self.frames.module[frame])
            tag = self.frames.tag[frame]
            self.add(SHARED_INT if tag >= self.way.shared_from else INT, tag)
            frame = self.frames.next[frame]
        self.add(*(GET, frame) if frame >= 0 else (NONE,))
        for frame_of_stack in reversed(opened):
            if self.way.named:
                self.add(SHARED_TEXT, self.frames.function[frame_of_stack])
            self.add(TUPLE if self.way.named else CLOSE[3])
            self.add(PUT, frame_of_stack)

    def module(self, module: int) -> None:
        key = len(self.frames.next) + module
        if module < 0:
            self.add(NONE)
        elif key in self.written:
            self.add(GET, key)
        else:
            self.written.add(key)
            for name in self.frames.modules[module]:
                self.add(SHARED_TEXT, name)
            self.add(CLOSE[2])
            self.add(PUT, key)


# --- methods

KEYS = {Generation.METHOD_HANDLES: b"function_debug_handles", Generation.MODULE_PATHS: b"module_debug_info"}


def method_ways(table: MethodTable) -> Iterator[bytes]:
    """Write the record in several ways."""
    memory.take(memory.TEXT * len(table) + 7 * memory.NUMBER * len(table.value), "methods and their handles")
    is_paths = table.generation is Generation.MODULE_PATHS
    index = np.concatenate((table.name, table.value)) if is_paths else table.name
    strings, number = own_strings(table.strings, index)
    strings = [*strings, KEYS[table.generation], BUILDER]
    for op in (SHARED_TEXT,) if is_paths else (INT, WIDE):
        value = number[len(table) :] if is_paths else table.value
        items = Instructions(table.first, np.full(len(value), op, np.uint8), value)
        methods = Composer(len(table))
        methods.add(SHARED_TEXT, number[: len(table)])
        methods.add(SHARED_TEXT, len(strings) - 2)
        if is_paths:
            methods.insert(tuples(items, np.diff(table.first)))
        else:
            methods.insert(integer_lists(items, len(strings) - 1))
            methods.add(CLOSE[1])
        # Close (key, list), the table with this one entry, and (method, table).
        for size in (2, 1, 2):
            methods.add(CLOSE[size])
        code = tuple_of(each(INT, np.array([table.version])), methods.code())
        yield pickled(code, strings)
