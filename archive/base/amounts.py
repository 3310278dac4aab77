"""Amounts as people write them: ``64M``, ``10KB``, ``1.5 GiB``.

Units mean what they mean to GNU's coreutils: K and KiB are 1024, KB is 1000, and so on for M, G and T.
"""

from __future__ import annotations

import re

AMOUNT = r"(?ai:[0-9]{1,18}(?:\.[0-9]{1,9})?\s*(?:[KMGT](?:i?B)?|B)?)"
"""The pattern of an amount, in capital or small ASCII letters, whatever the flags around it."""
AMOUNT_WORDS = "K or KiB is 1024, KB 1000, likewise M, G and T"
"""What help texts say of units."""
KIB = 1024
_PARTS = r"([0-9]+)\.?([0-9]*)\s*([KMGT]?)(I?B?)"


def parsed_amount(text: str) -> int:
    """The number that an amount of the pattern stands for; a fraction is dropped.

    >>> parsed_amount("64M"), parsed_amount("10KB"), parsed_amount("1.5 kib"), parsed_amount("7")
    (67108864, 10000, 1536, 7)

    Raises:
        ValueError: it isn't an amount.
    """
    parts = re.fullmatch(_PARTS, text.upper())
    if not parts or not re.fullmatch(AMOUNT, text):
        raise ValueError(f"no amount: {text!r}")
    whole, fraction, prefix, byte = parts.groups()
    base = 1000 if byte == "B" else KIB
    power = " KMGT".index(prefix or " ")
    return int(whole + fraction) * int(base**power) // int(10 ** len(fraction))


def human_amount(number: int) -> str:
    """A number of bytes with its unit, in powers of 1024.

    >>> human_amount(512), human_amount(12_466), human_amount(-(3 << 20))
    ('512 B', '12.2 KiB', '-3.0 MiB')
    """
    if abs(number) < KIB:
        return f"{number} B"
    size, prefixes = number / KIB, "KMGT"
    while round(abs(size), 1) >= KIB and len(prefixes) > 1:
        size, prefixes = size / KIB, prefixes[1:]
    return f"{size:,.1f} {prefixes[0]}iB"
