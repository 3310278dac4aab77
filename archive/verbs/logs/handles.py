"""Splits the digits of ``debug_handles:{24188}``: PyTorch prints handles without a separator.

A *reading* splits the digits into handles. ``24188`` may be the handle 24188, or 24 inside of 188, or 241
inside of 88. The handles of one failure, innermost first, are

- the operations of delegated modules, if any: they are in the call-stack map, but in no method's
  instructions;
- then one instruction of each method that was running. The innermost instruction failed or, behind delegated
  operations, called the backend's ``execute``. Each further instruction called a method through an
  interface, and that method has the name of the one before it::

      24188  =  24                 188
                in m.inner         in top.forward: INTERFACE_CALL "inner"

Each handle is in the call-stack map and stands in a reading once, no two instructions are of the same method,
and decimal numbers have no leading zeros. Where several readings are left, a reading is likelier

1. if it ends in a method of the top module;
2. if its delegated operations fit: the blob of the lowered module that is called here names them all, as far
   as it can be read, and each operation around another one is a call.

Failures of real models need every rule. Where the rules preferred a single reading, it was the true one each
time: see ``tests/support/ambiguous_models.py``. Where several readings are equally likely, none is taken.
"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from archive.formats.bytecode import BYTECODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.debuginfo.model import HandleEntry
    from archive.reader.archive import Archive

MAX_HANDLES = 16
"""Handles of one failure: modules inside one another, each called through an interface or a backend."""
MAX_READINGS = 1_000
"""Readings that are looked at, those with the fewest handles first."""
INTERFACE_CALL = "INTERFACE_CALL"
RUNNING_OPCODES = {"OP", "OPN", "CALL", INTERFACE_CALL, "RAISE_EXCEPTION"}
"""Instructions of the lite interpreter that call an operator or a method, or raise."""
EXECUTE_METHOD = "execute"
"""The method of a backend that runs a lowered module."""


def resolve_handles(archive: Archive, digits: str) -> list[tuple[int, ...]]:
    """Split the handles that PyTorch printed one behind the other.

    Args:
        archive: the model that failed.
        digits: the text between the braces.

    Returns:
        Every reading that fits the archive, the likeliest first; each as ``Archive.symbolicate`` takes it,
        inner handles first. At most 1,000 readings are looked at, of no more than 16 handles each.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    return HandleSplits(archive).fitting(digits)


class LiteInstruction(NamedTuple):
    """An instruction: its opcode, and the name of the method that it calls through an interface, or ""."""

    opcode: str
    calls: str


class ReadingState(NamedTuple):
    """The state of a reading after some handles.

    Attributes:
        at: the number of digits read.
        callee: the name of the method that the next instruction must call.
        in_methods: whether an instruction of a method was read; behind one there is no delegated operation.
    """

    at: int
    callee: str
    in_methods: bool


