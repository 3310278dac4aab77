"""The facts that an archive's debug information states.

A *source range* is a stretch of a *source*, a text of the model's own files. A *tag* is the number of a
source range in the whole archive. A *debug handle* is the number of one operation of the model. It leads to
the operation's own range (by tag), the operator's name, and the *inlined call stack*: the calls leading
there, outermost first.

Facts are made on demand from columns (:mod:`archive.debuginfo.tables`). All positions are bytes of UTF-8.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, NewType

from archive.base.bounded import bounded_members
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.strings import StringView, Text

Handle = NewType("Handle", int)
Tag = NewType("Tag", int)

NO_TAG = Tag(-1)


class RangeLayout(StrEnum):
    """The layouts of source-range records; see ``formats.source_ranges``."""

    PAIR = "pair rows"
    TAG_FIRST = "tag-first rows"
    INLINE = "inline rows"
    STRING_TABLE = "string table"
    EMPTY = "no rows"


class Generation(StrEnum):
    """The layouts of the other debug records."""

    CALLSTACK_3 = "call-stack map, 3 elements"
    CALLSTACK_4 = "call-stack map, 4 elements"
    MODULE_PATHS = "module paths"
    METHOD_HANDLES = "method handles"
    LOWERED_2 = "lowered state, 2 elements"
    LOWERED_3 = "lowered state, 3 elements"


@dataclass(frozen=True, slots=True)
class Source:
    """A text of the model's source, and its place in a file.

    Attributes:
        text: the text, with its indentation.
        filename: its file; None if none was recorded.
        starting_line: 1-based line of the text's first line in that file.
        is_null: whether it is the null source, which stands for "no source". A source that is merely empty
            (traced models) is not.
    """

    text: Text | StringView
    filename: StringView | None
    starting_line: int
    is_null: bool = False


class Position(NamedTuple):
    """A character of a source's file: its line and its column, both from 1."""

    line: int
    column: int


def _position(source: Source, text: bytes, byte: int) -> Position:
    """The position of the character that a byte is part of; bytes that aren't UTF-8 count one by one."""
    first = text.rfind(b"\n", 0, byte) + 1
    before = text[first : byte + 1].decode("utf-8", "surrogateescape")
    line = source.starting_line + text.count(b"\n", 0, first)
    return Position(line, max(len(before), 1))


@bounded_members
@dataclass(frozen=True, slots=True)
class SourceRange:
    """Bytes ``start`` to ``end`` of a source's text."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """The 1-based line of the range's start in the source's file."""
        return self.source.starting_line + bytes(self.source.text).count(b"\n", 0, self.start)

    @property
    def text(self) -> bytes:
        """The bytes of the range."""
        return bytes(self.source.text)[self.start : self.end]

    @property
    def ends(self) -> tuple[Position, Position]:
        """The first and the last character of the range; both the first if it is empty."""
        text = bytes(self.source.text)
        last = max(self.end, self.start + 1) - 1
        return _position(self.source, text, self.start), _position(self.source, text, last)


@dataclass(frozen=True, slots=True)
class RangeRow:
    """The code from byte ``offset`` of a generated code record on comes from ``range``.

    ``tag`` is ``NO_TAG`` in layouts without tags. In ``delegated_backends.debug_pkl`` every offset is -1.
    """

    offset: int
    range: SourceRange
    tag: Tag


@dataclass(frozen=True, slots=True)
class ModuleInstance:
    """A module in a call stack: the qualified name of its class, and the attribute that holds it."""

    type_name: StringView
    instance: StringView

    @property
    def class_name(self) -> str:
        """The last part of the qualified name."""
        return str(self.type_name).rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class InlinedCall:
    """One call of an inlined call stack.

    Attributes:
        module: the module whose method is called; None for free functions.
        tag: the call's own range, in the caller; may be ``NO_TAG``.
        function: the called function; None if the archive records none (PyTorch 1.9.0).
    """

    module: ModuleInstance | None
    tag: Tag
    function: StringView | None


@dataclass(frozen=True, slots=True)
class HandleEntry:
    """The operation that a debug handle stands for.

    Attributes:
        handle: the handle.
        tag: the operation's own range.
        op: the operator's name; None if the archive records none (PyTorch 1.9.0).
        stack: the calls that lead to it, outermost first; () in the top method.
    """

    handle: Handle
    tag: Tag
    op: StringView | None
    stack: tuple[InlinedCall, ...]


@dataclass(frozen=True, slots=True)
class LoweredState:
    """The state of a module that was lowered to a backend.

    Attributes:
        path: attribute path from the top module; "" is the top module itself.
        backend: the backend's name.
        type_name: the qualified name of the lowered module's class.
        original: the qualified name of the class that was lowered; None up to 1.9, which did not record it.
        wrapped: whether a ``LoweredWrapper`` holds it (1.11+).
        generation: 2 or 3 elements of state.
        method_compile_spec: as inert values.
        processed: the backend's blob, as inert values.
        create_backend: the third element; None if there are two.
        handles: the debug handles in the blob, in their order and repeated as they are, if it has the demo
            backend's form (``<debug_handle>N``) or holds a program.
        unread: why the blob may have more handles: what in it cannot be read; "" if everything can.
    """

    path: str
    backend: str
    type_name: str
    original: str | None
    wrapped: bool
    generation: Generation
    method_compile_spec: object
    processed: object
    create_backend: bool | None
    handles: Sequence[Handle]
    unread: str
