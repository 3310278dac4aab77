"""``bytecode.pkl``: the methods of the lite interpreter. Read for names, instructions and operators.

``(version, (method, (("instructions", ((op, x, n), ...)), ("operators", ((name, overload, ...), ...)), ...),
...), ...)``. The instructions ``OP`` and ``OPN`` call operator x. PyTorch 1.5 and 1.6 wrote no version;
readers take it as 3.

- Written by ``ScriptModuleSerializer::writeByteCode`` (``torch/csrc/jit/serialization/export_module.cpp``).
- Read by ``BytecodeDeserializer::parseMethods`` (``torch/csrc/jit/mobile/import.cpp``), instructions by
  ``parseInstructions`` (``torch/csrc/jit/mobile/parse_bytecode.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import distinct_values
from archive.base.strings import charged
from archive.formats.record_kinds import BYTECODE
from archive.formats.schema import found_at
from archive.pickles.ops import ValueKind
from archive.pickles.write import integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.errors import ArchiveError
    from archive.base.limits import Allowance
    from archive.pickles.tree import Tree

UNVERSIONED = 3
INSTRUCTIONS, OPERATORS = b"instructions", b"operators"
WARN = b"WARN"
CALLING = (b"OP", b"OPN")
METHOD_BYTES, INSTRUCTION_BYTES, OPERATOR_BYTES = 480, 120, 80
"""Bytes of memory that a method, an instruction and an operator cost besides their names."""
INTERFACE_CALL = b"INTERFACE_CALL"
HOLDERS = (ValueKind.TUPLE, ValueKind.LIST)
ITEM_BYTES = 220
"""Bytes of memory that an item of a tuple or list costs while it is looked through."""
MAX_NAME = 4096
"""Bytes of an opcode or a method's name; a longer one counts as none."""


@dataclass(frozen=True, slots=True)
class Bytecode:
    """The version of the bytecode, and the number of instructions of each method."""

    version: int
    instructions: Mapping[str, int]


def parse_bytecode(tree: Tree, pickle: int, allowance: Allowance) -> Bytecode:
    """The methods of one record of a tree.

    Raises:
        ArchiveError: a value is not as above.
        LimitError: the methods cost more memory than the allowance has.
    """
    version, items = _methods(tree, pickle)
    names: dict[int, str] = {}  # by their strings, and counts by their tables: both may be shared
    counts: dict[int, int] = {}
    instructions = {}
    for item in items:
        string, table = _method(tree, item)
        if table not in counts:
            counts[table] = int(tree.count[_entry(tree, table, INSTRUCTIONS)])
        if string not in names:
            allowance.take(METHOD_BYTES, "methods", record=BYTECODE)
            names[string] = charged(tree.strings.data(string), allowance)
        instructions[names[string]] = counts[table]
    return Bytecode(version, instructions)


def parse_operators(tree: Tree, pickle: int, allowance: Allowance) -> dict[str, list[bytes]]:
    """For each method, the operator that each instruction calls; b"" where it calls none.

    Raises:
        ArchiveError: a value is not as above.
        LimitError: the methods and instructions cost more memory than the allowance has.
    """
    names: dict[int, str] = {}
    called: dict[int, list[bytes]] = {}  # by table
    operators = {}
    for item in _methods(tree, pickle)[1]:
        string, table = _method(tree, item)
        if table not in called:
            called[table] = _called(tree, table, allowance)
        if string not in names:
            allowance.take(METHOD_BYTES, "methods", record=BYTECODE)
            names[string] = charged(tree.strings.data(string), allowance)
        operators[names[string]] = called[table]
    return operators


