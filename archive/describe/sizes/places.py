"""How many bytes of a program's record each node takes, and each piece of its metadata.

``json`` gives values, not where they stand. So the objects on the way to the nodes are followed here, and
``json`` itself reads all other values. Text is read as latin-1, in which a character is a byte.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.json_text import json_cost, json_errors
from archive.formats.exported.program import check_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Read = Callable[[int], tuple[Any, int]]
    """Reads the value that begins at a byte; gives it, and the byte after it."""

BLANK = "[ \t\n\r]*"
BLANKS = re.compile(BLANK)
OBJECT, LIST, VALUE = (re.compile(f"{BLANK}{re.escape(mark)}{BLANK}") for mark in "{[:")
"""What stands before the first key of an object, the first value of a list, and a value after its key."""
SEPARATOR = re.compile(f"{BLANK}(?:(?P<comma>,){BLANK})?")
"""What may follow a value of an object or a list."""


class MetadataSize(NamedTuple):
    """A piece of a node's metadata.

    Attributes:
        size: bytes of both, and of the separator after them.
    """

    key: str
    text: str
    size: int


class NodeBytes(NamedTuple):
    """The bytes of a node.

    Attributes:
        metadata: what stands between the braces of its metadata.
        inner: the nodes of graphs inside of it.
    """

    size: int
    metadata: Sequence[MetadataSize]
    inner: Sequence[NodeBytes]

    @property
    def own(self) -> int:
        """Bytes that are neither metadata nor of nodes inside."""
        return self.size - sum(piece.size for piece in self.metadata) - sum(node.size for node in self.inner)


def node_bytes(data: memoryview) -> Sequence[NodeBytes]:
    """The nodes of a program's own graph, which hold those of the graphs inside.

    Args:
        data: the record. Where an object has a key twice, the last one counts, as for ``json``.
    """
    memory.take(json_cost(data), "JSON values")
    with json_errors("byte"):
        is_ascii = len(str(data, "utf-8")) == len(data)
        return _Scan(str(data, "latin-1"), is_ascii=is_ascii).program()


class _Member(NamedTuple):
    """A key and a value of an object, whose bytes reach to the next ones."""

    key: str
    value: Any
    size: int


class _Scan:
    """Reads a program's record.

    Args:
        text: the record, a character for each byte.
        is_ascii: whether each character is what it stands for.
    """

    def __init__(self, text: str, *, is_ascii: bool) -> None:
        self._text = text
        self._is_ascii = is_ascii
        self._decode = json.JSONDecoder().raw_decode
        self._scopes = 0

    def program(self) -> Sequence[NodeBytes]:
        """The nodes of the program's own graph."""
        nodes, end = self._under(("graph_module", "graph"), self._graph, self._past_blank(0))
        end = self._past_blank(end)
        if nodes is None or end < len(self._text):
            self._refuse("a program", end)
        return nodes  # type: ignore[no-any-return]

    def _graph(self, at: int) -> tuple[Sequence[NodeBytes], int]:
        check_scopes(self._scopes, f"byte {at}")
        self._scopes += 1
        nodes, end = self._under(("nodes",), partial(self._items, self._node), at)
        self._scopes -= 1
        return (self._refuse("a graph", at) if nodes is None else nodes), end

    def _node(self, at: int) -> tuple[NodeBytes, int]:
        members, end = self._members({"metadata": self._metadata, "inputs": self._inputs}, at)
        values = {member.key: member.value for member in members}
        if not {"metadata", "inputs"} <= values.keys():
            self._refuse("a node", at)
        return NodeBytes(end - at, values["metadata"], values["inputs"]), end

    def _metadata(self, at: int) -> tuple[Sequence[MetadataSize], int]:
        members, end = self._members({}, at)
        if not all(isinstance(member.value, str) for member in members):
            self._refuse("texts", at)
        return [MetadataSize(*member) for member in members], end

    def _inputs(self, at: int) -> tuple[Sequence[NodeBytes], int]:
        """The nodes of graphs among arguments. Few nodes have such, so ``json`` looks first."""
        values, end = self._value(at)
        if not isinstance(values, list):
            self._refuse("a list", at)
        if not any(map(_holds_graph, values)):
            return (), end
        graphs, end = self._items(partial(self._under, ("arg", "as_graph", "graph"), self._graph), at)
        return [node for graph in graphs for node in graph or ()], end

    def _under(self, path: Sequence[str], read: Read, at: int) -> tuple[Any, int]:
        """Read the value under a path of keys; None where there is none."""
        if not path:
            return read(at)
        if self._text[at : at + 1] != "{":
            return None, self._value(at)[1]
        members, end = self._members({path[0]: partial(self._under, path[1:], read)}, at)
        return {member.key: member.value for member in members}.get(path[0]), end

    def _members(self, readers: Mapping[str, Read], at: int) -> tuple[list[_Member], int]:
        """Read an object, with readers for some keys."""
        members: list[_Member] = []
        start, at = at + 1, self._past(OBJECT, "{", at)
        more = self._text[at : at + 1] != "}"
        while more:
            if self._text[at : at + 1] != '"':
                self._refuse("a key", at)
            key, at = self._value(at)
            at = self._past(VALUE, ":", at)
            value, at = readers.get(key, self._value)(at)
            at, more = self._separated("}", at)
            members.append(_Member(key, value, at - start))
            start = at
        return members, at + 1

    def _items(self, read: Read, at: int) -> tuple[list[Any], int]:
        """Read a list."""
        items: list[Any] = []
        at = self._past(LIST, "[", at)
        more = self._text[at : at + 1] != "]"
        while more:
            value, at = read(at)
            items.append(value)
            at, more = self._separated("]", at)
        return items, at + 1

    def _separated(self, close: str, at: int) -> tuple[int, bool]:
        """The place of the next value, or of what closes the values, and whether there is another one."""
        match = SEPARATOR.match(self._text, at)
        at, more = (match.end(), match["comma"] is not None) if match else (at, False)
        if not more and self._text[at : at + 1] != close:
            self._refuse(f", or {close}", at)
        return at, more

    def _value(self, at: int) -> tuple[Any, int]:
        """Read any value. Only text that is asked for itself needs to be decoded."""
        value, end = self._decode(self._text, at)
        if not self._is_ascii and isinstance(value, str):
            value = json.loads(self._text[at:end].encode("latin-1").decode())
        return value, end

    def _past(self, pattern: re.Pattern[str], expected: str, at: int) -> int:
        match = pattern.match(self._text, at)
        return match.end() if match else self._refuse(expected, at)

    def _past_blank(self, at: int) -> int:
        return self._past(BLANKS, "", at)

    def _refuse(self, expected: str, at: int) -> NoReturn:
        raise ArchiveError(place=f"byte {at}", expected=expected, found="something else")


def _holds_graph(argument: object) -> bool:
    inner = argument.get("arg") if isinstance(argument, dict) else None
    return isinstance(inner, dict) and isinstance(inner.get("as_graph"), dict)
