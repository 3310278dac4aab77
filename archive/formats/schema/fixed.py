r"""Layouts of fixed size: a declaration, compiled once to :mod:`struct`, tuples and columns.

    >>> from archive.formats.schema.words import Const, Int16ul, Int32ul, Struct
    >>> PLACE = Layout(
    ...     "place"
    ...     / Struct(
    ...         "magic" / Const(b"AT"),
    ...         "line" / Int32ul * "counted from 1",
    ...         "column" / Int16ul,
    ...     )
    ... )
    >>> PLACE.size, PLACE.offset("column")
    (8, 6)
    >>> PLACE.build(line=7, column=3)
    b'AT\x07\x00\x00\x00\x03\x00'
    >>> PLACE.read(b"AT\x07\x00\x00\x00\x03\x00")
    place(line=7, column=3)

A layout takes numbers of one byte order, ``Bytes(n)``, and ``Const`` of :mod:`.words`; constants come first
and are left out of rows. What is wrong is one :class:`ArchiveError` with the byte and the field.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cached_property, partial
from struct import Struct as Packer
from struct import calcsize
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.formats.schema.words import LITTLE, VARINT, ZIGZAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from archive.formats.schema.words import Struct
    from archive.io.ranged import Bytes

Row = Any
"""A named tuple of a layout's fields, which the declaration describes."""
NUMPY_TYPES = {"B": "u1", "b": "i1", "H": "u2", "h": "i2", "L": "u4", "l": "i4", "Q": "u8", "q": "i8"}
NUMPY_TYPES |= {"e": "f2", "f": "f4", "d": "f8", "?": "?"}


class FixedField(NamedTuple):
    """A field of a layout.

    Attributes:
        order: ``<`` or ``>``; "" for a single byte or ``Bytes``.
        form: the format of :mod:`struct`.
        constant: its fixed value; None for any value.
    """

    name: str
    docs: str
    offset: int
    size: int
    order: str
    form: str
    constant: object


