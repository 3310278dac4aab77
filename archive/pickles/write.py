"""Values -> pickle bytes, exactly as PyTorch's own pickler lays them out.

Its rules (found by re-encoding what PyTorch 1.4 to 2.13 wrote):

- ``PROTO 2`` first, ``STOP`` last.
- Integers: 0 to 255 BININT1, to 65535 BININT2, int32 BININT, else LONG1 with 8 bytes.
- Texts: BINUNICODE and a memo entry, memoised by value; globals likewise, by name. Later: a memo read.
- Memo indices count up from 0; above 255 LONG_BINPUT and LONG_BINGET.
- Tuples: EMPTY_TUPLE; 1 to 3 items without MARK, closed by TUPLE1 to 3; more: MARK … TUPLE.
- Which containers get a memo entry is a matter of the format: see ``formats.schema``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.pickles.ops import CODE

if TYPE_CHECKING:
    from archive.base.strings import StringTable


def _code(name: str) -> bytes:
    return bytes([CODE[name]])


MARK, NONE, EMPTY_TUPLE = _code("MARK"), _code("NONE"), _code("EMPTY_TUPLE")
EMPTY_LIST, APPENDS, REDUCE = _code("EMPTY_LIST"), _code("APPENDS"), _code("REDUCE")
TUPLE = _code("TUPLE")
CLOSE = [EMPTY_TUPLE, _code("TUPLE1"), _code("TUPLE2"), _code("TUPLE3")]
_BININT1, _BININT2, _BININT, _LONG1 = (_code(n) for n in ("BININT1", "BININT2", "BININT", "LONG1"))
_BINUNICODE, _GLOBAL = _code("BINUNICODE"), _code("GLOBAL")
_BINPUT, _LONG_BINPUT = _code("BINPUT"), _code("LONG_BINPUT")
_BINGET, _LONG_BINGET = _code("BINGET"), _code("LONG_BINGET")
BYTE = 256
SMALL = [_BININT1 + bytes([value]) for value in range(BYTE)]


def integer(value: int) -> bytes:
    """An integer of 64 bits."""
    if 0 <= value < len(SMALL):
        return SMALL[value]
    if 0 <= value < 1 << 16:
        return _BININT2 + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return _BININT + value.to_bytes(4, "little", signed=True)
    return _LONG1 + b"\x08" + value.to_bytes(8, "little", signed=True)


def integers(values: np.ndarray) -> tuple[bytes, list[int]]:
    """Integers of 64 bits one behind the other, and where each begins and the last one ends (n + 1)."""
    inside = [
        (values >= low) & (values < high) for low, high in ((0, BYTE), (0, 1 << 16), (-(1 << 31), 1 << 31))
    ]
    size = np.select(inside, [2, 3, 5], 10)
    start = np.concatenate(([0], np.cumsum(size)))
    data = np.empty(int(start[-1]), np.uint8)
    for width, head in ((2, _BININT1), (3, _BININT2), (5, _BININT), (10, _LONG1 + b"\x08")):
        which = np.flatnonzero(size == width)
        at = start[which]
        for place, byte in enumerate(head):
            data[at + place] = byte
        payload = values[which].astype("<i8").view(np.uint8).reshape(-1, 8)
        for place in range(width - len(head)):
            data[at + len(head) + place] = payload[:, place]
    return data.tobytes(), start.tolist()


def memo_read(index: int) -> bytes:
    """A read of a memo entry."""
    if index < BYTE:
        return _BINGET + bytes([index])
    return _LONG_BINGET + index.to_bytes(4, "little")


class Writer:
    """One pickle in the making: its pieces in ``out``, and its memo."""

    __slots__ = ("_by_index", "_by_value", "_strings", "entries", "out")

    def __init__(self, strings: StringTable) -> None:
        self.out: list[bytes] = [_code("PROTO") + b"\x02"]
        self.entries = 0
        self._strings = strings
        self._by_index: dict[int, bytes] = {}
        self._by_value: dict[bytes, bytes] = {}

    def put(self) -> bytes:
        """Give what was written last a memo entry; returns the read of it."""
        index = self.entries
        self.entries += 1
        self.out.append(
            _BINPUT + bytes([index]) if index < BYTE else _LONG_BINPUT + index.to_bytes(4, "little")
        )
        return memo_read(index)

    def string(self, index: int) -> None:
        """A text, by its index in the string table."""
        known = self._by_index.get(index)
        if known is not None:
            self.out.append(known)
            return
        self._by_index[index] = self.text(bytes(self._strings.data(index)))

    def text(self, data: bytes) -> bytes:
        """A text; returns the memo read of it."""
        return self._once(_BINUNICODE + len(data).to_bytes(4, "little") + data)

    def name(self, module: str, name: str) -> None:
        """A global."""
        self._once(_GLOBAL + f"{module}\n{name}\n".encode())

    def _once(self, data: bytes) -> bytes:
        known = self._by_value.get(data)
        if known is not None:
            self.out.append(known)
            return known
        self.out.append(data)
        self._by_value[data] = known = self.put()
        return known

    def finish(self) -> bytes:
        """The whole pickle."""
        self.out.append(_code("STOP"))
        return b"".join(self.out)
