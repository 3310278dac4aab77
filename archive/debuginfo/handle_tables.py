"""Handles, call stacks and methods of a whole archive as columns, as in :mod:`archive.debuginfo.tables`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.base.quick_dataclass import dataclass
from archive.base.strings import StringView
from archive.debuginfo.model import (
    Generation,
    Handle,
    HandleEntry,
    InlinedCall,
    ModuleInstance,
    Tag,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.columns import Ints
    from archive.base.strings import StringTable


@dataclass(frozen=True, eq=False)
class HandleTable:
    """A call-stack debug map: h handles, f frames, m modules; rows in the file's order.

    Attributes:
        strings: names.
        handle: debug handle (h).
        tag: tag of the operation's own range (h).
        op: operator's name, or -1 (h).
        stack: first frame of the call stack, or -1 (h).
        next: the frame one call deeper, or -1 (f).
        module: the frame's module, or -1 (f).
        call_tag: tag of the call's range in the caller, or -1 (f).
        function: name of the called function, or -1 (f).
        module_type: qualified class name (m).
        module_instance: attribute that holds the module (m).
    """

    strings: StringTable
    handle: Ints
    tag: Ints
    op: Ints
    stack: Ints
    next: Ints
    module: Ints
    call_tag: Ints
    function: Ints
    module_type: Ints
    module_instance: Ints

    def __len__(self) -> int:
        return len(self.handle)

    def _string(self, index: int) -> StringView | None:
        return None if index < 0 else StringView(self.strings, index)

    def frames(self, row: int) -> list[int]:
        """The frames of a row's call stack, outermost first."""
        frames: list[int] = []
        frame = int(self.stack[row])
        while frame >= 0:
            frames.append(frame)
            frame = int(self.next[frame])
        return frames

    def call(self, frame: int) -> InlinedCall:
        """One frame."""
        module, instance = int(self.module[frame]), None
        if module >= 0:
            type_name, attribute = int(self.module_type[module]), int(self.module_instance[module])
            instance = ModuleInstance(
                StringView(self.strings, type_name), StringView(self.strings, attribute)
            )
        return InlinedCall(instance, Tag(int(self.call_tag[frame])), self._string(int(self.function[frame])))

    def op_of(self, row: int) -> StringView | None:
        """The operator's name of a row; None if it has none."""
        return self._string(int(self.op[row]))

    def entry(self, row: int) -> HandleEntry:
        """One row."""
        return HandleEntry(
            Handle(int(self.handle[row])),
            Tag(int(self.tag[row])),
            self.op_of(row),
            tuple(self.call(frame) for frame in self.frames(row)),
        )

    @cached_property
    def rows(self) -> Mapping[int, int]:
        """The row of each handle; the first one of equal handles, which PyTorch refuses."""
        rows: dict[int, int] = {}
        for row, handle in enumerate(self.handle.tolist()):
            rows.setdefault(handle, row)
        return rows


@dataclass(frozen=True, eq=False)
class MethodTable:
    """A debug handle, or module path, for each instruction of each method: g methods, i instructions.

    Attributes:
        generation: the record's layout, which says whether the values are handles or paths.
        strings: names, and module paths.
        version: the bytecode's version in the record.
        name: the method's qualified name (g).
        first: its first instruction (g + 1).
        value: a debug handle, or the string that is a module path (i).
    """

    generation: Generation
    strings: StringTable
    version: int
    name: Ints
    first: Ints
    value: Ints

    def __len__(self) -> int:
        return len(self.name)

    @cached_property
    def names(self) -> Sequence[str]:
        """The methods' qualified names."""
        return self._texts(self.name.tolist())

    @cached_property
    def _by_value(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.value, kind="stable")
        values = self.value[order]
        last = np.diff(values, append=values[-1:] + 1) != 0
        return values[last], order[last]

    def place_of(self, handle: int) -> tuple[int, int] | None:
        """The method whose instruction has a handle, and the instruction's number there; None if none has.

        If several instructions have the handle, the last one.
        """
        values, order = self._by_value
        at = int(values.searchsorted(handle))
        if at == len(values) or values[at] != handle:
            return None
        method = int(self.first.searchsorted(order[at], "right")) - 1
        return method, int(order[at] - self.first[method])

    def values(self, method: int) -> list[int]:
        """The list of one method: handles, or indices of strings."""
        values: list[int] = self.value[int(self.first[method]) : int(self.first[method + 1])].tolist()
        return values

    def texts(self, method: int) -> list[str]:
        """The list of one method: module paths."""
        return self._texts(self.values(method))

    def _texts(self, indices: list[int]) -> list[str]:
        distinct = {index: str(self.strings[index]) for index in set(indices)}
        return [distinct[index] for index in indices]
