"""Values -> pickle bytes, exactly as PyTorch's own pickler lays them out.

Its rules are in ``torch/csrc/jit/serialization/pickler.cpp`` (``pushInt``, ``pushString``, ``pushGlobal``,
``pushTuple``, ``pushSpecializedList``). What PyTorch 1.4 to 2.13 wrote re-encodes to the same bytes:

- ``PROTO 2`` first, ``STOP`` last.
- Integers: 0 to 255 BININT1, to 65535 BININT2, int32 BININT, else LONG1 with 8 bytes.
- Texts: BINUNICODE and a memo entry, memoised by value; globals likewise, by name. Later: a memo read.
- Memo indices count up from 0; above 255 LONG_BINPUT and LONG_BINGET.
- Tuples: EMPTY_TUPLE; 1 to 3 items without MARK, closed by TUPLE1 to 3; more: MARK … TUPLE.
- A container gets a memo entry if PyTorch holds more than one reference to it (``pushIValue``). Which ones do
  follows from the code that makes the record; :mod:`archive.formats.schema.pickled` declares it.
"""

from __future__ import annotations

from array import array
from io import BytesIO
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.pickles.ops import BYTE_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from archive.base.strings import Strings

    class Sliced(Protocol):
        """A column, or something that makes parts of one on demand."""

        def __getitem__(self, part: slice, /) -> np.ndarray: ...

    Receive = Callable[[bytes], None]


TUPLE_CLOSINGS = [BYTE_OF[name] for name in ("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")]
"""The opcodes that close tuples of 0 to 3 items."""
_BININT1, _BININT2, _BININT = BYTE_OF["BININT1"], BYTE_OF["BININT2"], BYTE_OF["BININT"]
_LONG1 = BYTE_OF["LONG1"] + b"\x08"
_BINPUT, _LONG_BINPUT = BYTE_OF["BINPUT"], BYTE_OF["LONG_BINPUT"]
_BINGET, _LONG_BINGET = BYTE_OF["BINGET"], BYTE_OF["LONG_BINGET"]
CHUNK = 1 << 12
"""Integers that become instructions at once."""
PART = 1 << 16
"""Bytes of a pickle that are received at once."""
FEW = 256
"""Integers that become instructions one by one."""
MEMO_BYTES, TEXT_BYTES = 140, 250
"""Bytes of memory that a value that others refer to takes, and a text besides its length."""
WRITER_BYTES = 2_048
"""Bytes of memory that it takes to write anything."""
FRAMED = 4
"""The first protocol with short texts and long ones."""
LONG = 256
"""Bytes of the shortest text that is known by its digest, so that it isn't stored again."""
BYTE = 256
"""Integers and memo indices below this take one byte."""
SMALL_INTEGERS = [_BININT1 + bytes([value]) for value in range(BYTE)]


def integer(value: int) -> bytes:
    """The instruction for an integer of 64 bits, the shortest that PyTorch has."""
    if 0 <= value < BYTE:
        return SMALL_INTEGERS[value]
    if 0 <= value < 1 << 16:
        return _BININT2 + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return _BININT + value.to_bytes(4, "little", signed=True)
    return _LONG1 + value.to_bytes(8, "little", signed=True)


class Integers:
    """The instructions for a column of integers of 64 bits, made a part at a time, for reading in order.

    Args:
        values: the column; slices of it are arrays (n).
    """

    __slots__ = ("_begin", "_data", "_end", "_start", "_values")

    def __init__(self, values: Sliced) -> None:
        self._values = values
        self._begin = self._end = 0
        self._data, self._start = b"", array("q", [0])

    def part(self, begin: int, end: int) -> bytes:
        """The instructions for the integers from ``begin`` to ``end``."""
        if begin < self._begin or end > self._end:
            if not self._begin <= begin <= self._end:  # out of order, and then mostly few
                return integers(self._values[begin:end])[0]
            self._begin, self._end = begin, max(end, begin + CHUNK)
            self._data, self._start = integers(self._values[begin : self._end])
        first = self._begin
        return self._data[self._start[begin - first] : self._start[end - first]]


class Run(NamedTuple):
    """What is written for each row without using the memo: an integer, and fixed bytes around it.

    Attributes:
        head: the bytes before the integer.
        tail: the bytes after it.
    """

    head: bytes
    values: Sliced
    tail: bytes


def rows_of(runs: Sequence[Run], begin: int, end: int) -> list[bytes]:
    """The bytes of some rows, with all runs concatenated."""
    columns = [run.values[begin:end] for run in runs]
    if (end - begin) * len(runs) <= FEW:
        written = [
            [run.head + integer(value) + run.tail for value in column.tolist()]
            for run, column in zip(runs, columns, strict=True)
        ]
        return [b"".join(row) for row in zip(*written, strict=True)]
    around = [(run.head, run.tail) for run in runs]
    data, ends = _integers(np.stack(columns, 1).reshape(-1), around)
    bounds = [0, *ends[len(runs) - 1 :: len(runs)].tolist()]
    return [data[low:high] for low, high in pairwise(bounds)]


def integers(values: np.ndarray) -> tuple[bytes, array[int]]:
    """The instructions for integers of 64 bits: their bytes, where each begins and the last ends (n + 1)."""
    if len(values) <= FEW:
        parts = list(map(integer, values.tolist()))
        return b"".join(parts), array("q", accumulate(map(len, parts), initial=0))
    parts, start = [], array("q", [0])
    for low in range(0, len(values), CHUNK):
        data, ends = _integers(values[low : low + CHUNK])
        parts.append(data)
        start.frombytes((ends + start[-1]).tobytes())
    return b"".join(parts), start


