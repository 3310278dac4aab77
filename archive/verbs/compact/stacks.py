"""The call-stack map in few bytes.

- Call stacks that say the same are one tuple, and so are modules; PyTorch shares only what was one object.
- Rows stand in the order that deflates best; PyTorch takes any (tried with 2.13). Rows of one call stack
  stand together, by tag and then by handle. Call stacks that differ in modules alone, as those of a model's
  equal layers do, are neighbours: their rows are alike, but for the handles.
- Where some handles take four bytes, all may: then rows of equal length stand at equal distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered
from archive.debuginfo.model import Generation
from archive.pickles.write import BYTE
from archive.verbs.compact.encoding import pickled
from archive.verbs.compact.instructions import (
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
    tuple_of,
)
from archive.verbs.compact.strings import own_strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.tables import HandleTable

MANY_HANDLES = 50_000
"""Rows from which on only the way is tried that suits large maps."""


@dataclass(frozen=True, slots=True, eq=False)
class _Frames:
    """f distinct frames and m distinct modules.

    Attributes:
        next: the frame one call deeper, or -1 (f).
        module: or -1 (f).
        tag: of the call (f).
        function: a string, or -1 (f).
        modules: class and instance, as strings (m).
    """

    next: list[int]
    module: list[int]
    tag: list[int]
    function: list[int]
    modules: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Way:
    """How to write the map.

    Attributes:
        named: whether rows and frames have a fourth element, a name.
        wide: whether all handles take four bytes.
        shared_from: tags from this one on are written once and read from the memo.
    """

    named: bool
    wide: bool
    shared_from: int


def ways(table: HandleTable, generation: Generation) -> Iterator[bytes]:
    """The map, written in several ways, with as many elements a row as it has."""
    columns = (table.op, table.function, table.module_type, table.module_instance)
    strings, number = own_strings(table.strings, np.concatenate(columns))
    op, function, types, instances = np.split(number, np.cumsum([len(column) for column in columns])[:-1])
    frames, frame, role = _distinct(table, function, types, instances)
    stack, role = (np.append(numbers, -1)[table.stack] for numbers in (frame, role))
    order = _order(table, op, stack, role)
    rows = table.handle[order], table.tag[order], op[order], stack[order]
    named = generation is Generation.CALLSTACK_4
    far = int(table.handle.max(initial=0)) >= 1 << 16
    for wide in (far,) if len(table) > MANY_HANDLES else (False, True)[: 1 + far]:
        for shared_from in (BYTE,) if len(table) > MANY_HANDLES else (BYTE, NEVER):
            yield pickled(tuple_of(_rows(*rows, frames, _Way(named, wide, shared_from))), strings)


def _distinct(table: HandleTable, function: Ints, types: Ints, instances: Ints) -> tuple[_Frames, Ints, Ints]:
    """The distinct frames, and for each frame of the table which one it is, and its role (f).

    Frames of one role differ in modules alone, all the way in.
    """
    modules: dict[tuple[int, int], int] = {}
    named = zip(types.tolist(), instances.tolist(), strict=True)
    distinct = [modules.setdefault(one, len(modules)) for one in named]
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


def frame_numbers(following: Ints, says: Sequence[object], known: dict[tuple[int, object], int]) -> Ints:
    """Numbers of frames, equal where what they say is, all the way in (f).

    Args:
        following: the frame one call deeper, or -1 (f).
        says: of each frame (f).
        known: numbers by the inner frame's number, or -1, and what the frame says; added to.
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
        for one in reversed(opened):
            last = number[one] = known.setdefault((last, says[one]), len(known))
    return np.array(number, np.int64)


def _order(table: HandleTable, op: Ints, stack: Ints, role: Ints) -> Ints:
    """The rows in the order in which they are written."""
    by_handle = np.argsort(table.handle, kind="stable")
    names, stacks, roles = (numbered(column[by_handle])[0] for column in (op, stack, role))
    order: Ints = by_handle[np.lexsort((names, table.tag[by_handle], stacks, roles))]
    return order


def _rows(handle: Ints, tag: Ints, op: Ints, stack: Ints, frames: _Frames, way: _Way) -> Instructions:  # noqa: PLR0917 (columns)
    """The rows, in their order."""
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
    """Call stacks, each with the frames that none before has had. Keys are frames' numbers, then modules'."""

    def __init__(self, frames: _Frames, way: _Way) -> None:
        self.frames, self.way = frames, way
        self.op: list[int] = []
        self.arg: list[int] = []
        self.written: set[int] = set()

    def code(self, stacks: Sequence[int]) -> Instructions:
        """The call stacks, given by their first frames."""
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
        for one in reversed(opened):
            if self.way.named:
                self.add(SHARED_TEXT, self.frames.function[one])
            self.add(TUPLE if self.way.named else CLOSE[3])
            self.add(PUT, one)

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
