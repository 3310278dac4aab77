"""Names of records, which may hold any bytes, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.container.names import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.limits import Allowance
    from archive.base.strings import Strings

RECORD_BYTES = 400
"""Bytes of memory that a record costs besides its name."""
NAME_COPIES = 5
"""Bytes of memory for each byte of a name: itself, and as text up to four."""


def record_names(strings: Strings, numbers: Iterable[int], allowance: Allowance) -> tuple[str, ...]:
    """The names of records.

    Args:
        strings: a companion's.
        numbers: those of the names; one may be there several times.
        allowance: the memory that the names may cost.

    Raises:
        LimitError: they would take more.
    """
    names = []
    for number in numbers:
        data = strings.data(number)
        allowance.take(RECORD_BYTES + NAME_COPIES * len(data), "names of records")
        names.append(decoded(bytes(data)))
    return tuple(names)