def renumber_warnings(tree: Tree, pickle: int) -> bytes:
    """The record with its warnings numbered from 0 in their order.

    PyTorch numbers them by a counter of its process, which nothing reads, so that a model saved twice
    differs.

    Raises:
        ArchiveError: a value is not as above.
    """
    data = bytes(tree.tokens.pickles[pickle].data)
    numbers = []
    for item in _methods(tree, pickle)[1]:
        _, table = _method(tree, item)
        for instruction in _items(tree, _entry(tree, table, INSTRUCTIONS)):
            code, number = _first_two(tree, instruction, "an instruction")
            if bytes(tree.strings.data(_text(tree, code))) == WARN:
                numbers.append(number)
    pieces, end = [], 0
    for count, node in enumerate(dict.fromkeys(numbers)):
        start, after = (int(at - tree.tokens.base[pickle]) for at in tree.tokens.at[node : node + 2])
        pieces += [data[end:start], integer(count)]
        end = after
    return b"".join([*pieces, data[end:]])


def _called(tree: Tree, table: int, allowance: Allowance) -> list[bytes]:
    """The operator of each instruction of a method."""
    instruction = np.array(_items(tree, _entry(tree, table, INSTRUCTIONS)), np.int64)
    allowance.take(INSTRUCTION_BYTES * len(instruction), "instructions", record=BYTECODE)
    names = []
    for entry in _items(tree, _entry(tree, table, OPERATORS)):
        name, _ = _first_two(tree, entry, "an operator: name and overload")
        written = tree.strings.data(_text(tree, name))
        allowance.take(OPERATOR_BYTES + len(written), "operators", record=BYTECODE)
        names.append(bytes(written))
    short = np.flatnonzero((tree.kinds(instruction) != ValueKind.TUPLE) | (tree.count[instruction] < 2))  # noqa: PLR2004
    if len(short):
        raise _unexpected(tree, int(instruction[short[0]]), "an instruction")
    first = tree.first[instruction]
    code, number = tree.children[first], tree.children[first + 1]
    calls = [
        node
        for node in distinct_values(code).tolist()
        if bytes(tree.strings.data(_text(tree, node))) in CALLING
    ]
    calling = np.isin(code, calls)
    which = tree.value[number]
    wrong = calling & ((tree.kinds(number) != ValueKind.INT) | (which < 0) | (which >= len(names)))
    if wrong.any():
        raise _unexpected(tree, int(number[wrong][0]), f"one of {len(names)} operators")
    return [
        names[number] if call else b"" for number, call in zip(which.tolist(), calling.tolist(), strict=True)
    ]


def _methods(tree: Tree, pickle: int) -> tuple[int, memoryview]:
    """The version, and the methods."""
    items = _tuple(tree, int(tree.roots[pickle]), "a tuple of methods")
    if items and tree.kind(items[0]) == ValueKind.INT:
        return int(tree.value[items[0]]), items[1:]
    return UNVERSIONED, items


def _method(tree: Tree, item: int) -> tuple[int, int]:
    """A method's name, as an index of a string, and its table."""
    name, table = _first_two(tree, item, "a method: name and table")
    return _text(tree, name), table


def _text(tree: Tree, node: int) -> int:
    if tree.kind(node) != ValueKind.TEXT:
        raise _unexpected(tree, node, "a text")
    return int(tree.value[node])


def _entry(tree: Tree, table: int, wanted: bytes) -> int:
    """The tuple under a key of a method's table."""
    for entry in _tuple(tree, table, "a method's table"):
        key, value = _first_two(tree, entry, "a pair of key and value")
        if tree.kind(key) == ValueKind.TEXT and tree.strings.data(int(tree.value[key])) == wanted:
            if tree.kind(value) != ValueKind.TUPLE:
                raise _unexpected(tree, value, wanted.decode())
            return value
    raise _unexpected(tree, table, f"a method with {wanted.decode()}")


def _first_two(tree: Tree, node: int, expected: str) -> tuple[int, int]:
    if tree.kind(node) != ValueKind.TUPLE or tree.count[node] < 2:  # noqa: PLR2004 (the two)
        raise _unexpected(tree, node, expected)
    first = int(tree.first[node])
    return int(tree.children[first]), int(tree.children[first + 1])


