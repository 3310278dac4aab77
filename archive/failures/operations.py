"""The facts about debug handles that splitting digits needs, looked up in columns: no entry is made."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from archive.base.spending import Recent
from archive.base.strings import decoded
from archive.debuginfo.unique_handles import HANDLE_DIGITS
from archive.formats.instructions import INTERFACE_CALL, MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.debuginfo.handle_tables import HandleTable
    from archive.formats.instructions import LiteInstruction
    from archive.reader.archive import Archive

RUNNING_OPCODES = {b"OP", b"OPN", b"CALL", INTERFACE_CALL, b"RAISE_EXCEPTION"}
"""Instructions of the lite interpreter that call an operator or a method, or raise."""
CALLS = b"prim::Call"
"""The start of the names of operators that call a method."""
FACTS_KEPT = 1 << 16
"""Handles whose facts are kept."""


class Operation(NamedTuple):
    """The facts about a handle.

    Attributes:
        method: the number of the method whose instruction has it; -1 where none is known.
        method_name: the method's qualified name; b"" where none is known.
        may_call: whether it may be a call's: its row names no operator, or a call.
        instruction: its instruction; None where the bytecode does not tell.
    """

    method: int
    method_name: bytes
    may_call: bool
    instruction: LiteInstruction | None


class Operations:
    """The operations of an archive by their debug handles.

    Args:
        archive: the archive, or companion.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._table = archive.handle_table
        self._methods = archive.method_table
        self._facts = Recent[int, Operation](FACTS_KEPT)
        self._modules: dict[int, int] = {}

    def __contains__(self, handle: int) -> bool:
        return self._table is not None and handle in self._table.rows

    @cached_property
    def most_digits(self) -> int:
        """The digits of the longest handle, without a prefix; 0 where there are no handles."""
        if self._table is None or not len(self._table):
            return 0
        if self._archive.handle_form.prefix:
            return HANDLE_DIGITS
        return max(len(str(int(self._table.handle.min()))), len(str(int(self._table.handle.max()))))

    @cached_property
    def has_methods(self) -> bool:
        """Whether it is known which handles are instructions of methods."""
        return self._methods is not None and len(self._methods.value) > 0

    @cached_property
    def blobs(self) -> Mapping[str, frozenset[int]]:
        """Class of a lowered module → the handles in the blobs of its instances."""
        blobs: dict[str, frozenset[int]] = {}
        for state in self._archive.lowered.values():
            blobs[state.type_name] = blobs.get(state.type_name, frozenset()) | set(state.handles)
        return blobs

    def __getitem__(self, handle: int) -> Operation:
        """The facts about a known handle; those of handles asked for lately are kept."""
        known = self._facts.get(handle)
        return self._facts.keep(handle, self._found(handle), 1) if known is None else known

    def _found(self, handle: int) -> Operation:
        may_call = self._op(handle) < 0 or self._operator(handle)[: len(CALLS)] == CALLS
        methods = self._methods
        place = None if methods is None else methods.place_of(handle)
        if methods is None or place is None:
            return Operation(-1, b"", may_call, None)
        method, number = place
        text = methods.strings.data(int(methods.name[method]))
        name, table = bytes(text) if len(text) <= MAX_NAME else b"", self._archive.instruction_table
        return Operation(method, name, may_call, None if table is None else table.at(name, number))

    def runs_nothing(self, handle: int) -> bool:
        """Whether a handle is known to be an instruction's that calls neither an operator nor a method."""
        instruction = self[handle].instruction
        return instruction is not None and instruction.opcode not in RUNNING_OPCODES

    def operator(self, handle: int) -> str:
        """The name of a known handle's operator; "" where none is recorded, or too long a one."""
        name = self._operator(handle)
        return decoded(name) if len(name) <= MAX_NAME else ""

    def module_type(self, handle: int) -> str:
        """The class of the innermost module in a known handle's call stack; "" where there is none."""
        table = self._known
        module = self._innermost(int(table.stack[table.rows[handle]]))
        name = memoryview(b"") if module < 0 else table.strings.data(int(table.module_type[module]))
        return decoded(name) if len(name) <= MAX_NAME else ""

    def _innermost(self, frame: int) -> int:
        """The innermost module from a frame on; -1 where there is none. Each frame is visited once."""
        visited = []
        while frame >= 0 and frame not in self._modules:
            visited.append(frame)
            frame = int(self._known.next[frame])
        module = self._modules.get(frame, -1)
        for one in reversed(visited):
            module = int(self._known.module[one]) if module < 0 else module
            self._modules[one] = module
        return module

    def _op(self, handle: int) -> int:
        return int(self._known.op[self._known.rows[handle]])

    def _operator(self, handle: int) -> memoryview:
        op = self._op(handle)
        return memoryview(b"") if op < 0 else self._known.strings.data(op)

    @property
    def _known(self) -> HandleTable:
        """The table that a known handle is in."""
        assert self._table is not None  # noqa: S101 (else no handle is known)
        return self._table
