r"""FlatBuffers: tables whose fields are at offsets; each table is declared once, in its schema's order.

    file      = [size U32] root identifier …        size: bytes that follow; root: a reference to a table
    table     = distance S32, fields                the vtable is that many bytes before the table
    vtable    = size U16, table U16, field U16 …    sizes of both, and the offset of each field in the table
    vector    = length U32, elements
    string    = a vector of bytes
    reference = U32                                 what it refers to is that many bytes after it

Numbers are little-endian. A field whose offset is 0, or missing because the vtable ends before it, has its
default; for a reference, the default is nothing. Fields after the declared ones come from later releases.
Source: the binary format at https://flatbuffers.dev/internals/.

A number is declared as construct's own (``Int32sl``), with a default other than 0 as construct's ``Default``.
A :data:`Text`, a :class:`Vector` and another :class:`Table` are reached by a reference; so are a
:class:`Union`, which is one of several tables, and an :class:`Unread`, which isn't read:

    >>> POINT = Table("Point", "label" / Text, "x" / Int32sl, "line" / Default(Int32sl, -1) * "from 1")
    >>> PATH = Table("Path", "points" / Vector(POINT) * "in the order of drawing")
    >>> print("\n".join(tree(PATH)))
    Path
      points: [Point]    in the order of drawing
        label: string
        x: int
        line: int = -1    from 1

:func:`parse` reads tables one by one, as Python objects; many tables at once are columns
(:mod:`archive.formats.schema.flatbuffer_columns`). Both refuse a reference that leads out of the file with
the same message, which names the table and the field: ``Path.points``.

References lead forward and declarations have no cycle, so reading ends. Tables may still share bytes, so all
vectors together have no more elements than the file has bytes for, and distinct strings no more bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Construct, Container, Default, FormatField, Int16ul, Int32sl, Int32ul, Renamed

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, shown
from archive.base.strings import decoded
from archive.formats.schema.binary import Reader
from archive.formats.schema.fixed import NUMPY_TYPES

if TYPE_CHECKING:
    from archive.io.ranged import Bytes

SIZE = 4
"""Bytes of a size, a length or a reference."""
IDENTIFIER_WIDTH = 4
VTABLE_HEAD = 4
"""Bytes of a vtable before the offsets of fields."""
NOTHING = 0
"""The place that means "no reference": the file's head is there."""
SCALARS = {"u1": "ubyte", "i1": "byte", "u2": "ushort", "i2": "short", "u4": "uint", "i4": "int"}
SCALARS |= {"u8": "ulong", "i8": "long", "f4": "float", "f8": "double"}
"""Names of number types in a ``.fbs``, by their names in numpy."""


# --- declarations


class Table(Construct):  # type: ignore[misc]  # it has no types
    """A table.

    Args:
        declared: its fields, in the order of the schema.
    """

    def __init__(self, name: str, *declared: Renamed) -> None:
        super().__init__()
        self.name = name
        self.fields = {part.name: _field(number, part) for number, part in enumerate(declared)}

    def _parse(self, stream: Buffer, context: Container, path: str) -> Container:  # noqa: ARG002 (construct's)
        at, what = stream.tell(), f"the vtable of {self.name}"
        vtable = at - stream.number(Int32sl, at, self.name)
        entries, size = (stream.number(Int16ul, vtable + place, what) for place in (0, 2))
        stream.check(VTABLE_HEAD <= entries <= len(stream) - vtable, vtable, stream.within(what))
        stream.check(SIZE <= size <= len(stream) - at, at, stream.within(self.name))
        memory.take(memory.ROW * (len(self.fields) + 1), "tables of a FlatBuffer")
        found = Container()
        for name, field in self.fields.items():
            entry, what = VTABLE_HEAD + 2 * field.number, f"{self.name}.{name}"
            within = stream.number(Int16ul, vtable + entry, what) if entry + 2 <= entries else 0
            is_right = within == 0 or SIZE <= within <= size - field.size
            stream.check(is_right, at, f"{what} in its table")
            found[name] = stream.item(field.item, at + within, what) if within else field.default
        return found


