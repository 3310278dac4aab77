"""GGUF, the files of llama.cpp: keys and values, a table of tensors, then their elements.

A file is a header, its pairs of metadata, the table with a row for each tensor, padding to a multiple of the
alignment, and the data: the tensors in the order of the table, each padded to the alignment.
:class:`Structures` declares them in both byte orders; a file's own is the one in which its version is 2 or 3.

Types of values: 0 u8, 1 s8, 2 u16, 3 s16, 4 u32, 5 s32, 6 f32, 7 bool, 8 text, 9 array, 10 u64, 11 s64, 12
f64. Arrays may hold arrays. The alignment is the value of ``general.alignment``, a u32 and a power of two, or
32 by default.

Sizes are in the reverse of PyTorch's order: the first dimension is the fastest. Quantised elements come in
blocks along that dimension, whose size is a multiple of a block's; see
:data:`archive.formats.tensors.dtypes.BLOCKS`. Offsets count from the beginning of the data, and must be those
that follow from the order of the table.

Arrays, such as the 150,000 tokens of a tokenizer, are skipped: metadata only has their length and type.

What is checked: numbers and lengths fit the file before anything is created from them, no key or name occurs
twice, offsets are as above, and all tensors are in the file. Bytes after the last tensor are reported but not
an error: llama.cpp does not look at them.

Source: ``docs/gguf.md`` of ggml, ``ggml/src/gguf.cpp`` and ``gguf-py/gguf/gguf_reader.py`` of llama.cpp.
Version 1, which had other lengths, is refused there, too.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, prod
from struct import Struct as Packer
from struct import error
from typing import TYPE_CHECKING, NamedTuple

from construct import Array, Construct, Flag, FormatField, StreamError, Struct, Switch, Tell, this

from archive.base import memory
from archive.base.errors import ArchiveError, counted, shown
from archive.formats.record_kinds import DATA_FOLDER, RecordKind
from archive.formats.schema import words
from archive.formats.schema.binary import field_path, parse
from archive.formats.schema.bounded import AtMost, CompiledRow, HeadReader, Text
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import BIG, LITTLE
from archive.formats.tensor_files import GGUF_MAGIC
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
    from construct import Container

    from archive.formats.schema.fixed import Row
    from archive.formats.tensor_files.described import Value
    from archive.io.ranged import Bytes

VERSIONS = (2, 3)
PAIRS, TABLE = "pairs", "tensors"
"""The records after the header and before the data."""
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "L", 5: "l", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The number types in the notation of :mod:`struct`."""
TEXT, ARRAY = 8, 9
BYTES = {0, 1}
"""Types of one-byte numbers, whose arrays may be texts."""
TYPE_WORDS = ("u8", "s8", "u16", "s16", "u32", "s32", "f32", "bool", "texts", "arrays", "u64", "s64", "f64")
"""The name of each type, by its number."""
A_TYPE = f"a type from 0 to {len(TYPE_WORDS) - 1}"
ALIGNMENT, DEFAULT_ALIGNMENT = "general.alignment", 32
DIMENSIONS = 4
DEPTH = 8
"""Most arrays inside one another."""
PAIR_WIDTH, TENSOR_WIDTH = 13, 24
"""Fewest bytes of a pair and of a row of the table."""
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
"""The dtype of each number, ``enum ggml_type``; missing ones were removed from the format."""


CUT = "the file is cut short"
"""What is said wherever it has fewer bytes than its header says."""


class PassedArray(Construct):  # type: ignore[misc]  # it has no types
    """An array, which is skipped: parsed, it is an :class:`ArrayOf`.

    Args:
        order: of the bytes of all numbers.
    """

    def __init__(self, order: str) -> None:
        super().__init__()
        self.order = order
        self.header = CompiledRow(
            "array"
            / Struct(
                "type" / FormatField(order, "L") * "of the values",
                "len" / FormatField(order, "Q") * "how many values follow",
            )
        )

    def _parse(self, stream: _Stream, context: Container, path: str) -> ArrayOf:  # noqa: ARG002 (construct's own protocol)
        kind, count = self._pass(stream, path, 1)
        return ArrayOf(count, TYPE_WORDS[kind])

    def _pass(self, stream: _Stream, path: str, depth: int) -> tuple[int, int]:
        """Skip an array; return the type of its values, and how many there are."""
        at = stream.tell()
        kind, count = self.header.read(stream, path)
        if kind >= len(TYPE_WORDS):
            raise ArchiveError(place=f"byte {at:,}", expected=A_TYPE, found=f"{kind:,}")
        if kind in NUMBERS:
            begin = stream.tell()
            stream.skip(count * Packer(self.order + NUMBERS[kind]).size, path)
            if stream.texts is not None and kind in BYTES:
                stream.texts.append(TextPlace(begin, stream.tell()))
            return kind, count
        stream.check_count(count, 8 if kind == TEXT else 12, TYPE_WORDS[kind])
        if kind == TEXT:
            self._pass_texts(stream, count, path)
        else:
            if depth == DEPTH:
                raise ArchiveError(
                    place=f"byte {at:,}", expected=f"at most {DEPTH} arrays", found="more inside"
                )
            for _ in range(count):
                self._pass(stream, path, depth + 1)
        return kind, count

    def _pass_texts(self, stream: _Stream, count: int, path: str) -> None:
        """Skip texts: only this loop may run long, so it calls a single function."""
        head, length, at = stream.head, Packer(self.order + "Q").unpack_from, stream.tell()
        begins: list[int] | None = None if stream.texts is None else []
        try:
            for _ in range(count):
                if begins is not None:
                    begins.append(at)
                at += 8 + length(head, at)[0]
        except (error, OverflowError):
            stream.seek(min(at, stream.size))
            stream.wanted = 8
            raise StreamError(path=path) from None
        stream.skip(at - stream.tell(), path)
        if begins is not None and stream.texts is not None:
            memory.take(PLACE_BYTES * count, "places of texts")
            stream.texts += [TextPlace(begin + 8, stop) for begin, stop in pairwise([*begins, at])]