class HandleSplits:
    """Splits the joined handles of an archive, by the rules of this module."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @cached_property
    def _methods(self) -> Mapping[int, str]:
        """Handle → the method whose instruction has it."""
        return {handle: name for name, handles in self._archive.methods.items() for handle in handles}

    @cached_property
    def _most_digits(self) -> int:
        """The digits of the archive's longest handle."""
        return max((len(str(handle)) for handle in self._archive.handles), default=0)

    @cached_property
    def _instructions(self) -> Mapping[int, LiteInstruction]:
        """Handle → its instruction; empty where the bytecode does not tell."""
        value = self._archive.value(BYTECODE) if BYTECODE in self._archive.records else ()
        methods = self._archive.methods
        return {
            handle: instruction
            for name, instructions in _bytecode(value)
            for handle, instruction in zip(methods.get(name, ()), instructions, strict=False)
        }

    @cached_property
    def _blobs(self) -> Mapping[str, frozenset[int]]:
        """Class of a lowered module → the handles in the blobs of its instances."""
        blobs: dict[str, frozenset[int]] = {}
        for state in self._archive.lowered.values():
            blobs[state.type_name] = blobs.get(state.type_name, frozenset()) | set(state.handles)
        return blobs

    def is_instruction(self, handle: int) -> bool:
        """Whether a handle is known to be an instruction's."""
        return handle in self._methods

    def runs_nothing(self, handle: int) -> bool:
        """Whether a handle is known to be an instruction's that calls neither an operator nor a method."""
        instruction = self._instructions.get(handle)
        return instruction is not None and instruction.opcode not in RUNNING_OPCODES

    def likeliest(self, readings: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The readings that rank first; several if the rules do not tell them apart."""
        ranks = {reading: self._rank(reading) for reading in readings}
        best = min(ranks.values(), default=None)
        return [reading for reading, rank in ranks.items() if rank == best]

    def fitting(self, digits: str) -> list[tuple[int, ...]]:
        """Every reading that fits the archive, as :func:`resolve_handles` returns them."""
        if not (digits.isascii() and digits.isdecimal()):
            return []
        found = list(filter(self._is_stack, islice(self._readings(digits), MAX_READINGS)))
        return sorted(found, key=lambda one: (self._rank(one), one)) if len(found) > 1 else found

    def _readings(self, digits: str) -> Iterator[tuple[int, ...]]:
        """All readings, those with few handles first.

        Readings of n handles form a tree that grows with every digit, and most of its branches end before the
        last digit. ``leads_on`` asks whether a branch ends well before it is followed, and its answers are
        cached: there are few states, though many readings.
        """

        @cache
        def leads_on(state: ReadingState, left: int) -> bool:
            if state.at == len(digits):
                return state.in_methods and not left
            return left > 0 and any(leads_on(step, left - 1) for _, step in self._steps(digits, state))

        def readings(state: ReadingState, left: int) -> Iterator[tuple[int, ...]]:
            if state.at == len(digits):
                yield ()
                return
            for handle, step in self._steps(digits, state):
                if leads_on(step, left - 1):
                    yield from ((handle, *rest) for rest in readings(step, left - 1))

        start = ReadingState(0, "", in_methods=False)
        for count in range(1, MAX_HANDLES + 1):
            if leads_on(start, count):
                yield from readings(start, count)

    def _steps(self, digits: str, state: ReadingState) -> Iterator[tuple[int, ReadingState]]:
        """The handles that may come next, each with the state behind it."""
        longest = 1 if digits[state.at] == "0" else self._most_digits
        for end in range(state.at + 1, min(state.at + longest, len(digits)) + 1):
            handle = int(digits[state.at : end])
            entry = self._archive.handles.get(handle)
            if entry is None:
                continue
            if handle not in self._methods and self._methods:
                # No instruction's handle: a delegated operation, if no method's instruction came before.
                if not state.in_methods:
                    yield handle, ReadingState(end, EXECUTE_METHOD, in_methods=False)
            # The innermost handle may be any instruction's; a further one must call what is inside of it.
            elif not state.at or (_may_call(entry) and self._calls(handle, state.callee)):
                yield (
                    handle,
                    ReadingState(end, self._methods.get(handle, "").rpartition(".")[2], in_methods=True),
                )

    def _calls(self, handle: int, callee: str) -> bool:
        """Whether a handle's instruction may call a method of this name through an interface."""
        instruction = self._instructions.get(handle)
        return instruction is None or instruction == (INTERFACE_CALL, callee)

    def _is_stack(self, handles: tuple[int, ...]) -> bool:
        """Whether no handle stands twice, and no method has two instructions: it runs one at a time."""
        methods = [self._methods.get(handle, handle) for handle in handles]
        return len(set(methods)) == len(methods)

    def _rank(self, handles: tuple[int, ...]) -> tuple[bool, bool]:
        """The rank of a reading by the module's two rules; the likeliest has the smallest."""
        outside = self._methods.get(handles[-1], "").rpartition(".")[0] != self._archive.qualified_top
        return outside, not self._fits(handles)

    def _fits(self, handles: tuple[int, ...]) -> bool:
        """Whether the delegated operations, if any, fit the instruction that called the backend."""
        delegated = [handle for handle in handles if handle not in self._methods]
        if not delegated or not self._methods:
            return True
        # Inlined calls may lie between the method and the backend: the innermost module is the lowered one.
        caller = handles[len(delegated)]
        modules = [call.module for call in self._archive.handles[caller].stack if call.module]
        owner = str(modules[-1].type_name) if modules else self._methods[caller].rpartition(".")[0]
        if not all(_may_call(self._archive.handles[handle]) for handle in delegated[1:]):
            return False
        blob = self._blobs.get(owner)
        return not blob or blob.issuperset(delegated)


def _may_call(entry: HandleEntry) -> bool:
    """Whether a row of the call-stack map may be a call's: it names no operator, or a call."""
    return entry.op is None or str(entry.op).startswith("prim::Call")


def _bytecode(value: object) -> Iterator[tuple[str, Iterator[LiteInstruction]]]:
    """Each method's name and instructions, out of the value of ``bytecode.pkl``; none in any other form.

    The value is a tuple of a version and methods; a method is a name and a table of named parts.
    """
    for method in _items(value):
        name, table = (*_items(method), None, None)[:2]
        parts = {str(pair[0]): _items(pair[-1]) for pair in map(_items, _items(table)) if pair}
        rows, constants = parts.get("instructions", ()), parts.get("constants", ())
        yield str(name), (_instruction(_items(row), constants) for row in rows)


def _instruction(row: Sequence[object], constants: Sequence[object]) -> LiteInstruction:
    opcode, operand = (*row, None, None)[:2]
    if opcode == INTERFACE_CALL and isinstance(operand, int) and 0 <= operand < len(constants):
        return LiteInstruction(INTERFACE_CALL, str(constants[operand]))
    return LiteInstruction(str(opcode), "")


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, tuple | list) else ()