class TableField(NamedTuple):
    """A field of a table.

    Attributes:
        number: its position in the schema, from 0.
        item: what is declared: a number, or what the reference leads to.
        default: its value if the table has none; None for a reference.
        docs: what the declaration says of it.
    """

    number: int
    item: Construct
    default: int | float | None
    docs: str

    @property
    def size(self) -> int:
        """Number of its bytes in the table."""
        return size_of(self.item)

    @property
    def type(self) -> str:
        """The numpy type of the number in the table: ``<u4`` for a reference."""
        return number_type(self.item if isinstance(self.item, FormatField) else Int32ul)


def _field(number: int, declared: Renamed) -> TableField:
    item, default = declared, None
    while isinstance(item, Renamed | Default):
        default = item.value if isinstance(item, Default) else default
        item = item.subcon
    if isinstance(item, FormatField):
        default = default or 0
    return TableField(number, item, default, declared.docs)


def size_of(item: Construct) -> int:
    """Bytes of an item in a table or vector: those of a number, or of a reference."""
    return int(item.length) if isinstance(item, FormatField) else SIZE


def number_type(form: FormatField) -> str:
    """The numpy type of a number: ``<u4``."""
    return str(form.fmtstr[0] + NUMPY_TYPES[form.fmtstr[1:]])


class Vector(Construct):  # type: ignore[misc]  # it has no types
    """A vector.

    Args:
        item: the declaration of its elements.
    """

    def __init__(self, item: Construct) -> None:
        super().__init__()
        self.item = item

    def _parse(self, stream: Buffer, context: Container, path: str) -> list[Any]:  # noqa: ARG002 (construct's)
        first, size = stream.tell() + SIZE, size_of(self.item)
        count = stream.number(Int32ul, first - SIZE, f"the length of {path}")
        stream.take_elements(count, size, path)
        return [stream.item(self.item, first + size * number, path) for number in range(count)]


class _Text(Construct):  # type: ignore[misc]  # it has no types
    def _parse(self, stream: Buffer, context: Container, path: str) -> str:  # noqa: ARG002 (construct's)
        return stream.text(stream.tell(), path)


Text = _Text()
"""A string."""


class Union(Construct):  # type: ignore[misc]  # it has no types
    """One of several tables: the field before it, whose name ends in ``_type``, has its number, 0 for none.

    It is read in columns alone.

    Args:
        tables: from number 1 on.
    """

    def __init__(self, *tables: Table) -> None:
        super().__init__()
        self.tables = dict(enumerate(tables, 1))
        self.name = " or ".join(table.name for table in tables)


class Unread(Construct):  # type: ignore[misc]  # it has no types
    """Something that is referred to but not read: parsed, it is the byte where it begins."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def _parse(self, stream: Buffer, context: Container, path: str) -> int:  # noqa: ARG002 (construct's)
        return stream.tell()


def tree(table: Table) -> list[str]:
    """A table and those in it, each field in a line with its type, default and doc."""
    return [table.name, *_lines(table, "  ")]


def _lines(table: Table, indent: str) -> list[str]:
    lines = []
    for name, field in table.fields.items():
        default = f" = {field.default}" if field.default else ""
        docs = f"    {field.docs}" if field.docs else ""
        lines.append(f"{indent}{name}: {words(field.item)}{default}{docs}")
        inner = field.item.item if isinstance(field.item, Vector) else field.item
        if isinstance(inner, Table):
            lines += _lines(inner, f"{indent}  ")
        elif isinstance(inner, Union):
            for one in filter(lambda one: one.fields, inner.tables.values()):
                lines += [f"{indent}  {one.name}", *_lines(one, f"{indent}    ")]
    return lines


def words(item: Construct) -> str:
    """An item's type as a ``.fbs`` writes it."""
    if isinstance(item, Vector):
        return f"[{words(item.item)}]"
    if isinstance(item, FormatField):
        return SCALARS[NUMPY_TYPES[item.fmtstr[1:]]]
    return "string" if item is Text else str(item.name)


