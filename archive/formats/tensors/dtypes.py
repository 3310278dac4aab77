"""The types of tensors' elements, as each format names them.

Sources: the storage classes of ``torch/storage.py``; ``ScalarType`` of ``torch/_export/serde/schema.py``
(schema 8); ``c10/core/ScalarType.h``, and ``devtools/etdump/scalar_type.fbs`` of ExecuTorch 1.5.
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

C10_SCALARS = {
    **dict(enumerate(("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"))),
    **{8 + at: f"complex{width}" for at, width in enumerate((32, 64, 128))},
    11: "bool",
    15: "bfloat16",
    22: "uint16",  # ExecuTorch's name of it is BITS16
    **{23 + at: f"float8_{name}" for at, name in enumerate(("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz"))},
    **{27 + at: f"uint{width}" for at, width in enumerate((16, 32, 64))},
}
"""The dtype of a number of ``c10::ScalarType``, as ExecuTorch's runtime has them; without quantised ones."""

BITS = {
    **dict.fromkeys(("float4_e2m1fn_x2", "bits8", "bits1x8", "bits2x4", "bits4x2"), 1),
    "bits16": 2,
}
"""Bytes per element of dtypes that PyTorch stores but does not compute with: an element isn't a number."""

WIDTHS = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8"), 1),
    **dict.fromkeys((f"float8_{name}" for name in FLOAT8), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32", "complex32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
    **BITS,
}
"""Bytes per element, by dtype."""

BLOCKS = {
    # Elements of less than a byte, in whole bytes.
    **dict.fromkeys(("int4", "uint4", "float4_e2m1fn"), (2, 1)),
    **dict.fromkeys(("int2", "uint2"), (4, 1)),
    **dict.fromkeys(("float6_e2m3fn", "float6_e3m2fn"), (4, 3)),
    # Blocks of ggml.
    "q1_0": (128, 18),
    "q4_0": (32, 18),
    "q4_1": (32, 20),
    "q5_0": (32, 22),
    "q5_1": (32, 24),
    "q8_0": (32, 34),
    "q8_1": (32, 40),
    "q2_k": (256, 84),
    "q3_k": (256, 110),
    "q4_k": (256, 144),
    "q5_k": (256, 176),
    "q6_k": (256, 210),
    "q8_k": (256, 292),
    "iq1_s": (256, 50),
    "iq1_m": (256, 56),
    "iq2_xxs": (256, 66),
    "iq2_xs": (256, 74),
    "iq2_s": (256, 82),
    "iq3_xxs": (256, 98),
    "iq3_s": (256, 110),
    "iq4_nl": (32, 18),
    "iq4_xs": (256, 136),
    "tq1_0": (256, 54),
    "tq2_0": (256, 66),
    "mxfp4": (32, 17),
    "nvfp4": (64, 36),
}
"""Elements and bytes of a block, by dtype, for dtypes whose elements are not whole bytes.

Those of ggml are ``GGML_QUANT_SIZES`` of ``gguf/constants.py`` in gguf 0.19, the same as in
``ggml/src/ggml-common.h``.
"""


def dtype_of_storage(name: str) -> str:
    """The dtype of a storage class; the class's own name if that is unknown here.

    >>> dtype_of_storage("FloatStorage")
    'float32'
    """
    kind = name.removesuffix("Storage")
    return STORAGES.get(kind, kind.lower())


def bytes_of(dtype: str, count: int, *, whole: bool = False) -> int | None:
    """Bytes of ``count`` elements; None for an unknown dtype.

    >>> bytes_of("float32", 3), bytes_of("int4", 3), bytes_of("int4", 3, whole=True)
    (12, 2, None)

    Args:
        whole: None, too, if they do not fill the last byte.
    """
    if dtype in WIDTHS:
        return WIDTHS[dtype] * count
    if dtype not in BLOCKS:
        return None
    elements, size = BLOCKS[dtype]
    return None if whole and count * size % elements else -(-count * size // elements)


def elements_in(dtype: str, size: int) -> int:
    """How many elements ``size`` bytes may hold; 0 for an unknown dtype.

    >>> elements_in("float32", 12), elements_in("int4", 2), elements_in("string", 12)
    (3, 4, 0)
    """
    elements, width = BLOCKS.get(dtype) or (1, WIDTHS.get(dtype, 0))
    return size * elements // width if width else 0


def may_have_gradients(dtype: str) -> bool:
    """Whether tensors of a dtype may require gradients: it is floating point or complex."""
    return "float" in dtype or "complex" in dtype


def word_width(dtype: str) -> int:
    """Bytes of the unit that byte order reverses in an element: half of a complex number.

    >>> word_width("complex64")
    4
    """
    return WIDTHS[dtype] // 2 if dtype.startswith("complex") else WIDTHS[dtype]