class Structures:
    """The structures of a file, with the names that ``gguf.md`` gives their fields.

    Args:
        order: ``<`` or ``>``, of the bytes of all numbers.
    """

    def __init__(self, order: str) -> None:
        u32, u64 = FormatField(order, "L"), FormatField(order, "Q")
        self.text = text = Text(u64)
        values = {kind: FormatField(order, form) for kind, form in NUMBERS.items() if form != "?"}
        self.order = order
        self.header = Layout(
            "GGUF header"
            / words.Struct(
                "magic" / words.Const(GGUF_MAGIC),
                "version"
                / words.FormatField(order, "L")
                * "2 or 3; if it is in the other byte order, so are all numbers",
                "tensor_count" / words.FormatField(order, "Q") * "rows of the table of tensors",
                "metadata_kv_count" / words.FormatField(order, "Q") * "pairs, which follow the header",
            )
        )
        self.pair = CompiledRow(
            "pair"
            / Struct(
                "key" / text * "words separated by dots, no key twice",
                "type_offset" / Tell * "where the type is; not stored",
                "value_type" / AtMost(len(TYPE_WORDS) - 1, u32, A_TYPE),
                "value"
                / Switch(this.value_type, {**values, 7: Flag, TEXT: text, ARRAY: PassedArray(order)})
                * "of the type",
            )
        )
        self.tensor_info = CompiledRow(
            "tensor info"
            / Struct(
                "name" / text * "no name twice",
                "n_dimensions" / AtMost(DIMENSIONS, u32, f"at most {DIMENSIONS} dimensions"),
                "dimensions" / Array(this.n_dimensions, u64) * "elements along each, the fastest first",
                "type" / u32 * "of the elements: enum ggml_type",
                "offset" / u64 * "of the first element in the data, a multiple of the alignment",
            )
        )


LITTLE_ENDIAN, BIG_ENDIAN = Structures(LITTLE), Structures(BIG)


def read_gguf(data: Bytes) -> TensorFile:
    """Read the header of a file.

    Returns:
        The file's tensors in the order of its table, with PyTorch's shapes: the last dimension is the
        fastest.
        Records: ``header``, ``pairs``, ``tensors`` (the table), and a ``data/NAME`` for each tensor. All
        values other than arrays are metadata.
    """
    return with_head(data, lambda head: _Header(head, len(data)).file())


def spans_of_values(data: Bytes) -> dict[str, tuple[int, int]]:
    """Where the value of each key is in a file: the first byte of its type, and the byte after its last."""

    def read(head: memoryview) -> dict[str, tuple[int, int]]:
        header = _Header(head, len(data))
        header.file()
        return header.spans

    return with_head(data, read)


def places_of_texts(data: memoryview) -> list[TextPlace]:
    """Where the texts of a file are, in its order: keys, values, items, names; arrays of bytes, too."""
    header = _Header(data, len(data))
    texts = header.stream.texts = list[TextPlace]()
    header.file()
    return texts