# --- the file


def identified_at(data: bytes | Bytes, identifier: bytes) -> int | None:
    """Where a FlatBuffer begins: 0, or after its size; None where it isn't one with this identifier."""
    for start in (0, SIZE):
        if data[start + SIZE : start + SIZE + IDENTIFIER_WIDTH] == identifier:
            return start
    return None


def bounds(data: Bytes, identifier: bytes) -> tuple[int, int]:
    """Where a FlatBuffer begins, and where it ends."""
    start = identified_at(data, identifier)
    if start is None:
        found = shown(bytes(data[SIZE : SIZE + IDENTIFIER_WIDTH]))
        raise ArchiveError(place=f"byte {SIZE}", expected=shown(identifier), found=found)
    end = SIZE + int.from_bytes(data[:SIZE], "little") if start else len(data)
    if end > len(data):
        expected = f"{end:,} bytes, as the file says"
        raise ArchiveError("the file is cut short", expected=expected, found=f"{len(data):,}")
    return start, end


def parse(root: Table, data: Bytes, identifier: bytes) -> Container:
    """The root table, with all others in it.

    Args:
        identifier: its four bytes.
    """
    start, end = bounds(data, identifier)
    return Buffer(data[:end]).item(root, start, "the root's reference")


class Buffer(Reader):
    """A FlatBuffer as construct reads it.

    Args:
        data: from its first byte to its last.
    """

    def __init__(self, data: Bytes) -> None:
        super().__init__(data)
        self._end = len(data)
        self._element_bytes = self._text_bytes = 0
        self._texts: dict[int, str] = {}  # by place: tables may share one

    def __len__(self) -> int:
        return self._end

    def check(self, is_right: bool, place: int, expected: str) -> None:  # noqa: FBT001 (an assertion)
        """Refuse something wrong at a place."""
        if not is_right:
            raise ArchiveError(place=f"byte {place}", expected=expected)

    def within(self, what: str) -> str:
        """What is expected of things in the buffer."""
        return f"{what} within {self._end:,} bytes"

    def number(self, form: FormatField, place: int, what: str) -> int:
        """A number at a place."""
        self.check(0 <= place <= self._end - form.length, place, self.within(what))
        self.seek(place)
        return form.parse_stream(self)  # type: ignore[no-any-return]

    def item(self, item: Construct, place: int, what: str) -> Any:  # noqa: ANN401 (as declared)
        """The item at a place: a number, or what a reference leads to."""
        if isinstance(item, FormatField):
            return self.number(item, place, what)
        self.seek(place + self.number(Int32ul, place, what))
        return item._parsereport(self, Container(), what)  # noqa: SLF001 (construct's for a part, with its path)

    def take_elements(self, count: int, size: int, what: str) -> None:
        """Count the elements of a vector before they are read."""
        self._element_bytes += count * size
        if self._element_bytes > self._end:
            raise ArchiveError(expected=self.within(what), found=f"{count:,}")
        memory.take(memory.ROW * count, "tables of a FlatBuffer")

    def text(self, place: int, what: str) -> str:
        """The string at a place."""
        if place not in self._texts:
            length = self.number(Int32ul, place, f"the length of {what}")
            first, most = place + SIZE, memory.limits().name_bytes
            self.check(length <= self._end - first, place, self.within(what))
            if length > most:
                raise LimitError("name_bytes", most, length, what=what)
            self._text_bytes += length
            if self._text_bytes > self._end:
                raise ArchiveError(f"{what} share bytes")
            self.seek(first)
            self._texts[place] = decoded(self.read(length))
        return self._texts[place]
