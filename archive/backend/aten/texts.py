"""Texts of values as TorchScript makes them, by ``operator<<`` of ``aten/src/ATen/core/ivalue.cpp``."""

from __future__ import annotations

import re

PERCENT_FORMAT = re.compile(r"(?:[^%]|%[sdifeEgGc%])*", re.DOTALL)
INT64 = 1 << 63


def shown(value: object) -> str:
    """The text of a value. Whole floats end in a point, others have 17 digits; texts have no quotes."""
    if isinstance(value, float):
        is_whole = abs(value) < INT64 and value == int(value)
        return f"{int(value)}." if is_whole else f"{value:.17g}"
    if type(value) is list:
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is tuple:
        return f"({shown(value[0])},)" if len(value) == 1 else f"({', '.join(map(shown, value))})"
    if type(value) is dict:
        return "{" + ", ".join(f"{shown(key)}: {shown(one)}" for key, one in value.items()) + "}"
    return str(value)


def formatted(text: str, *values: object) -> str:
    """A text with values in place of ``{}``; as in TorchScript, nothing else in braces is replaced."""
    first, *rest = text.split("{}")
    if len(rest) > len(values):
        raise IndexError("too few arguments for format string")
    return first + "".join(f"{shown(value)}{piece}" for value, piece in zip(values, rest, strict=False))


def percent_formatted(text: str, *values: object) -> str:
    """Python's ``%`` without widths, because a large width would take any amount of memory."""
    if not PERCENT_FORMAT.fullmatch(text):
        raise ValueError(f"unsupported format: {text!r}")
    (given, *rest) = values or ((),)
    found = given if isinstance(given, tuple) and not rest else values
    kinds = re.findall(r"%(.)", text.replace("%%", ""), re.DOTALL)
    return text % tuple(
        shown(value) if kind == "s" else value
        for kind, value in zip([*kinds, *[""] * len(found)], found, strict=False)
    )
