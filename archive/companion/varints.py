r"""Integers of variable length: seven bits a byte, lowest first, the eighth set in all bytes but the last.

Signed ones are zigzag coded before: 0, -1, 1, -2 become 0, 1, 2, 3.

    >>> build_varint(300), build_signed(-2)
    (b'\xac\x02', b'\x03')
    >>> numbers = Varints(memoryview(b"\xac\x02\x03"))
    >>> numbers.number(), numbers.signed(), numbers.at
    (300, -2, 3)
"""

from __future__ import annotations

from archive.base.errors import ArchiveError

MORE, SEVEN = 0x80, 0x7F
MOST_BYTES = 10
"""Bytes of the largest number: those of 64 bits."""


def build_varint(value: int) -> bytes:
    """The bytes of a number."""
    out = bytearray()
    while value >= MORE:
        out.append(value & SEVEN | MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def build_signed(value: int) -> bytes:
    """The bytes of a signed number."""
    return build_varint(~value << 1 | 1 if value < 0 else value << 1)


class Varints:
    """Reads numbers one behind the other.

    Args:
        data: the bytes.
        at: the first one to read.

    Attributes:
        at: the next byte.
    """

    def __init__(self, data: memoryview, at: int = 0) -> None:
        self._data, self.at = data, at

    def byte(self) -> int:
        """The next byte.

        Raises:
            ArchiveError: there is none.
        """
        if self.at >= len(self._data):
            raise ArchiveError(place=f"byte {self.at}", expected="a number", found="the end")
        self.at += 1
        return self._data[self.at - 1]

    def number(self) -> int:
        """The next number.

        Raises:
            ArchiveError: the bytes end, or it has more than ``MOST_BYTES``.
        """
        begin, value = self.at, 0
        for shift in range(0, 7 * MOST_BYTES, 7):
            byte = self.byte()
            value |= (byte & SEVEN) << shift
            if byte < MORE:
                return value
        raise ArchiveError(place=f"byte {begin}", expected=f"at most {MOST_BYTES} bytes", found="more")

    def signed(self) -> int:
        """The next number, which is signed.

        Raises:
            ArchiveError: the bytes end, or it has more than ``MOST_BYTES``.
        """
        value = self.number()
        return ~(value >> 1) if value & 1 else value >> 1
