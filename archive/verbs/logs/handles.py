"""Which handles stand in ``debug_handles:{24188}``, where PyTorch joins them without a separator.

The handles of one failure, innermost first, are

- operations of delegated modules, if any: in the call-stack map, but in no method's instructions;
- then one instruction of each method that was running. The innermost one failed or, behind delegated
  operations, called the backend's ``execute``. Each other one called, through an interface, a method of the
  name that its predecessor is in.

Each handle is in the call-stack map and stands there once, no two instructions are of the same method, and
decimal numbers have no leading zeros. Where several readings are left, likelier is

1. one that ends in a method of the top module;
2. one whose delegated operations fit: all are named in the blob of the lowered module called here, if that
   is readable, and none is in another that is no call.

Every rule is needed by failures of real models, and where the rules told one reading from all others, it was
always the true one: see ``tests/support/ambiguous_models.py``. Where they do not tell readings apart, none is
the answer.
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

MAX_HANDLES = 16  # modules inside one another, each called through an interface or a backend
MAX_READINGS = 1_000  # those with fewest handles
RUNNING_OPCODES = {"OP", "OPN", "CALL", "INTERFACE_CALL", "RAISE_EXCEPTION"}
INTERFACE_CALL = "INTERFACE_CALL"
EXECUTE_METHOD = "execute"


def resolve_handles(archive: Archive, digits: str) -> list[tuple[int, ...]]:
    """The handles that PyTorch printed one behind the other.

    Args:
        archive: what failed.
        digits: what stands between the braces.

    Returns:
        Every reading that fits the archive, the likeliest first, as ``Archive.symbolicate`` takes them:
        inner handles first. At most 1,000 readings, of no more than 16 handles each.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    return HandleSplits(archive).fitting(digits)


class LiteInstruction(NamedTuple):
    """Opcode, and the name of the method that it calls through an interface, or nothing."""

    opcode: str
    calls: str


class ReadingState(NamedTuple):
    """How far a reading has come.

    Attributes:
        at: digits read.
        callee: name of the method that the next instruction has to call.
        inside: whether an instruction was read.
    """

    at: int
    callee: str
    inside: bool


class HandleSplits:
    """Splits the digits of an archive's handles; see the module."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @cached_property
    def _methods(self) -> Mapping[int, str]:
        """The method of each instruction's handle."""
        return {handle: name for name, handles in self._archive.methods.items() for handle in handles}

    @cached_property
    def _digits(self) -> int:
        return max((len(str(handle)) for handle in self._archive.handles), default=0)

    @cached_property
    def _instructions(self) -> Mapping[int, LiteInstruction]:
        """The instruction of each handle; none where the bytecode does not tell."""
        value = self._archive.value(BYTECODE) if BYTECODE in self._archive.records else ()
        methods = self._archive.methods
        return {
            handle: instruction
            for name, instructions in _bytecode(value)
            for handle, instruction in zip(methods.get(name, ()), instructions, strict=False)
        }

    @cached_property
    def _blobs(self) -> Mapping[str, frozenset[int]]:
        """The handles in the blobs of the lowered modules, by class."""
        blobs: dict[str, frozenset[int]] = {}
        for state in self._archive.lowered.values():
            blobs[state.type_name] = blobs.get(state.type_name, frozenset()) | set(state.handles)
        return blobs

    def is_instruction(self, handle: int) -> bool:
        """Whether a handle is known to be of a method's instruction."""
        return handle in self._methods

    def runs_nothing(self, handle: int) -> bool:
        """Whether a handle is known to be of an instruction that calls neither operator nor method."""
        instruction = self._instructions.get(handle)
        return instruction is not None and instruction.opcode not in RUNNING_OPCODES

    def likeliest(self, readings: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Those of some readings that no rule puts behind another."""
        ranks = {reading: self._rank(reading) for reading in readings}
        best = min(ranks.values(), default=None)
        return [reading for reading, rank in ranks.items() if rank == best]

    def fitting(self, digits: str) -> list[tuple[int, ...]]:
        """As :func:`resolve_handles`."""
        if not (digits.isascii() and digits.isdecimal()):
            return []
        found = list(filter(self._is_stack, islice(self._readings(digits), MAX_READINGS)))
        return sorted(found, key=lambda one: (self._rank(one), one)) if len(found) > 1 else found

    def _readings(self, digits: str) -> Iterator[tuple[int, ...]]:
        """All readings, those with few handles first; no way is followed that leads nowhere."""

        @cache
        def leads_on(place: ReadingState, left: int) -> bool:
            if place.at == len(digits):
                return place.inside and not left
            return left > 0 and any(leads_on(step, left - 1) for _, step in self._steps(digits, place))

        def readings(place: ReadingState, left: int) -> Iterator[tuple[int, ...]]:
            if place.at == len(digits):
                yield ()
                return
            for handle, step in self._steps(digits, place):
                if leads_on(step, left - 1):
                    yield from ((handle, *rest) for rest in readings(step, left - 1))

        start = ReadingState(0, "", inside=False)
        for count in range(1, MAX_HANDLES + 1):
            if leads_on(start, count):
                yield from readings(start, count)

    def _steps(self, digits: str, place: ReadingState) -> Iterator[tuple[int, ReadingState]]:
        """The handles that may come next, and the places behind them."""
        longest = 1 if digits[place.at] == "0" else self._digits
        for end in range(place.at + 1, min(place.at + longest, len(digits)) + 1):
            handle = int(digits[place.at : end])
            entry = self._archive.handles.get(handle)
            if entry is None:
                continue
            if handle not in self._methods and self._methods:
                if not place.inside:
                    yield handle, ReadingState(end, EXECUTE_METHOD, inside=False)
            elif not place.at or (_may_call(entry) and self._calls(handle, place.callee)):
                yield handle, ReadingState(end, self._methods.get(handle, "").rpartition(".")[2], inside=True)

    def _calls(self, handle: int, callee: str) -> bool:
        instruction = self._instructions.get(handle)
        return instruction is None or instruction == (INTERFACE_CALL, callee)

    def _is_stack(self, handles: tuple[int, ...]) -> bool:
        methods = [self._methods.get(handle, handle) for handle in handles]
        return len(set(methods)) == len(methods)

    def _rank(self, handles: tuple[int, ...]) -> tuple[bool, bool]:
        outside = self._methods.get(handles[-1], "").rpartition(".")[0] != self._archive.qualified_top
        return outside, not self._fits(handles)

    def _fits(self, handles: tuple[int, ...]) -> bool:
        """Whether the delegated operations, if any, fit the instruction that called the backend."""
        delegated = [handle for handle in handles if handle not in self._methods]
        if not delegated or not self._methods:
            return True
        caller = handles[len(delegated)]
        modules = [call.module for call in self._archive.handles[caller].stack if call.module]
        owner = str(modules[-1].type_name) if modules else self._methods[caller].rpartition(".")[0]
        if not all(_may_call(self._archive.handles[handle]) for handle in delegated[1:]):
            return False
        blob = self._blobs.get(owner)
        return not blob or blob.issuperset(delegated)


def _may_call(entry: HandleEntry) -> bool:
    return entry.op is None or str(entry.op).startswith("prim::Call")


def _bytecode(value: object) -> Iterator[tuple[str, Iterator[LiteInstruction]]]:
    """Each method's instructions, in the value of ``bytecode.pkl``; none where it has another form."""
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
