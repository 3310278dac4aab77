"""The types of tensors' elements, as each format names them.

Sources: the storage classes of ``torch/storage.py``; ``ScalarType`` of ``torch/_export/serde/schema.py``
(schema 8).
"""

from __future__ import annotations

STORAGES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "QInt8": "qint8",
    "QUInt8": "quint8",
    "QInt32": "qint32",
}
"""The dtype of a storage class, ``FloatStorage`` and so on."""

FLOAT8 = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")

SCALARS = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    **{29 + at: f"float8_{name}" for at, name in enumerate(FLOAT8)},
    34: "uint32",
    35: "uint64",
}
"""The dtype of a number in the JSON of exported programs."""

WIDTHS = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8"), 1),
    **dict.fromkeys((f"float8_{name}" for name in FLOAT8), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32", "complex32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
}
"""Bytes per element, by dtype."""


def dtype_of_storage(name: str) -> str:
    """The dtype of a storage class, which is the class's own name where it is not known here.

    >>> dtype_of_storage("FloatStorage")
    'float32'
    """
    kind = name.removesuffix("Storage")
    return STORAGES.get(kind, kind.lower())


def may_have_gradients(dtype: str) -> bool:
    """Whether tensors of a dtype may require gradients: it is of floating point, or complex."""
    return "float" in dtype or "complex" in dtype


def word_width(dtype: str) -> int:
    """Bytes of what a machine's byte order turns around in an element: half of a complex number.

    >>> word_width("complex64")
    4
    """
    return WIDTHS[dtype] // 2 if dtype.startswith("complex") else WIDTHS[dtype]
