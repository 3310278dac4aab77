"""Binary rows of variable size; nothing is created before the remaining bytes allow it.

A row is a ``construct.Struct``. :class:`CompiledRow` reads it as construct does, but consecutive numbers with
one call of :mod:`struct`: 2 µs instead of 20. Its fields are texts preceded by their length (:class:`Text`),
numbers, one of which may be bounded (:class:`AtMost`), arrays of numbers whose count is an earlier field, and
any other construct.

The beginning of a file is read through a :class:`HeadReader`, which knows what was missing at its end.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cached_property
from struct import unpack_from
from typing import TYPE_CHECKING, Any

from construct import (
    Array,
    Construct,
    Container,
    FormatField,
    Renamed,
    StreamError,
    StringError,
    Subconstruct,
    stream_read,
    stream_write,
)

from archive.base.errors import ArchiveError
from archive.base.strings import decoded
from archive.formats.schema.binary import Reader

if TYPE_CHECKING:
    from archive.formats.schema.fixed import Row


class HeadReader(Reader):
    """The first bytes of a file: nothing is copied of a part that is incomplete.

    Args:
        head: the bytes at hand.
        size: of the whole file.
    """

    def __init__(self, head: memoryview, size: int) -> None:
        super().__init__(head)
        self.head, self.size = head, size
        self.wanted = 0
        """Number of bytes that were asked for and missing; they would begin where the reader still is."""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, by default all; empty if they are incomplete."""
        begin = self._at
        size = self.left() if size < 0 else size
        if size > len(self.head) - begin:
            self.wanted = size
            return b""
        self._at = begin + size
        return bytes(self.head[begin : self._at])

    def skip(self, size: int, path: str = "") -> int:
        """Skip bytes.

        Args:
            size: how many.
            path: to their field, as construct writes it.

        Returns:
            The place of the first.

        Raises:
            StreamError: they are incomplete.
        """
        begin = self._at
        if size > len(self.head) - begin:
            self.wanted = size
            raise StreamError(path=path)
        self._at = begin + size
        return begin

    def check_count(self, count: int, least: int, what: str) -> None:
        """Refuse a number of things that the rest of the file cannot hold.

        Args:
            count: how many.
            least: fewest bytes of one of them.
            what: what they are, in the plural.
        """
        most = (self.size - self._at) // least
        if count > most:
            place = f"byte {self._at:,}"
            raise ArchiveError(place=place, expected=f"at most {most:,} {what}", found=f"{count:,}")

    def text_ahead(self, begin: int, size: int) -> None:
        """Called before ``size`` bytes from ``begin`` on are decoded as a text, which it may refuse."""


class AtMost(Subconstruct):  # type: ignore[misc]  # it has no types
    """A number with a bound.

    Args:
        most: the largest that is allowed.
        number: as it is stored.
        expected: the numbers that are allowed, in words.
    """

    def __init__(self, most: int, number: Construct, expected: str) -> None:
        super().__init__(number)
        self.most, self.expected = most, expected

    def check(self, value: int) -> None:
        """Refuse a larger number."""
        if value > self.most:
            raise ArchiveError(expected=self.expected, found=f"{value:,}")

    def _parse(self, stream: Any, context: Container, path: str) -> int:  # noqa: ANN401 (any stream)
        value: int = self.subcon._parsereport(stream, context, path)  # noqa: SLF001 (construct's own protocol)
        self.check(value)
        return value


class Text(Construct):  # type: ignore[misc]  # it has no types
    """UTF-8, preceded by its length in bytes; other bytes are shown escaped.

    Args:
        length: a number.
    """

    def __init__(self, length: Construct) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: Any, context: Container, path: str) -> str:  # noqa: ANN401 (any stream)
        if isinstance(stream, HeadReader):
            return self.read(stream, path)
        size: int = self.length._parsereport(stream, context, path)  # noqa: SLF001 (construct's own protocol)
        return decoded(stream_read(stream, size, path))

    def read(self, reader: HeadReader, path: str) -> str:
        """The same, from the head of a file, with :meth:`HeadReader.text_ahead` called first.

        Raises:
            StreamError: the data end.
        """
        head = reader.head
        (size,) = unpack_from(self.length.fmtstr, head, reader.skip(self.length.length, path))
        begin = reader.skip(size, path)
        reader.text_ahead(begin, size)
        return decoded(head[begin : begin + size])

    def _build(self, text: str, stream: Any, context: Container, path: str) -> str:  # noqa: ANN401 (any stream)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise StringError("not a text of whole characters", path=path) from None
        self.length._build(len(data), stream, context, path)  # noqa: SLF001 (construct's own protocol)
        stream_write(stream, data, len(data), path)
        return text


