"""Long columns of packed companions, in blocks of 65,536 rows, each of which can be read without the others.

A section of blocks begins with its index, an entry for each block. The blocks follow, each compressed
separately.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.companion.codecs import STRONGEST, Codec, compressed, inflated
from archive.companion.encodings import EncodedColumn, Transform, decoded, parse_coding
from archive.companion.layout import PACKED_LINE, check_crc
from archive.companion.lookup import inside
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Int32ul, Int64sl, Struct
from archive.normalform.columns import VALUE_WIDTH

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.companion.layout import SectionLine

BLOCK_ROWS = 1 << 16
BLOCK = Layout(
    "block index entry"
    / Struct(
        "stored" / Int32ul * "bytes of the block in the file",
        "checksum" / Int32ul * "their crc32",
        "before" / Int64sl * "the value that the block's transform starts from, as if it were a column",
    )
)


def build_blocks(number: int, values: Ints, encoded: EncodedColumn, level: int) -> tuple[SectionLine, bytes]:
    """The section of a column in blocks: its line in the directory, and its bytes.

    The column is not encoded by BACK, whose values refer to rows of other blocks.
    """
    planes = np.frombuffer(encoded.data, np.uint8).reshape(encoded.width, len(values))
    starts = range(0, len(values), BLOCK_ROWS)
    parts = [planes[:, at : at + BLOCK_ROWS].tobytes() for at in starts]
    codec = compressed(b"".join(parts), level)[0] if level >= STRONGEST else Codec.ZSTD
    stored = [compressed(part, level, codec)[1] for part in parts]
    index = np.zeros(len(parts), BLOCK.dtype)
    index["stored"] = [len(part) for part in stored]
    index["checksum"] = [zlib.crc32(part) for part in stored]
    index["before"] = _before(values, encoded, np.array(starts))
    data = index.tobytes() + b"".join(stored)
    checksum = zlib.crc32(index.tobytes())
    size = len(encoded.data)
    return PACKED_LINE.row(number, encoded.coding, codec, len(values), 0, size, len(data), checksum), data


def _before(values: Ints, encoded: EncodedColumn, at: Ints) -> Ints:
    """The value that the transform of each block starts from."""
    if encoded.transform is Transform.FLAT:
        return np.zeros(len(at), np.int64)
    if encoded.transform is Transform.INDEX:
        return encoded.start + at
    peaks = np.maximum.accumulate(values) + 1 if encoded.transform is Transform.PEAK else values
    return np.append(encoded.start, peaks[at[1:] - 1])


class BlockColumn:
    """A column in blocks. The last read block is kept."""

    def __init__(self, section: SectionLine, data: memoryview) -> None:
        self._section = section
        self._data = data
        self._last: tuple[int, Ints] = (-1, np.zeros(0, np.int64))
        transform, self._zigzag, self._width = parse_coding(section.coding)
        if transform > Transform.PEAK or not 0 < self._width <= VALUE_WIDTH:
            raise ArchiveError(expected="a column in blocks", found=f"coding {section.coding}")
        self._transform = Transform(transform)
        if section.inflated != section.rows * self._width:
            raise ArchiveError(expected=f"{section.rows * self._width} bytes", found=str(section.inflated))

    def __len__(self) -> int:
        return int(self._section.rows)

    @cached_property
    def _index(self) -> np.ndarray:
        count = -(-self._section.rows // BLOCK_ROWS)
        size = count * BLOCK.size
        index = BLOCK.columns(self._data[:size])
        check_crc(zlib.crc32(self._data[:size]), self._section.checksum, "index of blocks")
        if len(index) != count or size + int(index["stored"].sum()) != len(self._data):
            raise ArchiveError(expected=f"an index of {count} blocks", found="another")
        return index

    @cached_property
    def _places(self) -> list[int]:
        return (self._index.nbytes + np.append(0, np.cumsum(self._index["stored"].astype(np.int64)))).tolist()

    def block(self, number: int) -> Ints:
        """The values of a block, checked."""
        _, checksum, before = self._index[number].item()
        stored = self._data[self._places[number] : self._places[number + 1]]
        check_crc(zlib.crc32(stored), checksum)
        rows = min(BLOCK_ROWS, self._section.rows - number * BLOCK_ROWS)
        planes = inflated(self._section.codec, stored, rows * self._width)
        return decoded(EncodedColumn(self._transform, self._zigzag, self._width, before, bytes(planes)), rows)

    def at(self, row: int) -> int:
        """The value of a row; its block is checked."""
        number, place = divmod(inside(row, self._section.rows), BLOCK_ROWS)
        if self._last[0] != number:
            self._last = (number, self.block(number))
        return int(self._last[1][place])

    def find(self, value: int) -> int:
        """The first row that has a value, in a sorted column; -1 if none has."""
        low, high = 0, len(self._index) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.at(middle * BLOCK_ROWS) < value else (low, middle - 1)
        for number in range(low, min(low + 2, len(self._index))):
            row = number * BLOCK_ROWS + int(np.searchsorted(self.block(number), value))
            if row < self._section.rows and self.at(row) == value:
                return row
        return -1

    def all(self) -> Ints:
        """All values, checked."""
        return np.concatenate([self.block(number) for number in range(len(self._index))])
