"""The names in pickles: of classes, attributes, types, methods and modules.

A pickle does not refer to its own bytes, so a text or a global is replaced where it stands. PyTorch writes
each text once, and reads it again from the memo: a text that is both a name and a value cannot change.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from typing import TYPE_CHECKING

from archive.base.errors import ImpossibleError, shown
from archive.formats.method_handles import METHOD_RECORDS
from archive.formats.record_kinds import BYTECODE, CALLSTACK_MAP
from archive.pickles.ops import ValueKind
from archive.pickles.write import global_name, text_head
from archive.privacy.redact.names.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.pickles.tree import Tree
    from archive.privacy.redact.names.words import ModelNames

NODE_BYTES = 300
"""Bytes of memory that a value takes while names are looked for."""
TAGGED = ("torch.jit._pickle", "restore_type_tag")
TABLES = (CALLSTACK_MAP, *METHOD_RECORDS.values())
CALL_BY_NAME = "INTERFACE_CALL"


class Role(IntEnum):
    """What a text is."""

    VALUE = 0  # anything that the model computes with, and words of the format
    NAME = 1  # of an attribute or argument
    TYPES = 2  # names of classes and functions in a text of a type, a method, a call stack or a path


class Pickled:
    """The names in a pickle.

    Args:
        name: the record.
        tree: its values.
        with_state: names of classes whose objects are built from a state of their own, not from attributes.
    """

    def __init__(self, name: str, tree: Tree, with_state: Collection[str]) -> None:
        self._name, self._tree, self._with_state = name, tree, with_state
        self._roles: dict[int, set[Role]] = defaultdict(set)
        self._globals: dict[int, tuple[str, str]] = {}
        root = int(tree.roots[0])
        if name == BYTECODE:
            self._bytecode(root)
        elif name == CALLSTACK_MAP:
            for row in self._tree.items(root):  # of handle, tag, operator and stack
                *parts, stack = self._tree.items(row)
                for part in parts:
                    self._values(part, Role.VALUE)
                self._values(stack, Role.TYPES)
        else:
            self._values(root, Role.TYPES if name in TABLES else Role.VALUE)

    def note(self, words: ModelNames) -> None:
        """Note the names; those that are also values stay."""
        for module, name in self._globals.values():
            words.note_dotted(f"{module}.{name}")
        for node, roles in self._roles.items():
            text = self._text(node)
            if Role.VALUE in roles:
                words.spoken.update([text, *WORDS.findall(text)])
            if Role.NAME in roles:
                words.found.add(text)
                if Role.VALUE in roles:
                    words.keep([text], "values")
            if Role.TYPES in roles:
                words.note_text(text)
                if Role.VALUE in roles and text.isidentifier():
                    words.keep([text], "values")

    def renamed(self, words: ModelNames) -> bytes:
        """The pickle with other names.

        Raises:
            ImpossibleError: a text is a name and a value.
        """
        new = {node: self._new_text(node, roles, words) for node, roles in self._roles.items()}
        new |= {node: self._new_global(name, words) for node, name in self._globals.items()}
        tokens = self._tree.tokens
        data = bytes(tokens.pickles[0].data)
        pieces, end = [], 0
        for node in sorted(node for node, instruction in new.items() if instruction):
            start, after = (int(at - tokens.base[0]) for at in tokens.at[node : node + 2])
            pieces += [data[end:start], new[node]]
            end = after
        return b"".join([*pieces, data[end:]])

    def _new_text(self, node: int, roles: set[Role], words: ModelNames) -> bytes:
        old = self._text(node)
        news = {
            old if role is Role.VALUE else words.new(old) if role is Role.NAME else words.text(old)
            for role in roles
        }
        if len(news) > 1:
            _, at = self._tree.tokens.place(node)
            why = f"{shown(old)} is a name and a value in one"
            raise ImpossibleError(why, record=self._name, place=f"byte {at}")
        (text,) = news
        if text == old:
            return b""
        data = text.encode("utf-8", "surrogateescape")
        return text_head(len(data)) + data

    def _new_global(self, name: tuple[str, str], words: ModelNames) -> bytes:
        old = ".".join(name)
        new = words.dotted(old)
        if new == old:
            return b""
        module, _, last = new.rpartition(".")
        return global_name(module, last)

    def _text(self, node: int) -> str:
        tree = self._tree
        return bytes(tree.strings.data(int(tree.value[node]))).decode("utf-8", "surrogateescape")

    # Values

    def _values(self, root: int, role: Role) -> None:
        """Note the names in a value; its texts have a role unless their place says something else."""
        seen, stack = set[tuple[int, Role]](), [(root, role)]
        while stack:
            node, role = stack.pop()
            if (node, role) in seen:
                continue
            seen.add((node, role))
            kind = self._tree.kind(node)
            if kind == ValueKind.TEXT:
                self._roles[node].add(role)
            elif kind == ValueKind.GLOBAL:
                self._globals[node] = self._tree.names(node)
            elif kind == ValueKind.REDUCE:
                stack += self._called(node, role)
            elif kind == ValueKind.OBJECT:
                stack += self._object(node)
            else:
                stack += ((part, role) for part in self._tree.items(node))

    def _called(self, node: int, role: Role) -> Iterator[tuple[int, Role]]:
        """The parts of a call; that of ``restore_type_tag`` names a type."""
        callee, arguments = self._tree.items(node)
        yield callee, role
        parts = self._tree.items(arguments)
        is_tag = self._tree.kind(callee) == ValueKind.GLOBAL and self._tree.names(callee) == TAGGED
        for place, part in enumerate(parts):
            yield part, Role.TYPES if is_tag and place == 1 else role
        if node in self._tree.states:
            yield self._tree.states[node], role

    def _object(self, node: int) -> Iterator[tuple[int, Role]]:
        """The parts of an object: its class, and its attributes or state."""
        for part in self._tree.items(node):
            yield part, Role.VALUE
        state = self._tree.states.get(node)
        if state is None:
            return
        callee = self._tree.items(node)[0]
        kind = self._tree.kind(callee)
        name = ".".join(self._tree.names(callee)) if kind == ValueKind.GLOBAL else ""
        if self._tree.kind(state) != ValueKind.DICT or name in self._with_state:
            yield state, Role.VALUE
            return
        parts = self._tree.items(state)
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            yield key, Role.NAME
            yield value, Role.VALUE

    # Tables

    def _bytecode(self, root: int) -> None:
        """Note the names in methods: each is a name, a table, and perhaps a schema."""
        for method in self._tree.items(root):
            if self._tree.kind(method) != ValueKind.TUPLE:
                continue
            name, table, *schemas = self._tree.items(method)
            self._values(name, Role.TYPES)
            self._method(table)
            for schema in schemas:  # arguments, and what is returned, each of name, type and default
                for _, arguments in self._pairs(schema):
                    for argument in self._tree.items(arguments):
                        for key, part in self._pairs(argument):
                            roles = {"name": Role.NAME, "type": Role.TYPES}
                            self._values(part, roles.get(key, Role.VALUE))

    def _method(self, table: int) -> None:
        entries = dict(self._pairs(table))
        called = set()  # the places of methods' names among the constants
        instructions = entries.get("instructions")
        for row in [] if instructions is None else self._tree.items(instructions):
            code, place, *_ = self._tree.items(row)
            if self._tree.kind(code) == ValueKind.TEXT and self._text(code) == CALL_BY_NAME:
                called.add(int(self._tree.value[place]))
        for key, entry in entries.items():
            if key == "types":
                self._values(entry, Role.TYPES)
            elif key == "constants":
                for place, part in enumerate(self._tree.items(entry)):
                    is_text = self._tree.kind(part) == ValueKind.TEXT
                    self._values(part, Role.NAME if place in called and is_text else Role.VALUE)
            else:
                self._values(entry, Role.VALUE)

    def _pairs(self, node: int) -> Iterator[tuple[str, int]]:
        """The pairs of a tuple: a key, which stays as it is, and a value."""
        for pair in self._tree.items(node):
            parts = self._tree.items(pair) if self._tree.kind(pair) == ValueKind.TUPLE else []
            if len(parts) != 2 or self._tree.kind(parts[0]) != ValueKind.TEXT:  # noqa: PLR2004 (key and value)
                fault = self._tree.tokens.fault(node, "")
                fault.expected = "pairs of a key and a value"
                raise fault
            self._roles[parts[0]].add(Role.VALUE)
            yield self._text(parts[0]), parts[1]
