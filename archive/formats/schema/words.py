r"""Words of construct for numbers and bytes, which don't need construct.

    >>> PLACE = "place" / Struct("magic" / Const(b"AT"), "line" / Int32ul * "counted from 1")
    >>> PLACE.construct().build({"line": 7})
    b'AT\x07\x00\x00\x00'

Importing construct takes a tenth of a short command's time, and most commands read nothing but zips and
pickles. So what has only such fields is declared in these words: they are named as construct's, and mean the
same. :class:`.fixed.Layout` and :class:`.varints.VariableLayout` read and write what they declare;
``construct()`` makes construct's own objects of them.
"""

from __future__ import annotations

from typing import Any

LITTLE, BIG = "<", ">"
"""Byte orders of a number, as :mod:`struct` writes them."""
VARINT, ZIGZAG = "VarInt", "ZigZag"
"""Forms of integers of variable length."""


class Field:
    """A field: ``"line" / Int32ul * "counted from 1"``.

    Args:
        order: ``<`` or ``>``; "" for a single byte, ``Bytes``, and integers of variable length.
        form: the format of :mod:`struct`; VARINT or ZIGZAG.
        constant: its fixed value; None for any value.
    """

    def __init__(
        self, order: str, form: str, constant: object = None, name: str = "", docs: str = ""
    ) -> None:
        self.order, self.form, self.constant, self.name, self.docs = order, form, constant, name, docs

    def __rtruediv__(self, name: str) -> Field:
        return Field(self.order, self.form, self.constant, name, self.docs)

    def __mul__(self, docs: str) -> Field:
        return Field(self.order, self.form, self.constant, self.name, docs)

    def construct(self) -> Any:  # noqa: ANN401 (construct has no types)
        """The same of construct's."""
        import construct  # noqa: PLC0415 (it takes long)

        if self.form in {VARINT, ZIGZAG}:
            made = getattr(construct, self.form)
        elif self.form.endswith("s"):
            made = construct.Bytes(int(self.form[:-1]))
        else:
            made = construct.FormatField(self.order or LITTLE, self.form)
        if self.constant is not None:
            made = construct.Const(self.constant, made)
        return self.name / (made * self.docs if self.docs else made)


class Struct:
    """Fields that follow each other: ``"place" / Struct(...)``."""

    def __init__(self, *fields: Field, name: str = "") -> None:
        self.fields, self.name = fields, name

    def __rtruediv__(self, name: str) -> Struct:
        return Struct(*self.fields, name=name)

    def construct(self) -> Any:  # noqa: ANN401 (construct has no types)
        """The same of construct's."""
        import construct  # noqa: PLC0415 (it takes long)

        return self.name / construct.Struct(*[field.construct() for field in self.fields])


def FormatField(order: str, form: str) -> Field:  # noqa: N802 (construct's name, as the following ones)
    """A number: its byte order, and its format in :mod:`struct`."""
    return Field(order, form)


def Bytes(length: int) -> Field:  # noqa: N802
    """Bytes of a fixed number."""
    return Field("", f"{length}s")


def Const(value: bytes) -> Field:  # noqa: N802
    """These bytes, and no others."""
    return Field("", f"{len(value)}s", value)


Int8ul = Field("", "B")
Int16ul, Int32ul, Int64ul = Field(LITTLE, "H"), Field(LITTLE, "L"), Field(LITTLE, "Q")
Int64sl, Int64sb = Field(LITTLE, "q"), Field(BIG, "q")
VarInt, ZigZag = Field("", VARINT), Field("", ZIGZAG)
