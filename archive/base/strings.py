r"""Strings as views: (buffer, offset, length) until someone asks for ``str``.

A :class:`StringTable` holds the places of many strings in a few buffers, as columns; nothing is copied. A
:class:`StringView` is one string, a :class:`Text` several joined. All lengths are in bytes of UTF-8. Bytes
that are not UTF-8 are kept, and shown escaped (``\xff``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from sys import getsizeof
from typing import TYPE_CHECKING, Protocol, overload

from archive.base import memory
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy as np


WIDEST = 17
"""Bytes of memory that a byte takes while it becomes text: a copy, and four characters of four bytes."""
MANY = 64
"""Pieces of a text; for more, lengths are summed as a column."""


class Strings(Protocol):
    """Strings by number."""

    def __len__(self) -> int: ...

    def data(self, index: int) -> memoryview:
        """The bytes of a string, not copied."""

    def is_borrowed(self, index: int) -> bool:
        """Whether a string's bytes are part of the mapped file, not of an inflated copy."""


@dataclass(frozen=True, slots=True, eq=False)
class StringTable:
    """The places of n strings in b buffers.

    Attributes:
        buffers: the memory that holds the strings (b); the table keeps it alive.
        borrowed: whether a buffer is part of the mapped file rather than an inflated copy (b).
        buffer: index of a string's buffer (n).
        start: its first byte there (n).
        length: its length in bytes (n).
    """

    buffers: Sequence[memoryview]
    borrowed: Sequence[bool]
    buffer: np.ndarray
    start: np.ndarray
    length: np.ndarray

    def __len__(self) -> int:
        return len(self.length)

    def __getitem__(self, index: int) -> StringView:
        if not 0 <= index < len(self.length):
            raise IndexError(index)
        return StringView(self, index)

    def data(self, index: int) -> memoryview:
        """The bytes of a string, not copied."""
        start: int = self.start.item(index)  # in half the time of ``int(start[index])``
        buffer: memoryview = self.buffers[self.buffer.item(index)]
        return buffer[start : start + self.length.item(index)]

    def is_borrowed(self, index: int) -> bool:
        """Whether the bytes of a string are part of the mapped file, not of an inflated copy."""
        return bool(self.borrowed[int(self.buffer[index])])

    def copies(self, index: np.ndarray | slice = slice(None)) -> list[bytes]:
        """Some strings, copied; by default all."""
        start, length = self.start[index], self.length[index]
        end = start + length
        begins, ends = start.tolist(), end.tolist()
        if len(self.buffers) == 1 and len(start) and end.max() - start.min() <= 2 * length.sum():
            low = int(start.min())
            whole = bytes(self.buffers[0][low : int(end.max())])
            return [
                whole[begin:end]
                for begin, end in zip((start - low).tolist(), (end - low).tolist(), strict=True)
            ]
        places = zip(self.buffer[index].tolist(), begins, ends, strict=True)
        return [bytes(self.buffers[buffer][begin:end]) for buffer, begin, end in places]


@dataclass(frozen=True, slots=True)
class HeldStrings:
    """Strings that need no file: those of views that were pickled."""

    values: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.values)

    def data(self, index: int) -> memoryview:
        """The bytes of a string."""
        return memoryview(self.values[index])

    def is_borrowed(self, index: int) -> bool:  # noqa: ARG002 (none is)
        """Whether a string's bytes are part of the mapped file: they are not."""
        return False


def decoded(data: bytes | memoryview) -> str:
    """UTF-8 as ``str``; other bytes are shown escaped."""
    return bytes(data).decode("utf-8", "backslashreplace")


def charged(data: bytes | memoryview) -> str:
    """UTF-8 as ``str``, after asking for its memory."""
    with memory.lent(WIDEST * len(data), "texts"):
        text = decoded(data)
    memory.take(getsizeof(text), "texts")
    return text


class _Readable(ABC):
    """Base of views: compared and converted by their content."""

    __slots__ = ()

    @abstractmethod
    def __bytes__(self) -> bytes: ...

    def __str__(self) -> str:
        return decoded(bytes(self))

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Readable):
            return bytes(self) == bytes(other)
        return str(self) == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __bool__(self) -> bool:
        return len(self) > 0

    @abstractmethod
    def __len__(self) -> int: ...


class StringView(_Readable):
    """One string of a table: ``str(view)`` copies, ``view.data`` does not."""

    __slots__ = ("index", "table")

    def __init__(self, table: Strings, index: int) -> None:
        self.table = table
        self.index = index

    @property
    def data(self) -> memoryview:
        """The bytes, not copied."""
        return self.table.data(self.index)

    @property
    def borrowed(self) -> bool:
        """Whether the bytes are part of the mapped file, not of an inflated copy."""
        return self.table.is_borrowed(self.index)

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def __reduce__(self) -> tuple[type[StringView], tuple[Strings, int]]:
        return StringView, (HeldStrings([bytes(self)]), 0)

    def __len__(self) -> int:
        return len(self.data)


class Text(_Readable):
    """A text in pieces: concatenated strings of a table. ``len()`` is in bytes."""

    __slots__ = ("indices", "table")

    def __init__(self, table: Strings, indices: Sequence[int] | np.ndarray) -> None:
        self.table = table
        self.indices = indices

    @property
    def pieces(self) -> TextPieces:
        """The pieces as views, usually one a line."""
        return TextPieces(self)

    def __bytes__(self) -> bytes:
        return b"".join([self.table.data(index) for index in self.indices])

    def __reduce__(self) -> tuple[type[Text], tuple[Strings, Sequence[int]]]:
        pieces = [bytes(piece) for piece in self.pieces]
        return Text, (HeldStrings(pieces), range(len(pieces)))

    def __len__(self) -> int:
        if isinstance(self.table, StringTable) and len(self.indices) > MANY:
            return int(self.table.length[self.indices].sum())
        return sum(len(self.table.data(index)) for index in self.indices)


class TextPieces:
    """The pieces of a text, as a sequence of views."""

    __slots__ = ("text",)

    def __init__(self, text: Text) -> None:
        self.text = text

    def __len__(self) -> int:
        return len(self.text.indices)

    @overload
    def __getitem__(self, index: int) -> StringView: ...
    @overload
    def __getitem__(self, index: slice) -> list[StringView]: ...
    def __getitem__(self, index: int | slice) -> StringView | list[StringView]:
        if isinstance(index, slice):
            return [StringView(self.text.table, i) for i in self.text.indices[index]]
        return StringView(self.text.table, self.text.indices[index])

    def __iter__(self) -> Iterator[StringView]:
        return (StringView(self.text.table, index) for index in self.text.indices)


def scoped(name: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """A name as ``SCOPE:REST``, once for each known scope that it begins with: scopes may have colons, too.

    Args:
        name: as a user gives it.
        known: the existing scopes.
    """
    for colon in (at for at, letter in enumerate(name) if letter == ":"):
        if name[:colon] in known:
            yield name[:colon], name[colon + 1 :]