# --- compiled rows


class CompiledRow:
    """A row of texts, numbers and other fields.

    Args:
        declared: its fields, under the row's name: ``"tensor info" / Struct(...)``.
    """

    def __init__(self, declared: Renamed) -> None:
        self.declared = declared
        self.what: str = declared.name

    @cached_property
    def row(self) -> type[Row]:
        """The named tuple of its fields."""
        return namedtuple(self.what.replace(" ", "_"), [part.name for part in self.declared.subcon.subcons])  # noqa: PYI024 (the declaration has the types)

    @cached_property
    def _steps(self) -> list[tuple[str, _Numbers | Construct]]:
        """What is read at once: numbers, of which only the first can be an array, or another field."""
        steps: list[tuple[str, _Numbers | Construct]] = []
        for part in self.declared.subcon.subcons:
            field = _unnamed(part)
            number = _number_of(field)
            if number is None:
                steps.append((part.name, field))
                continue
            run = steps[-1][1] if steps else None
            if isinstance(field, Array) or not isinstance(run, _Numbers):
                run = _Numbers(number.fmtstr[0])
                steps.append((part.name, run))
            run.add(part.name, field, number)
        return steps

    def read(self, reader: HeadReader, path: str = "(parsing)") -> Row:
        """The row at the reader's position.

        Args:
            reader: of the bytes.
            path: to the row, as construct writes it.

        Raises:
            StreamError: the data end; with the path to the field.
        """
        values: dict[str, Any] = {}
        for name, step in self._steps:
            if isinstance(step, _Numbers):
                step.read(reader, values, path)
            elif isinstance(step, Text):
                values[name] = step.read(reader, f"{path} -> {name}")
            else:
                context = Container(values, _params={})
                values[name] = step._parsereport(reader, context, f"{path} -> {name}")  # noqa: SLF001 (construct's own protocol)
        return self.row._make(values.values())


def _unnamed(part: Construct) -> Construct:
    """A field without its name and doc, for each of which construct wraps it."""
    while isinstance(part, Renamed):
        part = part.subcon
    return part


def _number_of(field: Construct) -> FormatField | None:
    """The number that a field is, or that its array holds."""
    inner = field.subcon if isinstance(field, AtMost | Array) else field
    return inner if isinstance(inner, FormatField) else None


class _Numbers:
    """Consecutive numbers, which are read at once.

    Args:
        order: of their bytes.
    """

    def __init__(self, order: str) -> None:
        self._order = order
        self._array: tuple[str, Array, FormatField] | None = None
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._size = 0
        self._forms = ""
        self._bounds: list[tuple[str, AtMost]] = []

    def add(self, name: str, field: Construct, number: FormatField) -> None:
        """Add a field, which is a number or an array of it.

        Raises:
            TypeError: it has another byte order.
        """
        order, form = number.fmtstr
        if order != self._order:
            raise TypeError(f"field {name}: numbers of both byte orders")
        if isinstance(field, Array):
            self._array = name, field, number
            return
        if isinstance(field, AtMost):
            self._bounds.append((name, field))
        self._names.append(name)
        self._sizes.append(number.length)
        self._size += number.length
        self._forms += form

    def read(self, reader: HeadReader, values: dict[str, Any], path: str) -> None:
        """Put their values among those of the row."""
        count, size, form = 0, self._size, self._order
        if self._array is not None:
            name, array, number = self._array
            count = array.count(values)
            size += count * number.length
            form += f"{count}{number.fmtstr[1]}"
        try:
            begin = reader.skip(size)
        except StreamError:
            self._skip_each(reader, size - self._size, path)
            raise
        found = unpack_from(form + self._forms, reader.head, begin)
        if self._array is not None:
            values[name] = found[:count]
            found = found[count:]
        values.update(zip(self._names, found, strict=True))
        for name, bound in self._bounds:
            bound.check(values[name])

    def _skip_each(self, reader: HeadReader, array_size: int, path: str) -> None:
        """Skip field by field, so that the error names the incomplete one."""
        if self._array is not None:
            reader.skip(array_size, f"{path} -> {self._array[0]}")
        for name, size in zip(self._names, self._sizes, strict=True):
            reader.skip(size, f"{path} -> {name}")
