"""The debug handles of a run in the lite interpreter, found by the names of its operations.

PyTorch's profiler names the operations of a run in their order, and leaves their debug handles out. The run
is a path through the method's instructions, of which jumps and loops decide; the names tell which path. Where
several paths have the same names, an operation may have several handles.

Opcodes: ``torch/csrc/jit/runtime/instruction.h``; jumps: ``torch/csrc/jit/mobile/interpreter.cpp``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from archive.base.errors import ArchiveError
from archive.formats.record_kinds import BYTECODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.reader.archive import Archive

OPERATIONS = ("OP", "OPN")
BRANCHES = ("JF", "LOOP")
"""Opcodes that go to the next instruction, or as far as their argument says."""
PLAIN = {"int": int, "float": float, "bool": bool, "str": str, "NoneType": type(None)}
"""Types of arguments, by their names in TorchScript."""
JUMP, RETURN = "JMP", "RET"
CALLS = ("CALL", "INTERFACE_CALL")
"""Opcodes that run other methods, whose operations are not among the method's own."""


class LiteMethod:
    """A method of the lite interpreter.

    Args:
        instructions: opcode and first argument of each.
        names: the operator that each instruction runs; "" for others.
        handles: the debug handle of each instruction.
        parameters: name, type and default of each, without ``self``; None where the archive has none.
    """

    def __init__(
        self,
        instructions: Sequence[tuple[str, int]],
        names: Sequence[str],
        handles: Sequence[int],
        parameters: Sequence[tuple[str, str, object]] | None = None,
    ) -> None:
        self.parameters = parameters
        self._instructions = instructions
        self._names = names
        self._handles = handles
        self._next = cache(self._next_operations)

    @classmethod
    def of(cls, opened: Archive, method: str) -> LiteMethod:
        """The method of an archive's top module.

        Raises:
            ArchiveError: the archive does not have it, or keeps no debug handles.
        """
        wanted = f"{opened.qualified_top}.{method}"
        handles = opened.methods.get(wanted)
        if handles is None:
            known = ", ".join(opened.methods) or "none"
            raise ArchiveError(expected=f"debug handles of {wanted}", found=known, file=opened.file)
        _, *methods = _tuple(opened.value(BYTECODE))
        _, rows, *schema = next(one for one in methods if one[0] == wanted)
        table = dict(rows)
        operators = [str(one[0]) for one in table["operators"]]
        instructions = [(str(one[0]), int(one[1])) for one in table["instructions"]]
        names = [operators[number] if code in OPERATIONS else "" for code, number in instructions]
        parameters = [tuple(dict(one).values()) for one in dict(schema[0])["arguments"]] if schema else None
        return cls(instructions, names, list(handles), None if parameters is None else parameters[1:])

    def check(self, given: Sequence[object]) -> None:
        """Refuse arguments that the method does not take: the lite interpreter would end the process.

        Raises:
            TypeError: there are too many or too few, or one is of another type.
        """
        if self.parameters is None:
            return
        needed = [one for one in self.parameters if one[2] is None and not one[1].startswith("Optional[")]
        if not len(needed) <= len(given) <= len(self.parameters):
            texts = ", ".join(f"{name}: {kind}" for name, kind, _ in self.parameters) or "no arguments"
            raise TypeError(f"expected {texts}; found {len(given)} arguments")
        for (name, kind, _), value in zip(self.parameters, given, strict=False):
            if not _fits(value, kind):
                raise TypeError(f"expected {name}: {kind}; found {type(value).__name__}")

    def handles_of(self, run: Sequence[str]) -> list[tuple[int, ...]]:
        """The debug handles that each operation of a run may have; none if the run is no path of the method.

        Args:
            run: the operators' names, in the order in which they ran.
        """
        if any(code in CALLS for code, _ in self._instructions):
            return [()] * len(run)
        end = len(self._instructions)
        reached: list[set[int]] = []  # the instructions that may run each operation
        following = self._next(0)
        for name in run:
            reached.append({at for at in following if at < end and self._names[at] == name})
            following = frozenset[int]().union(*(self._next(at + 1) for at in reached[-1]))
        after = frozenset([end])  # those that may run the next operation on a path to the end
        found: list[tuple[int, ...]] = []
        for places in reversed(reached):
            after = frozenset(at for at in places if after & self._next(at + 1))
            found.append(tuple(sorted({self._handles[at] for at in after})))
        return found[::-1]

    def _next_operations(self, start: int) -> frozenset[int]:
        """The operations that may run next from an instruction on; the number of instructions for the end."""
        left, seen, found = [start], set[int](), set[int]()
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            code, number = self._instructions[at] if at < len(self._instructions) else (RETURN, 0)
            if code == RETURN:
                found.add(len(self._instructions))
            elif code in OPERATIONS:
                found.add(at)
            elif code == JUMP:
                left.append(at + number)
            else:
                left += [at + 1, at + number] if code in BRANCHES else [at + 1]
        return frozenset(found)


def _tuple(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 (inert values)
    """The record's methods behind its version."""
    return (0, *value) if value and not isinstance(value[0], int) else tuple(value)


def _fits(value: object, kind: str) -> bool:
    """Whether a value is of a type, by TorchScript's name; of types that are not known here, any value is."""
    whole, _, inner = kind.removesuffix("]").partition("[")
    if whole == "Optional":
        return value is None or _fits(value, inner)
    if whole == "List":
        return isinstance(value, list) and all(_fits(one, inner) for one in value)
    if kind == "Tensor":
        return isinstance(value, torch.Tensor)
    return type(value) is PLAIN[kind] if kind in PLAIN else True
