"""The wording of an error message: its text without the numbers, shapes, types and devices in it."""

from __future__ import annotations

import re
from functools import lru_cache

# No digits of names (``conv2d``); of ``4x5`` and ``2D`` the numbers.
NUMERAL = re.compile(
    r"(?<![\w.])-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)(?=\W|x\d|D\b|$)|(?<=\dx)\d+",
)
NUMERALS = re.compile(r"#(?:(?:, ?|x| x )#)+,?")
BRACKETED = re.compile(r"\[#?\]|\(#\)")
COMPLEX_TYPE = re.compile(r"(?:c10::)?[Cc]omplex<[\w:]+>")
SCALAR_TYPE = re.compile(
    r"\b(?:c10::|torch\.|std::)?(?:CPU|Meta|SparseCPU|QuantizedCPU)?"
    r"(?:ComplexHalf|ComplexFloat|ComplexDouble|complex\d+|BFloat16|bfloat16|Float8\w+|Float|Double|Half"
    r"|Long|Int|Short|Char|Byte|Bool|QInt8|QUInt8|QInt32|float\d*|double|half|long long|long int|long|int\d*"
    r"|short int|short|signed char|unsigned char|char|byte|uint8_t|int\d+_t|bool|quint8|qint8|qint32)"
    r"(?:Tensor|Type)?\b"
)
DEVICE_WORD = re.compile(r"\b(?:cpu|cuda|meta|vulkan|mps|xpu)(?::\d+)?\b")


@lru_cache(maxsize=1024)
def wording(message: str) -> str:
    """A message with ``#`` for numbers and lists of them, ``<T>`` for types and ``<D>`` for devices."""
    text = DEVICE_WORD.sub("<D>", SCALAR_TYPE.sub("<T>", COMPLEX_TYPE.sub("<T>", message)))
    return BRACKETED.sub("#", NUMERALS.sub("#", NUMERAL.sub("#", text))).strip()