class _Row(NamedTuple):
    """A row of the table of tensors, whose size is PyTorch's."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class _Stream(HeadReader):
    """A file's first bytes, whose texts are counted.

    Args:
        head: the first bytes.
        size: of the whole file.

    Attributes:
        texts: where they are; None if nobody asks.
    """

    def __init__(self, head: memoryview, size: int) -> None:
        super().__init__(head, size)
        self.texts: list[TextPlace] | None = None

    def text_ahead(self, at: int, size: int) -> None:
        """Ask for the memory of a text, and note where it is."""
        if self.texts is not None:
            memory.take(PLACE_BYTES, "places of texts")
            self.texts.append(TextPlace(at, at + size))
        memory.take(WIDEST * size, "texts", place=f"byte {at:,}")

    def check_count(self, count: int, least: int, what: str) -> None:
        """As the base, and that the file is too short."""
        try:
            super().check_count(count, least, what)
        except ArchiveError as error:
            raise ArchiveError(CUT, place=error.place, expected=error.expected, found=error.found) from None

    def cut(self, path: str) -> ArchiveError:
        """The error for a header that goes on after the bytes at hand.

        Args:
            path: to the incomplete field, as construct writes it.
        """
        at, wanted = self.tell(), self.wanted
        place = f"byte {at:,}, {field_path(path)}"
        if at + wanted > self.size:
            left = max(self.size - at, 0)
            return ArchiveError(CUT, place=place, expected=f"{wanted:,} bytes", found=f"{left:,}")
        return CutShortError(place=place, expected=f"{wanted:,} bytes", found="fewer")


class _Header:
    """The header of a file, read once from its beginning to its end.

    Args:
        head: the first bytes of the file.
        size: of the whole file.

    Attributes:
        spans: of each key, where the type of its value begins, and where the value ends.
        stream: the stream that is read.
    """

    def __init__(self, head: memoryview, size: int) -> None:
        self._head, self._size = head, size
        self.spans: dict[str, tuple[int, int]] = {}
        self.stream = _Stream(head, size)
        version = LITTLE_ENDIAN.header.read(head).version
        self._form = BIG_ENDIAN if version and not version & 0xFFFF else LITTLE_ENDIAN

    def file(self) -> TensorFile:
        """All that the header says."""
        version, tensors, pairs = self._form.header.read(self._head)
        if version not in VERSIONS:
            raise ArchiveError(place="byte 4", expected="version 2 or 3", found=f"{version:,}")
        begin = self._form.header.size
        self.stream.seek(begin)
        metadata = self._pairs(pairs)
        end_of_pairs = self.stream.tell()
        alignment = self._alignment(metadata)
        rows = self._table(tensors, alignment)
        end = self.stream.tell()
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
                expected = f"{at + row.size:,} bytes of file"
                raise ArchiveError(CUT, place=place, expected=expected, found=f"{self._size:,}")
            record = DATA_FOLDER + row.name
            records[record] = FileRecord(RecordKind.TENSOR, ((at, at + row.size),))
            described[row.name] = Tensor(row.dtype, row.shape, row_major(row.shape), 0, record)
            stop = at + row.size
        padding = stop - end - sum(row.size for row in rows.values())
        padding += min(-stop % alignment, self._size - stop)
        is_big = self._form is BIG_ENDIAN
        what = f"{counted(len(rows), 'tensor')} in GGUF version {version}{', big-endian' if is_big else ''}"
        return TensorFile(
            what, records, described, metadata, padding=padding, is_big_endian=is_big, version=version
        )

    def _read(self, row: CompiledRow) -> Row:
        """The row at the present position."""
        try:
            return row.read(self.stream)
        except StreamError as short:
            raise self.stream.cut(short.path) from None

    def _pairs(self, count: int) -> dict[str, Value]:
        self.stream.check_count(count, PAIR_WIDTH, "pairs")
        values: dict[str, Value] = {}
        for _ in range(count):
            at = self.stream.tell()
            try:
                key, begin, kind, value = self._read(self._form.pair)
            except ArchiveError as error:
                raise error.within(place=f"byte {self.stream.tell():,}") from None
            memory.take(memory.ROW, "pairs", place=f"byte {at:,}")
            if key in values:
                raise twice("key", key).within(place=f"byte {at:,}")
            self.spans[key] = begin, self.stream.tell()
            if kind in NUMBERS and not isfinite(value):
                value = str(value)
            if kind == TEXT and self.stream.texts is not None:
                self.stream.texts[-1] = self.stream.texts[-1]._replace(is_value=True)
            values[key] = value
        return values

    def _alignment(self, metadata: dict[str, Value]) -> int:
        alignment = metadata.get(ALIGNMENT, DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise ArchiveError(place=ALIGNMENT, expected="a power of two", found=shown(alignment))
        return alignment

    # The table of tensors

    def _table(self, count: int, alignment: int) -> dict[str, _Row]:
        self.stream.check_count(count, TENSOR_WIDTH, "tensors")
        rows: dict[str, _Row] = {}
        expected = 0
        for _ in range(count):
            at = self.stream.tell()
            try:
                row = self._row(expected)
            except ArchiveError as error:
                if error.place is None:  # of something after the name
                    name = parse(self._form.text, self._head, at)
                    raise error.within(place=f"tensor {shown(name)}") from None
                raise
            if row.name in rows:
                raise twice("tensor", row.name).within(place=f"byte {at:,}")
            expected = -(-(row.offset + row.size) // alignment) * alignment
            rows[row.name] = row
        return rows

    def _row(self, expected: int) -> _Row:
        """The row at the present position, of a tensor at this offset."""
        name, _, sizes, kind, offset = self._read(self._form.tensor_info)
        take_tensor(name)
        check_shape(sizes)
        dtype = DTYPES.get(kind)
        if dtype is None:
            raise ArchiveError(expected="a known type of elements", found=f"{kind:,}")
        block, _ = BLOCKS.get(dtype, (1, 0))
        if (sizes[0] if sizes else 1) % block:
            raise ArchiveError(
                expected=f"rows of blocks of {block} elements for {dtype}", found=shown([*sizes])
            )
        if offset != expected:
            raise ArchiveError(expected=f"offset {expected:,}", found=f"{offset:,}")
        size = bytes_of(dtype, prod(sizes)) or 0
        return _Row(name, dtype, tuple(reversed(sizes)), offset, size)
