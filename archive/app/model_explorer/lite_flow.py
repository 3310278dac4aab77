"""Instructions of the lite interpreter → the graph of a method: each operator by its debug handle.

An operator takes from the stack what instructions before it have put there. They are gone through once, in
their order: what stands before a jump is kept for its target, and what meets there comes from both. An
operator leaves one result unless a ``STOREN`` after it takes more; one that has no result leaves an empty
value that nothing reaches. Opcodes: ``torch/csrc/jit/runtime/instruction.h``; what each does:
``torch/csrc/jit/mobile/interpreter.cpp``.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.profiles.places import node_id
from archive.formats.record_kinds import BYTECODE
from archive.reader.lookups.places import StockPlaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.app.model_explorer.graph import OperatorGraph
    from archive.reader.archive import Archive

Value = frozenset[str]
"""The nodes that a value comes from."""
NOTHING: Value = frozenset()
ALTERED = {
    **dict.fromkeys(("LOADC", "CREATE_OBJECT"), (0, 1)),
    **dict.fromkeys(("GET_ATTR", "TUPLE_SLICE", "ISINSTANCE", "UN_INITIALIZED"), (1, 1)),
    **dict.fromkeys(("DROP", "WARN", "RAISE_EXCEPTION"), (1, 0)),
    "SET_ATTR": (2, 0),
    "DROPR": (0, 0),
}
"""How many values an instruction takes, and how many it makes of them."""
MAKING = {"LIST_CONSTRUCT", "DICT_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT", "INTERFACE_CALL", "CALL"}
"""Instructions that make one value of as many as their second argument says."""
COPYING = {"JF", "JMP", "LOOP"}
"""Instructions at which all values are kept for another place."""
LOOP_STATE = 3
"""Values that a loop keeps below those that it carries: how often it ran, how often it may, and whether."""
MOST_RESULTS = 1 << 10
INTERNAL = "prim::"
"""Begins what a backend notes of constants and attributes, which compute nothing."""


class _Instruction(NamedTuple):
    opcode: str
    x: int
    n: int


@dataclass(slots=True)
class _Stack:
    """The values at an instruction."""

    values: list[Value]
    registers: dict[int, Value]

    def copied(self) -> _Stack:
        return _Stack([*self.values], dict(self.registers))

    def take(self, many: int) -> list[Value]:
        """The uppermost values, the lowest first; fewer if there are not so many."""
        taken = self.values[-many:] if many > 0 else []
        del self.values[len(self.values) - len(taken) :]
        return taken

    def met(self, other: _Stack | None) -> _Stack:
        """The values where two ways meet."""
        if other is None:
            return self
        pairs = zip_longest(self.values[::-1], other.values[::-1], fillvalue=NOTHING)
        names = {**self.registers, **other.registers}
        return _Stack(
            [one | two for one, two in pairs][::-1],
            {at: self.registers.get(at, NOTHING) | other.registers.get(at, NOTHING) for at in names},
        )


def add_lite(graph: OperatorGraph, opened: Archive, method: str) -> None:
    """Add the operators of a method of the top module, and those inside of backends that it calls."""
    try:
        _add(graph, opened, f"{opened.qualified_top}.{method}")
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, StopIteration) as error:
        what = "bytecode of the lite interpreter"
        raise ArchiveError(expected=what, found="other values", file=opened.file, record=BYTECODE) from error


def _add(graph: OperatorGraph, opened: Archive, name: str) -> None:
    handles = opened.methods[name]
    record: Any = opened.value(BYTECODE)
    methods = record[1:] if record and isinstance(record[0], int) else record  # the first have no version
    table = dict(next(rows for each, rows, *_ in methods if each == name))
    operators = [(one_line(str(row[0])), row[2] if len(row) > 2 else None) for row in table["operators"]]  # noqa: PLR2004 (name, overload, arguments)
    code = [_Instruction(str(row[0]), int(row[1]), int(row[2])) for row in table["instructions"]]
    places = StockPlaces(opened)
    ids: dict[int, str] = {}
    for at, (each, handle) in enumerate(zip(code, handles, strict=False)):
        if each.opcode in {"OP", "OPN"}:
            ids[at] = graph.add_operator(places.of_handle(handle), operators[each.x][0], handle)
    _follow(graph, code, ids, [counted for _, counted in operators])
    held = {handle for some in opened.methods.values() for handle in some}
    drawn = {node_id(node.place, node.place.op, None) for node in graph.nodes.values() if node.place}
    for handle in (each for each in opened.handles if each not in held):
        place = places.of_handle(handle)
        is_drawn = node_id(place, place.op, None) in drawn  # a backend's own handle of what instructions do
        if not is_drawn and not place.op.startswith(INTERNAL):
            graph.add_operator(place, place.op, handle)


def _follow(
    graph: OperatorGraph,
    code: Sequence[_Instruction],
    ids: dict[int, str],
    counts: Sequence[int | None],
) -> None:
    """Draw what each operator takes.

    Args:
        ids: of the nodes, by the number of the instruction.
        counts: how many arguments each operator takes; None where the archive does not say.
    """
    waiting: dict[int, _Stack] = {}
    stack: _Stack | None = _Stack([], {})
    for at, (opcode, x, n) in enumerate(code):
        graph.step(1 if stack is None or not stack.values else 1 + len(stack.values[-1]))
        arriving = waiting.pop(at, None)
        if opcode in COPYING and stack is not None:
            graph.step(len(stack.values) + len(stack.registers))
        stack = arriving if stack is None else stack.met(arriving)
        if stack is None:  # nothing leads here
            continue
        if opcode in {"OP", "OPN"}:
            many = n if opcode == "OPN" else counts[x]
            if many is None:
                return
            graph.connect(ids[at], (node for value in stack.take(many) for node in sorted(value)))
            after = code[at + 1] if at + 1 < len(code) else code[at]
            results = min(after.n, MOST_RESULTS) if after.opcode == "STOREN" else 1
            graph.step(max(results, 0))
            stack.values += [frozenset([ids[at]])] * results
        elif opcode in {"LOAD", "MOVE"}:
            stack.values.append(stack.registers.get(x, NOTHING))
        elif opcode == "STORE":
            stack.registers[x] = next(iter(stack.take(1)), NOTHING)
        elif opcode == "STOREN":
            stack.registers |= {x + number: value for number, value in enumerate(stack.take(n))}
        elif opcode in MAKING or opcode == "TUPLE_CONSTRUCT":
            taken = stack.take(x if opcode == "TUPLE_CONSTRUCT" else n)
            stack.values.append(NOTHING.union(*taken))
        elif opcode == "LIST_UNPACK":
            graph.step(max(min(x, MOST_RESULTS), 0))
            stack.values += stack.take(1) * min(x, MOST_RESULTS)
        elif opcode in ALTERED:
            taken_many, made = ALTERED[opcode]
            stack.values += [NOTHING.union(*stack.take(taken_many))] * made
        elif opcode == "JF":
            stack.take(1)
            waiting[at + x] = stack.copied().met(waiting.get(at + x))
        elif opcode == "LOOP":
            waiting[at + x] = _left(stack, n).met(waiting.get(at + x))
        elif opcode == "JMP":
            target = at + x
            if x < 0 and code[max(target, 0)].opcode == "LOOP":
                loop = code[target]
                stack, target = _left(stack, loop.n), target + loop.x
            waiting[target] = stack.met(waiting.get(target))
            stack = None
        elif opcode == "RET":
            stack = None
        else:
            return  # an opcode of a release that is not known here: what follows would be guessed


def _left(stack: _Stack, carried: int) -> _Stack:
    """The values after a loop: what it carries, without its own state."""
    after = stack.copied()
    state = len(after.values) - (carried + 1)
    del after.values[max(state, 0) : max(state + LOOP_STATE, 0)]
    return after