def _tuple(tree: Tree, node: int, expected: str) -> memoryview:
    if tree.kind(node) != ValueKind.TUPLE:
        raise _unexpected(tree, node, expected)
    return _items(tree, node)


def _items(tree: Tree, node: int) -> memoryview:
    """The children of a node, as they lie in the tree: a list would take ten times the memory."""
    first = int(tree.first[node])
    return tree.children[first : first + int(tree.count[node])].data


def _unexpected(tree: Tree, node: int, expected: str) -> ArchiveError:
    error = tree.tokens.fault(node, "")
    error.expected, error.found = expected, found_at(tree, node)
    return error


class LiteInstruction(NamedTuple):
    """An instruction: its opcode, and the name of the method that it calls through an interface, or b""."""

    opcode: bytes
    calls: bytes


class InstructionTable:
    """The instructions of each method, each looked up in the pickle's columns when it is asked for.

    Explaining a log needs few of them, and of each only the opcode and the method that it calls. No constant
    is followed, however deep it is. A record of another form has no instructions here; it is no error.

    Args:
        tree: values of pickles.
        pickle: the number of the bytecode among them.
        allowance: the memory that looking through the methods may cost.

    Raises:
        LimitError: there are more methods, or entries of one, than that.
    """

    def __init__(self, tree: Tree, pickle: int, allowance: Allowance) -> None:
        self._tree = tree
        self._allowance = allowance
        self._tables = {  # by name; of equal names the last
            self._text(self._item(method, 0)): self._item(method, 1)
            for method in self._distinct(int(tree.roots[pickle]))
            if self._holds(method)
        }
        self._parts: dict[int, tuple[int, int]] = {}

    def at(self, method: bytes, number: int) -> LiteInstruction | None:
        """An instruction, by its method's qualified name and its number; None where there is none."""
        table = self._tables.get(method)
        if table is None:
            return None
        if table not in self._parts:
            self._parts[table] = self._part(table, b"instructions"), self._part(table, b"constants")
        instructions, constants = self._parts[table]
        row = self._item(instructions, number)
        opcode = self._text(self._item(row, 0))
        called = self._text(self._item(constants, self._int(self._item(row, 1))))
        return None if row < 0 else LiteInstruction(opcode, called if opcode == INTERFACE_CALL else b"")

    def _distinct(self, node: int) -> dict[int, None]:
        """The distinct items of a tuple or list, in order; none of another node."""
        if not self._holds(node):
            return {}
        count = int(self._tree.count[node])
        self._allowance.take(ITEM_BYTES * count, "entries of bytecode", record=BYTECODE)
        return dict.fromkeys(self._tree.items(node))

    def _part(self, table: int, wanted: bytes) -> int:
        """The value under a key of a method's table; -1 where there is none."""
        entries = self._distinct(table)
        return next(
            (self._item(entry, 1) for entry in entries if self._text(self._item(entry, 0)) == wanted), -1
        )

    def _holds(self, node: int) -> bool:
        """Whether a node is a tuple or a list."""
        return node >= 0 and self._tree.kind(node) in HOLDERS

    def _item(self, node: int, number: int) -> int:
        """A child of a tuple or list; -1 where there is none."""
        if not self._holds(node) or not 0 <= number < int(self._tree.count[node]):
            return -1
        return int(self._tree.children[int(self._tree.first[node]) + number])

    def _int(self, node: int) -> int:
        """A node's number; -1 for other kinds."""
        return int(self._tree.value[node]) if node >= 0 and self._tree.kind(node) == ValueKind.INT else -1

    def _text(self, node: int) -> bytes:
        """A node's text; b"" for other kinds, and for one that is too long."""
        if node < 0 or self._tree.kind(node) != ValueKind.TEXT:
            return b""
        data = self._tree.strings.data(int(self._tree.value[node]))
        return bytes(data) if len(data) <= MAX_NAME else b""
