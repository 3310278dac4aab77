"""The elements of tensors, by the numbers that ``.pt2`` JSON gives their types.

Source: ``ScalarType`` in ``torch/_export/serde/schema.py`` of PyTorch 2.13, ``_TORCH_TO_SERIALIZE_DTYPE`` in
``serialize.py``.
"""

from __future__ import annotations

from typing import NamedTuple


class Element(NamedTuple):
    """The type of a tensor's elements.

    Attributes:
        name: as PyTorch has it.
        bytes: of an element.
    """

    name: str
    bytes: int

    @property
    def has_gradients(self) -> bool:
        """Whether tensors of it may require gradients: it is of floating point, or complex."""
        return "float" in self.name or "complex" in self.name


ELEMENTS = {
    1: Element("uint8", 1),
    2: Element("int8", 1),
    3: Element("int16", 2),
    4: Element("int32", 4),
    5: Element("int64", 8),
    6: Element("float16", 2),
    7: Element("float32", 4),
    8: Element("float64", 8),
    9: Element("complex32", 4),
    10: Element("complex64", 8),
    11: Element("complex128", 16),
    12: Element("bool", 1),
    13: Element("bfloat16", 2),
    28: Element("uint16", 2),
    29: Element("float8_e4m3fn", 1),
    30: Element("float8_e5m2", 1),
    31: Element("float8_e4m3fnuz", 1),
    32: Element("float8_e5m2fnuz", 1),
    33: Element("float8_e8m0fnu", 1),
    34: Element("uint32", 4),
    35: Element("uint64", 8),
}
