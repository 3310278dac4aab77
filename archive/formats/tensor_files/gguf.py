"""GGUF, the files of llama.cpp: keys and values, a table of tensors, then their elements.

=================================  ================================================================
``GGUF``                           the magic, the same in both byte orders
version                            u32: 2 or 3. Whether it reads so tells the order of all numbers.
tensors, pairs                     u64 each: how many there are
each pair                          key (text), type (u32), value
each tensor                        name (text), dimensions (u32: at most 4), their sizes (u64 each), type of
                                   elements (u32), offset (u64)
padding                            to a multiple of the alignment
the data                           the tensors in the order of the table, each padded to the alignment
=================================  ================================================================

A text is a u64, its length in bytes, and UTF-8. Values are of these types: 0 u8, 1 s8, 2 u16, 3 s16, 4 u32, 5
s32, 6 f32, 7 bool, 8 text, 9 array, 10 u64, 11 s64, 12 f64. An array is the type of its values (u32), their
number (u64), and the values; it may hold arrays. The alignment is the value of ``general.alignment``, a u32
and a power of two; 32 where it is not given.

Sizes are in the opposite order of PyTorch's: the first dimension is the fastest. Quantised elements come in
blocks along that dimension, which is a multiple of a block; see
:data:`archive.formats.tensors.dtypes.BLOCKS`. Offsets count from the beginning of the data, and are those
that follow from the order of the table.

Long arrays, such as the 150,000 tokens of a tokenizer, are passed over: metadata has their number and type.

What is checked: numbers and lengths fit the file before anything is made of them, keys and names are there
once, offsets are as above, and all tensors are in the file. Bytes behind the last tensor are told, not
refused: llama.cpp does not look at them.

Source: ``docs/gguf.md`` of ggml, ``ggml/src/gguf.cpp`` and ``gguf-py/gguf/gguf_reader.py`` of llama.cpp.
Version 1, which had other lengths, is refused there, too.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, prod
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, counted, shown
from archive.base.strings import decoded
from archive.formats.record_kinds import DATA_FOLDER, RecordKind
from archive.formats.tensor_files.described import (
    HEADER,
    PLACE_BYTES,
    ArrayOf,
    CutShortError,
    FileRecord,
    TensorFile,
    TextPlace,
    take_tensor,
    twice,
    with_head,
)
from archive.formats.tensors.dtypes import BLOCKS, bytes_of
from archive.formats.tensors.tensor import Tensor, check_shape, row_major

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.base.ranged import Bytes
    from archive.formats.tensor_files.described import Value

MAGIC = b"GGUF"
VERSIONS = (2, 3)
PAIRS, TABLE = "pairs", "tensors"
"""The records behind the header and before the data."""
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""What :mod:`struct` calls the types of numbers."""
U32, TEXT, ARRAY = 4, 8, 9
BYTES = {0, 1}
"""Types of numbers of a byte, of which arrays may be texts."""
TYPE_WORDS = ("u8", "s8", "u16", "s16", "u32", "s32", "f32", "bool", "texts", "arrays", "u64", "s64", "f64")
"""What each type is called, by its number."""
LITTLE, BIG = "<", ">"
"""Orders of the bytes of a number, as :mod:`struct` writes them."""
ALIGNMENT, DEFAULT_ALIGNMENT = "general.alignment", 32
DIMENSIONS = 4
DEPTH = 8
"""Arrays inside of arrays."""
PAIR_BYTES, TENSOR_BYTES = 13, 24
"""Bytes of a pair and of a row of the table, at least."""
VALUE_BYTES = 300
"""Bytes of memory that a pair costs, besides its characters."""
WIDEST = 4
"""Bytes of memory of a character of a text."""
DTYPES = {
    0: "float32",
    1: "float16",
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    9: "q8_1",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    15: "q8_k",
    16: "iq2_xxs",
    17: "iq2_xs",
    18: "iq3_xxs",
    19: "iq1_s",
    20: "iq4_nl",
    21: "iq3_s",
    22: "iq2_s",
    23: "iq4_xs",
    29: "iq1_m",
    34: "tq1_0",
    35: "tq2_0",
    39: "mxfp4",
    40: "nvfp4",
    41: "q1_0",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
"""The dtype of each number, ``enum ggml_type``; those that are missing were taken out again."""


def read_gguf(data: Bytes, allowance: Allowance) -> TensorFile:
    """Read the header of a file.

    Args:
        data: the file; of one elsewhere, no more than its header is fetched, in pieces of 1, 4, … MiB.
        allowance: the memory that it may cost.

    Returns:
        The file's tensors in the order of its table, with PyTorch's shapes: the last dimension is the
        fastest.
        Records: ``header``, ``pairs``, ``tensors`` (the table), and a ``data/NAME`` for each tensor. All
        values that are no arrays are metadata.

    Raises:
        ArchiveError: the file is not as the format asks; the message says where.
    """
    return with_head(data, allowance, lambda head, part: _Header(head, len(data), part).file())


def spans_of_values(data: Bytes, allowance: Allowance) -> dict[str, tuple[int, int]]:
    """Where the value of each key lies in a file: the first byte of its type, and the one behind its last.

    Raises:
        ArchiveError: as for :func:`read_gguf`.
    """

    def read(head: memoryview, part: Allowance) -> dict[str, tuple[int, int]]:
        header = _Header(head, len(data), part)
        header.file()
        return header.spans

    return with_head(data, allowance, read)


def places_of_texts(data: memoryview, allowance: Allowance) -> list[TextPlace]:
    """Where the texts of a file lie, in its order: keys, values, items, names; arrays of bytes, too.

    Raises:
        ArchiveError: as for :func:`read_gguf`.
        LimitError: there are more than allowed.
    """
    header = _Header(data, len(data), allowance)
    header.texts = []
    header.file()
    return header.texts


class _Row(NamedTuple):
    """A row of the table of tensors, whose size is PyTorch's."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class _Header:
    """The header of a file, read once from its beginning to its end.

    Args:
        head: the first bytes of the file.
        size: of the whole file.
        allowance: the memory that it may cost.

    Attributes:
        spans: of each key, where the type of its value begins, and where the value ends.
        texts: where texts lie; None where nobody asks.
    """

    def __init__(self, head: memoryview, size: int, allowance: Allowance) -> None:
        self._head, self._size, self._allowance = head, size, allowance
        self.spans: dict[str, tuple[int, int]] = {}
        self.texts: list[TextPlace] | None = None
        self._at = 0
        self._order = LITTLE
        self._read_order()

    def file(self) -> TensorFile:
        """All that the header tells."""
        version = self._number("I")
        if version not in VERSIONS:
            raise ArchiveError(place="byte 4", expected="version 2 or 3", found=f"{version:,}")
        tensors, pairs = self._number("Q"), self._number("Q")
        begin = self._at
        metadata = self._pairs(pairs)
        end_of_pairs = self._at
        alignment = self._alignment(metadata)
        rows = self._table(tensors, alignment)
        end = self._at
        start = -(-end // alignment) * alignment if rows else end
        records = {
            HEADER: FileRecord(RecordKind.HEADER, ((0, begin),)),
            PAIRS: FileRecord(RecordKind.VALUES, ((begin, end_of_pairs),)),
            TABLE: FileRecord(RecordKind.HEADER, ((end_of_pairs, end),)),
        }
        described: dict[str, Tensor] = {}
        stop = end
        for row in rows.values():
            at = start + row.offset
            if at + row.size > self._size:
                place = f"tensor {shown(row.name)}"
                raise ArchiveError(
                    place=place, expected=f"{at + row.size:,} bytes of file", found=f"{self._size:,}"
                )
            record = DATA_FOLDER + row.name
            records[record] = FileRecord(RecordKind.TENSOR, ((at, at + row.size),))
            described[row.name] = Tensor(row.dtype, row.shape, row_major(row.shape), 0, record)
            stop = at + row.size
        padding = stop - end - sum(row.size for row in rows.values())
        padding += min(-stop % alignment, self._size - stop)
        is_big = self._order == BIG
        what = f"{counted(len(rows), 'tensor')} in GGUF version {version}{', big-endian' if is_big else ''}"
        return TensorFile(
            what, records, described, metadata, padding=padding, is_big_endian=is_big, version=version
        )

    # Numbers and texts

    def _read_order(self) -> None:
        if bytes(self._head[:4]) != MAGIC:
            raise ArchiveError(place="byte 0", expected="GGUF", found=shown(bytes(self._head[:4])))
        self._at = 4
        version = self._number("I")
        self._order = BIG if version and not version & 0xFFFF else LITTLE
        self._at = 4

    def _number(self, form: str) -> Any:  # noqa: ANN401 (an int, a float or a bool)
        """The number that stands here."""
        number = Struct(self._order + form)
        try:
            (value,) = number.unpack_from(self._head, self._at)
        except error:
            raise self._cut(number.size) from None
        self._at += number.size
        return value

    def _cut(self, wanted: int) -> ArchiveError:
        """The error of a header that goes on behind the bytes at hand."""
        if self._at + wanted > self._size:
            left = max(self._size - self._at, 0)
            return ArchiveError(place=f"byte {self._at:,}", expected=f"{wanted:,} bytes", found=f"{left:,}")
        return CutShortError(place=f"byte {self._at:,}", expected=f"{wanted:,} bytes", found="fewer")

    def _skip(self, size: int) -> None:
        if self._at + size > len(self._head):
            raise self._cut(size)
        self._at += size

    def _text(self, *, is_value: bool = False) -> str:
        size = self._number("Q")
        at = self._at
        self._skip(size)
        if self.texts is not None:
            self._allowance.take(PLACE_BYTES, "places of texts")
            self.texts.append(TextPlace(at, self._at, is_value))
        self._allowance.take(WIDEST * size, "texts", place=f"byte {at:,}")
        return decoded(self._head[at : at + size])

    # Pairs

    def _pairs(self, count: int) -> dict[str, Value]:
        self._check_count(count, PAIR_BYTES, "pairs")
        values: dict[str, Value] = {}
        for _ in range(count):
            at = self._at
            key = self._text()
            self._allowance.take(VALUE_BYTES, "pairs", place=f"byte {at:,}")
            if key in values:
                raise twice("key", key).within(place=f"byte {at:,}")
            begin = self._at
            values[key] = self._typed(self._number("I"))
            self.spans[key] = begin, self._at
        return values

    def _typed(self, kind: int) -> Value:
        """A value of a type; of an array, how many values it holds."""
        if kind == TEXT:
            return self._text(is_value=True)
        if kind == ARRAY:
            inner, count = self._pass_array()
            return ArrayOf(count, TYPE_WORDS[inner])
        if kind not in NUMBERS:
            raise ArchiveError(place=f"byte {self._at:,}", expected="a type from 0 to 12", found=f"{kind:,}")
        value = self._number(NUMBERS[kind])
        return value if isfinite(value) else str(value)  # JSON has no others

    def _pass_array(self, depth: int = 1) -> tuple[int, int]:
        """Pass over an array: the type of its values, and how many there are."""
        at = self._at
        inner, count = self._number("I"), self._number("Q")
        if inner >= len(TYPE_WORDS):
            raise ArchiveError(place=f"byte {at:,}", expected="a type from 0 to 12", found=f"{inner:,}")
        if inner in NUMBERS:
            begin = self._at
            self._skip(count * Struct(self._order + NUMBERS[inner]).size)
            if self.texts is not None and inner in BYTES:
                self.texts.append(TextPlace(begin, self._at))
            return inner, count
        self._check_count(count, 8 if inner == TEXT else 12, TYPE_WORDS[inner])
        if inner == TEXT:
            self._pass_texts(count)
        else:
            if depth == DEPTH:
                raise ArchiveError(
                    place=f"byte {at:,}", expected=f"at most {DEPTH} arrays", found="more inside"
                )
            for _ in range(count):
                self._pass_array(depth + 1)
        return inner, count

    def _pass_texts(self, count: int) -> None:
        """Pass over texts: only this loop may have many turns, so it calls nothing but one function."""
        head, length, at = self._head, Struct(self._order + "Q").unpack_from, self._at
        begins: list[int] | None = None if self.texts is None else []
        try:
            for _ in range(count):
                if begins is not None:
                    begins.append(at)
                at += 8 + length(head, at)[0]
        except (error, OverflowError):
            self._at = min(at, self._size)
            raise self._cut(8) from None
        self._skip(at - self._at)
        if begins is not None and self.texts is not None:
            self._allowance.take(PLACE_BYTES * count, "places of texts")
            self.texts += [TextPlace(begin + 8, stop) for begin, stop in pairwise([*begins, at])]

    def _check_count(self, count: int, least: int, what: str) -> None:
        """Refuse a number of things that the file cannot hold."""
        most = (self._size - self._at) // least
        if count > most:
            place = f"byte {self._at:,}"
            raise ArchiveError(place=place, expected=f"at most {most:,} {what}", found=f"{count:,}")

    def _alignment(self, metadata: dict[str, Value]) -> int:
        alignment = metadata.get(ALIGNMENT, DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise ArchiveError(place=ALIGNMENT, expected="a power of two", found=shown(alignment))
        return alignment

    # The table of tensors

    def _table(self, count: int, alignment: int) -> dict[str, _Row]:
        self._check_count(count, TENSOR_BYTES, "tensors")
        rows: dict[str, _Row] = {}
        expected = 0
        for _ in range(count):
            at = self._at
            row = self._row()
            place = f"tensor {shown(row.name)}"
            if row.name in rows:
                raise twice("tensor", row.name).within(place=f"byte {at:,}")
            if row.offset != expected:
                raise ArchiveError(place=place, expected=f"offset {expected:,}", found=f"{row.offset:,}")
            expected = -(-(row.offset + row.size) // alignment) * alignment
            rows[row.name] = row
        return rows

    def _row(self) -> _Row:
        name = self._text()
        place = f"tensor {shown(name)}"
        take_tensor(name, self._allowance)
        dimensions = self._number("I")
        if dimensions > DIMENSIONS:
            raise ArchiveError(
                place=place, expected=f"at most {DIMENSIONS} dimensions", found=f"{dimensions:,}"
            )
        sizes = [self._number("Q") for _ in range(dimensions)]
        kind, offset = self._number("I"), self._number("Q")
        dtype = DTYPES.get(kind)
        try:
            check_shape(tuple(sizes))
        except ArchiveError as error:
            raise error.within(place=place) from None
        if dtype is None:
            raise ArchiveError(
                place=place, expected="a type of elements that is known here", found=f"{kind:,}"
            )
        block, _ = BLOCKS.get(dtype, (1, 0))
        if (sizes[0] if sizes else 1) % block:
            raise ArchiveError(
                place=place, expected=f"rows of blocks of {block} elements for {dtype}", found=shown(sizes)
            )
        size = bytes_of(dtype, prod(sizes)) or 0
        return _Row(name, dtype, tuple(reversed(sizes)), offset, size)