def _integers(
    values: np.ndarray, around: Sequence[tuple[bytes, bytes]] = ((b"", b""),)
) -> tuple[bytes, np.ndarray]:
    """The instructions for some integers, and where each of them ends (n).

    Args:
        around: fixed bytes before and after each integer, alternately.
    """
    size = np.full(len(values), 10, np.int64)
    for width, low, high in ((5, -(1 << 31), 1 << 31), (3, 0, 1 << 16), (2, 0, BYTE)):
        size[(values >= low) & (values < high)] = width
    rows = len(size) // len(around)
    whole = size + np.tile([len(head) + len(tail) for head, tail in around], rows)
    ends = np.cumsum(whole)
    data = np.empty(int(ends[-1]), np.uint8)
    for place, (head, tail) in enumerate(around):
        own = slice(place, None, len(around))
        for first, fixed in (((ends - whole)[own], head), (ends[own] - len(tail), tail)):
            for step, byte in enumerate(fixed):
                data[first + step] = byte
    begin = ends - whole + np.tile([len(head) for head, _ in around], rows)
    for width, head in ((2, _BININT1), (3, _BININT2), (5, _BININT), (10, _LONG1)):
        which = np.flatnonzero(size == width)
        at = begin[which]
        for byte in head:
            data[at] = byte
            at += 1
        payload = values[which].astype("<i8", copy=False).view(np.uint8).reshape(-1, 8)
        for place in range(width - len(head)):
            data[at] = payload[:, place]
            at += 1
    return data.tobytes(), ends


def memo_read(index: int) -> bytes:
    """The instruction that reads a memo entry."""
    if index < BYTE:
        return _BINGET + bytes([index])
    return _LONG_BINGET + index.to_bytes(4, "little")


def global_name(module: str, name: str) -> bytes:
    """The instruction for a global."""
    return BYTE_OF["GLOBAL"] + f"{module}\n{name}\n".encode("utf-8", "surrogateescape")


def text_head(size: int, protocol: int = 2) -> bytes:
    """The instruction before a text of ``size`` bytes; from protocol 4 on as Python's pickler has it."""
    if protocol >= FRAMED and size < 1 << 8:
        return b"\x8c" + size.to_bytes(1)  # SHORT_BINUNICODE
    if protocol >= FRAMED and size >= 1 << 32:
        return b"\x8d" + size.to_bytes(8, "little")  # BINUNICODE8
    return BYTE_OF["BINUNICODE"] + size.to_bytes(4, "little")


class Writer:
    """Writes one pickle.

    Args:
        strings: the table by which texts are given.
        receive: takes the bytes, a part at a time; without it ``finish`` returns all of them.

    Attributes:
        out: its bytes so far, without those that were received.
        entries: how many memo entries it has.
    """

    __slots__ = (
        "_by_index",
        "_by_value",
        "_counted",
        "_known",
        "_receive",
        "_strings",
        "entries",
        "out",
    )

    def __init__(self, strings: Strings, receive: Receive | None = None) -> None:
        self._receive = receive
        self.out = BytesIO()
        self.out.write(BYTE_OF["PROTO"] + b"\x02")
        self.entries = self._counted = self._known = 0
        self.take(1, WRITER_BYTES)
        self._strings = strings
        self._by_index: dict[int, int] = {}
        self._by_value: dict[bytes, int] = {}

    def take(self, count: int, each: int) -> None:
        """Ask for memory for ``count`` values, of ``each`` bytes."""
        memory.take(count * each, "values that are written")

    def count(self) -> None:
        """Ask for the memory of what was written since the last call: to be called now and then in a loop."""
        size = self.out.tell() * 9 // 8  # a growing buffer is up to an eighth larger
        self.take(self._known + size - self._counted, 1)
        self._counted, self._known = size, 0
        if self._receive is not None and self.out.tell() >= PART:
            self._receive(self._part())

    def _part(self) -> bytes:
        """The bytes so far, which are no longer in ``out``."""
        part = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return part

    def put(self) -> int:
        """Give the value written last a memo entry; returns its number."""
        index = self.entries
        self.entries += 1
        self.out.write(
            _BINPUT + bytes([index]) if index < BYTE else _LONG_BINPUT + index.to_bytes(4, "little")
        )
        return index

    def string(self, index: int) -> None:
        """Write a text, given by its index in the string table."""
        entry = self._by_index.get(index)
        if entry is None:
            self._by_index[index] = self.text(self._strings.data(index))
        else:
            self.out.write(memo_read(entry))

    def text(self, data: bytes | memoryview) -> int:
        """Write a text; returns the number of its memo entry."""
        head = text_head(len(data))
        if len(data) < LONG:
            return self.once(head + data)
        from hashlib import blake2b  # noqa: PLC0415 (readers do without)

        with memory.lent(len(data) * 9 // 8, "values that are written"):
            entry = self.once(b"\0" + blake2b(data).digest(), head, data)
        self.count()
        return entry

    def once(self, key: bytes, *parts: bytes | memoryview) -> int:
        """Write an instruction with its memo entry, or the memo read if the same one was already written.

        Returns the number of the entry.

        Args:
            key: what it is known by; no instruction begins with 0.
            parts: of the instruction, by default the key.
        """
        entry = self._by_value.get(key)
        if entry is not None:
            self.out.write(memo_read(entry))
            return entry
        self._known += TEXT_BYTES + len(key)
        self.out.writelines(parts or (key,))
        self._by_value[key] = entry = self.put()
        return entry

    def finish(self) -> bytes:
        """Close the pickle; returns all its bytes, if nobody received them."""
        self.out.write(BYTE_OF["STOP"])
        self.count()
        if self._receive is not None:
            self._receive(self._part())
        return self.out.getvalue()  # shares the buffer: no copy
