"""Unique debug handles: ten digits that name the archive, before eight digits of handle.

PyTorch numbers handles from 0 on in each process, so a number says nothing about its model. But
``mobile_debug_handles.pkl`` may hold any 64-bit integers, and the lite interpreter prints them as they are::

    handle 1494 of the archive with the prefix 1734509921  ->  173450992100001494

- A *prefix* has ten digits, and the first one is not 0. It follows from the archive id and the debug records,
  so that two builds with the same code on different lines have two: see :func:`prefix_for`.
- A unique handle has 18 digits, so handles that PyTorch prints without a separator are split by their width.
  Digits before them are the handles in a backend's own blob, which stay unchanged.
- Instructions' handles of nine digits and more have no unique form. Negative ones stand for no handle, and
  stay.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.columns import Ints

HANDLE_DIGITS = 8
PREFIX_DIGITS = 10
DIGITS = PREFIX_DIGITS + HANDLE_DIGITS
"""Digits of a unique handle."""
SPAN = 10**HANDLE_DIGITS
"""Handles below it have a unique form."""
PADDING = "000"
"""Zeros before handles below 100,000 in their unique form."""
LEAST_PREFIX: int = 10 ** (PREFIX_DIGITS - 1)
PREFIX_BOUND: int = 10**PREFIX_DIGITS


def prefix_for(archive_id: bytes, records: Iterable[tuple[str, memoryview]] = (), salt: str = "") -> int:
    """The prefix of an archive's unique handles.

    Args:
        archive_id: 16 bytes.
        records: the names and bytes of its debug records, in any order.
        salt: any text; another one gives another prefix, in case two archives have the same.
    """
    import hashlib  # noqa: PLC0415 (only those who ask for a prefix pay for it)

    digest = hashlib.blake2b(archive_id, digest_size=8)
    for name, data in sorted(records, key=itemgetter(0)):
        digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
        digest.update(data)
    digest.update(salt.encode("utf-8", "surrogateescape"))
    number: int = LEAST_PREFIX + int.from_bytes(digest.digest(), "little") % (PREFIX_BOUND - LEAST_PREFIX)
    return number


def unique(handles: Ints, prefix: int) -> Ints:
    """The unique form of handles (n); negative ones stay."""
    return np.where(handles < 0, handles, handles + prefix * SPAN)


def common_prefix(handles: Ints) -> int:
    """The prefix that all handles except negative ones have (n); 0 if they are not unique handles."""
    there = handles[handles >= 0]
    if not len(there):
        return 0
    prefix = int(there.min()) // SPAN
    return prefix if is_prefix(prefix) and prefix == int(there.max()) // SPAN else 0


def is_prefix(number: int) -> bool:
    """Whether a number may be a prefix."""
    return LEAST_PREFIX <= number < PREFIX_BOUND


def prefix_at_end(digits: str) -> int:
    """The prefix of the last handle, if digits may end with a unique one; else 0."""
    prefix = digits[-DIGITS:-HANDLE_DIGITS]
    return int(prefix) if prefix.isdecimal() and is_prefix(int(prefix)) else 0


def looks_unique(digits: str) -> bool:
    """Whether digits end like unique handles: the zeros before a small handle show it."""
    return prefix_at_end(digits) > 0 and digits[-HANDLE_DIGITS:].startswith(PADDING)


def may_be_plain(digits: str, prefix: int) -> bool:
    """Whether digits without a unique handle of an archive may be plain handles of it.

    They belong to another archive if they end like unique handles, or are as long and this one has such.

    Args:
        digits: handles as they are printed, concatenated.
        prefix: of the archive's unique handles; 0 if it has none.
    """
    return not looks_unique(digits) and not (prefix and len(digits) >= DIGITS)


@dataclass(frozen=True, slots=True)
class HandleForm:
    """The form of an archive's handles in its tables, and the one that is printed.

    Attributes:
        prefix: of its unique handles; 0 if there are none.
        tabled: whether its tables have the unique form, too. A companion has the original handles of an
            archive that prints unique ones.
    """

    prefix: int = 0
    tabled: bool = False

    def known_as(self, handle: int) -> int:
        """The number that tables have for a handle, which may be given in either form."""
        if not self.prefix:
            return handle
        if self.tabled:
            return self.prefix * SPAN + handle if 0 <= handle < SPAN else handle
        return handle % SPAN if handle // SPAN == self.prefix else handle

    def split(self, digits: str) -> tuple[str, tuple[int, ...]]:
        """Split handles that PyTorch printed concatenated.

        Returns:
            The digits before the archive's unique handles, and these as the tables have them.
        """
        handles: list[int] = []
        while self.prefix and prefix_at_end(digits) == self.prefix:
            handles.insert(0, self.known_as(int(digits[-DIGITS:])))
            digits = digits[:-DIGITS]
        return digits, tuple(handles)

    def foreign(self, digits: str) -> str:
        """The archive that digits name if they are unique handles of another one; "" if they name none."""
        prefix = prefix_at_end(digits)
        if not prefix or prefix == self.prefix:
            return ""
        ours = f", and this one is {self.prefix}" if self.prefix else ""
        return f"as unique handles they name the archive {prefix}{ours}"


PLAIN = HandleForm()
"""Handles as PyTorch numbers them."""
