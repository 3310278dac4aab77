"""One record of an archive: a view into the file, checked once.

A stored record's bytes are a slice of the mapped file. A deflated one is inflated when it is first used, in
pieces and never beyond its declared size, and kept. The bytes of a record in a remote file are fetched when
it is first used, together with its local header.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Literal

import numpy as np

from archive.base.bounded import bounded_members
from archive.base.errors import DAMAGED, ArchiveError, in_file, one_line
from archive.base.quick_dataclass import dataclass
from archive.container.deflate import inflate, inflated
from archive.container.directory import PlacedEntry, StoredSpan, read_place
from archive.container.headers import LOCAL
from archive.io.ranged import AT_ONCE, RangedBytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance
    from archive.io.ranged import Bytes

EXTRA_BYTES = 160
"""Most bytes of the extra fields and descriptor of PyTorch's records."""

LONG = 1 << 20
"""Bytes of a record from which on libdeflate computes its crc32."""


@dataclass(slots=True)
class SharedFile:
    """The file that a container and its records share, so that they need not refer to each other.

    Attributes:
        allowance: the memory and sizes that the file may ask for.
    """

    data: Bytes
    name: str
    allowance: Allowance

    @property
    def is_elsewhere(self) -> bool:
        """Whether the bytes are fetched when they are asked for."""
        return isinstance(self.data, RangedBytes)


@bounded_members
class Record:
    """One record of an archive, made by its container.

    Attributes:
        entry: what the directory says of it.
        size: inflated size in bytes.
        stored_size: size in the archive in bytes.
        crc32: of the inflated bytes; 0 also means that PyTorch was set not to compute it.
    """

    __slots__ = ("_file", "_placed", "_view", "crc32", "entry", "name", "size", "stored_size")

    def __init__(self, file: SharedFile, placed: PlacedEntry) -> None:
        entry = self.entry = placed.entry
        self.name, self.crc32 = entry.name, entry.crc32
        self.size, self.stored_size = entry.size, entry.stored_size
        self._placed = placed
        self._file = file
        self._view: memoryview | None = None

    def __repr__(self) -> str:
        return f"<Record {self.name!r}, {self.size} bytes, {self.compression}>"

    @property
    def compression(self) -> Literal["stored", "deflated"]:
        """Whether it is stored unchanged, or as a deflate stream."""
        return "deflated" if self.entry.deflated else "stored"

    @property
    def borrowed(self) -> bool:
        """Whether :meth:`view` is part of the file rather than an inflated copy."""
        return not self.entry.deflated

    @property
    def is_at_hand(self) -> bool:
        """Whether its bytes are in memory, or in a mapped file: not to be inflated or fetched."""
        return self.borrowed and not self._file.is_elsewhere

    @property
    def place(self) -> StoredSpan:
        """Where its stored bytes are in the file."""
        return self._located()

    def _located(self) -> StoredSpan:
        placed = self._placed
        if placed.place is None:
            with in_file(self._file.name, one_line(self.name)):
                placed.place = read_place(self._file.data, self.entry, placed.stop)
        return placed.place

    @property
    def head(self) -> tuple[int, int]:
        """The bytes of the file with its local header: the first, and the byte after the last."""
        start = self.entry.start
        return start, min(start + LOCAL.size + len(self.entry.path) + EXTRA_BYTES, self._placed.stop)

    @property
    def span(self) -> tuple[int, int]:
        """All bytes of the file that belong to the record: the first, and the byte after the last."""
        return self.entry.start, min(self.entry.least_end + EXTRA_BYTES, self._placed.stop)

    def raw(self) -> memoryview:
        """The stored bytes, unchecked: a deflate stream if the record is deflated."""
        return self._stored()

    def _stored(self) -> memoryview:
        if self._placed.place is None and isinstance(self._file.data, RangedBytes):
            self._file.data.prefetch([self.span])
        begin = self._located().data
        return self._file.data[begin : begin + self.entry.stored_size]

    def view(self) -> memoryview:
        """The record's bytes, read only. Inflated and checked on the first call, then kept."""
        if self._view is None:
            with self._placing_errors():
                self._view = self._checked()
        return self._view

    def check(self) -> bool:
        """Compare the record's bytes with its size and crc32, and keep none of them; True, or an error."""
        with self._placing_errors():
            if self._view is None and self.entry.deflated:
                crc = 0
                for piece in inflated(self._stored(), self.size):
                    crc = zlib.crc32(piece, crc)
                self._check_crc(crc)
            elif self._view is None and self._file.is_elsewhere:
                for _ in self.pieces():
                    pass
            elif self._view is None:
                self._checked()
        return True

    def _placing_errors(self) -> in_file:
        """Say in errors which record it is, and where it is in the file."""
        return in_file(self._file.name, one_line(self.name), self._where)

    def _where(self) -> str:
        return f"byte {self.entry.start if self._placed.place is None else self._placed.place.data}"

    def pieces(self) -> Iterator[memoryview]:
        """The record's bytes, in pieces. Those of a long one in a remote file are not kept."""
        if self._view is not None or self.entry.deflated or not self._file.is_elsewhere:
            yield self.view()
            return
        begin, crc = self.place.data, 0
        for at in range(begin, begin + self.size, AT_ONCE):
            piece = self._file.data[at : min(at + AT_ONCE, begin + self.size)]
            crc = zlib.crc32(piece, crc)
            yield piece
        with in_file(self._file.name, one_line(self.name)):
            self._check_crc(crc)

    def _checked(self) -> memoryview:
        if self._file.is_elsewhere:
            self._file.allowance.take(self.stored_size, "fetched records")
        if not self.entry.deflated:
            view = self._stored()
            if not self._placed.is_checked:
                self._check_crc(_crc32(view))
                self._placed.is_checked = self.is_at_hand
            return view
        self._file.allowance.take(self.size, "inflated records")
        try:
            view = memoryview(inflate(self._stored(), self.size)).toreadonly()
            self._check_crc(_crc32(view))
        except ArchiveError:
            self._file.allowance.give(self.size)
            raise
        return view

    def _check_crc(self, actual: int) -> None:
        if self.crc32 not in (actual, 0):
            raise ArchiveError(DAMAGED, expected=f"crc32 {self.crc32:#010x}", found=f"{actual:#010x}")

    def _forget(self) -> None:
        self._view = None


def _crc32(view: memoryview) -> int:
    """The crc32 of a record. libdeflate's takes a fifth of zlib's time, and is imported for long records.

    libdeflate holds the GIL. Touching each piece first, while other threads may run, keeps page faults out of
    that time, and leaves the bytes in the processor's cache.
    """
    if len(view) < LONG:
        return zlib.crc32(view)
    from deflate import crc32  # noqa: PLC0415 (only those who read long records pay for it)

    crc = 0
    for at in range(0, len(view), LONG):
        piece = view[at : at + LONG]
        np.maximum.reduce(np.frombuffer(piece, np.uint8))
        crc = crc32(piece, crc)
    return crc