class Layout:
    """A header of fixed size.

    Args:
        declared: its fields, under the header's name: ``"local header" / Struct(...)``.
    """

    def __init__(self, declared: Struct) -> None:
        self.declared = declared
        self.what = declared.name

    @cached_property
    def fields(self) -> list[FixedField]:
        """All fields, constants too.

        Raises:
            TypeError: one of them has no fixed size, or a constant follows a value.
        """
        fields: list[FixedField] = []
        offset = 0
        for part in self.declared.fields:
            if part.form in {VARINT, ZIGZAG}:
                raise TypeError(f"{self.what}, field {part.name}: {part.form} has no fixed size")
            if part.constant is not None and fields and fields[-1].constant is None:
                raise TypeError(f"{self.what}, field {part.name}: constants come first")
            size = calcsize(LITTLE + part.form)
            fields.append(
                FixedField(part.name, part.docs, offset, size, part.order, part.form, part.constant)
            )
            offset += size
        return fields

    @cached_property
    def _constants(self) -> tuple[object, ...]:
        return tuple(field.constant for field in self.fields if field.constant is not None)

    @cached_property
    def _begin(self) -> bytes:
        """The bytes of the constants."""
        forms = "".join(field.form for field in self.fields[: len(self._constants)])
        return Packer(self.order + forms).pack(*self._constants)

    @cached_property
    def _values(self) -> list[FixedField]:
        return self.fields[len(self._constants) :]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._values)

    @cached_property
    def order(self) -> str:
        """The byte order of all numbers: ``<`` or ``>``."""
        orders = {field.order for field in self.fields} - {""}
        if len(orders) > 1:
            raise TypeError(f"{self.what}: numbers of both byte orders")
        return orders.pop() if orders else LITTLE

    @cached_property
    def _packer(self) -> Packer:
        return Packer(self.order + "".join(field.form for field in self.fields))

    @cached_property
    def row(self) -> type[Row]:
        """The named tuple of its values."""
        return namedtuple(self.what.replace(" ", "_"), self._names)  # noqa: PYI024 (the declaration has the types)

    @cached_property
    def _made(self) -> Callable[[tuple[object, ...]], Row]:
        """Makes a row; ``_make`` of the named tuple is slower."""
        return partial(tuple.__new__, self.row)

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The dtype of its values, for many headers without gaps."""
        import numpy as np  # noqa: PLC0415 (single headers do without)

        types = [
            field.order + NUMPY_TYPES[field.form] if field.form in NUMPY_TYPES else f"V{field.size}"
            for field in self._values
        ]
        names, offsets = [f.name for f in self._values], [f.offset for f in self._values]
        return np.dtype({"names": names, "formats": types, "offsets": offsets, "itemsize": self.size})

    @cached_property
    def size(self) -> int:
        """Number of its bytes."""
        return self._packer.size

    @cached_property
    def magic(self) -> bytes:
        """The constant bytes that it begins with."""
        constant = self.fields[0].constant
        return constant if isinstance(constant, bytes) else b""

    def offset(self, name: str) -> int:
        """Number of bytes before a field."""
        return next(field.offset for field in self.fields if field.name == name)

    def read(self, data: Bytes | bytes, at: int = 0, stop: int | None = None) -> Row:
        """The values of the header at byte ``at``, before byte ``stop``."""
        stop = len(data) if stop is None else stop
        end = at + self.size
        if end > stop:
            raise self._cut(at, max(stop - at, 0))
        values = self._packer.unpack(data[at:end])
        skip = len(self._constants)
        if values[:skip] != self._constants:
            raise self._other(at, values)
        return self._made(values[skip:])

    def _cut(self, at: int, left: int) -> ArchiveError:
        field = next(field for field in self.fields if field.offset + field.size > left)
        found = f"{left} bytes"
        return ArchiveError(
            place=f"byte {at}, field {field.name}",
            expected=f"a {self.what} of {self.size} bytes",
            found=found,
        )

    def _other(self, at: int, values: tuple[object, ...]) -> ArchiveError:
        field, found = next(
            (field, value)
            for field, value in zip(self.fields, values, strict=True)
            if field.constant is not None and value != field.constant
        )
        return ArchiveError(
            place=f"byte {at}, field {field.name}", expected=f"a {self.what}", found=shown(found)
        )

    def read_all(self, data: Bytes | bytes) -> Iterator[Row]:
        """The values of consecutive headers, whose constants aren't checked; the data end after one."""
        skip, make = len(self._constants), self._made
        return (make(values[skip:]) for values in self._packer.iter_unpack(data[:]))

    def columns(self, data: Bytes | bytes) -> np.ndarray:
        """The values of n consecutive headers as an array (n) of the dtype; constants aren't checked.

        Bytes after the last whole header are left out.
        """
        import numpy as np  # noqa: PLC0415 (single headers do without)

        return np.frombuffer(data[:], self.dtype, len(data) // self.size)

    def columns_at(self, data: Bytes | bytes, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values of headers at n bytes as an array (n) of the dtype, and which have the constants (n).

        Each of them must be in the data.
        """
        import numpy as np  # noqa: PLC0415 (single headers do without)

        begins_of_all = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data[:], np.uint8), self.size)
        found = begins_of_all[places]
        are_constant = (found[:, : len(self._begin)] == np.frombuffer(self._begin, np.uint8)).all(1)
        return found.view(self.dtype).ravel(), are_constant

    def build(self, **values: object) -> bytes:
        """The bytes of a header with these values, all of them and no others."""
        if len(values) > len(self._values):
            raise TypeError(f"{self.what}: {sorted(values.keys() - set(self.row._fields))} aren't its fields")
        return self._packer.pack(*self._constants, *map(values.__getitem__, self._names))

    def pack(self, row: Row) -> bytes:
        """The bytes of a row."""
        return self._packer.pack(*self._constants, *row)
