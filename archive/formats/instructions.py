"""Single instructions of ``bytecode.pkl``, each looked up in the pickle's columns when it is asked for.

Explaining a log needs few of them, and of each only the opcode and the method that it calls. No constant is
followed, however deep it is. A record of another form than in :mod:`archive.formats.bytecode` has no
instructions here; it is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.formats.record_kinds import BYTECODE
from archive.pickles.ops import ValueKind

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.pickles.tree import Tree

INTERFACE_CALL = b"INTERFACE_CALL"
HOLDERS = (ValueKind.TUPLE, ValueKind.LIST)
ENTRY_BYTES = 220
"""Bytes of memory that an item of a tuple or list costs while it is looked through."""
MAX_NAME = 4096
"""Bytes of an opcode or a method's name; a longer one counts as none."""


class LiteInstruction(NamedTuple):
    """An instruction: its opcode, and the name of the method that it calls through an interface, or b""."""

    opcode: bytes
    calls: bytes


class InstructionTable:
    """The instructions of each method.

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
        self._tables = self._by_name(int(tree.roots[pickle]))
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

    def _by_name(self, root: int) -> dict[bytes, int]:
        """Each method's table; of equal names the last."""
        methods = self._distinct(root)
        return {self._text(self._item(one, 0)): self._item(one, 1) for one in methods if self._holds(one)}

    def _distinct(self, node: int) -> dict[int, None]:
        """The distinct items of a tuple or list, in order; none of another node."""
        if not self._holds(node):
            return {}
        count = int(self._tree.count[node])
        self._allowance.take(ENTRY_BYTES * count, "entries of bytecode", record=BYTECODE)
        return dict.fromkeys(self._tree.items(node))

    def _part(self, table: int, wanted: bytes) -> int:
        """The value under a key of a method's table; -1 where there is none."""
        entries = self._distinct(table)
        return next((self._item(one, 1) for one in entries if self._text(self._item(one, 0)) == wanted), -1)

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
