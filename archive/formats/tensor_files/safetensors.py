"""safetensors: a JSON header, then the elements of all tensors.

A file is the length of the header (:data:`LENGTH`), at most 100 MB; the header, a JSON object in UTF-8 that
begins with ``{`` and may end with blanks; and the data.

The header has a member for each tensor, and may have one for metadata, whose values are texts::

    {"NAME": {"dtype": "F32", "shape": [3, 2], "data_offsets": [BEGIN, END]}, …,
     "__metadata__": {"KEY": "VALUE", …}}

Offsets count from the beginning of the data, and may be at any byte. The last dimension is the fastest,
numbers are little-endian. Elements of 4 and 6 bits fill bytes without gaps; ``shape`` counts single elements.

What is checked: tensors cover the data without holes or overlaps, up to the end of the file; each has as many
bytes as its shape and dtype say; no key occurs twice; no text has a lone surrogate.

Source: ``safetensors/src/tensor.rs`` of safetensors 0.8 and its README. Like that package, this reader skips
members other than these three and takes ``null`` for no metadata; but that package takes the last of two
equal keys.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError, counted, one_line, shown
from archive.base.json_text import json_cost, json_errors, without_collecting, words
from archive.formats.record_kinds import DATA_FOLDER, RecordKind
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Int64ul, Struct
from archive.formats.tensor_files.described import HEADER, FileRecord, TensorFile, take_tensor, twice
from archive.formats.tensors.dtypes import bytes_of
from archive.formats.tensors.tensor import MOST_ELEMENTS, Tensor, check_shape, row_major

if TYPE_CHECKING:
    from archive.io.ranged import Bytes

LONGEST_HEADER = 100_000_000
"""Most bytes of the header."""
LENGTH = Layout("safetensors length" / Struct("length" / Int64ul * "bytes of the JSON header, which follows"))
ALIGNMENT = 8
"""Alignment of the data, after headers that are written here."""
METADATA = "__metadata__"
MEMBERS = {"dtype", "shape", "data_offsets"}
HALVES = re.compile("[\ud800-\udfff]")
"""Lone surrogates: JSON has escapes for them, but no encoding of texts has them."""
DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
    "F4": "float4_e2m1fn",
}
"""The dtype of each name."""


def read_safetensors(data: Bytes) -> TensorFile:
    """Read the header of a file.

    Args:
        data: the file; only the header of a remote one is fetched.

    Returns:
        The file's tensors in the order of the header. Records: ``header``, with its length, and a
        ``data/NAME`` for each tensor.
    """
    start, header = header_of(data)
    metadata = metadata_of(header)
    records = {HEADER: FileRecord(RecordKind.HEADER, ((0, start),))}
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        take_tensor(name)
        try:
            dtype, shape, begin, end = _described(entry)
        except ArchiveError as error:
            raise error.within(record=HEADER, place=f"tensor {shown(name)}") from None
        record = DATA_FOLDER + name
        tensors[name] = Tensor(dtype, shape, row_major(shape), 0, record)
        records[record] = FileRecord(RecordKind.TENSOR, ((start + begin, start + end),))
        spans.append((begin, end, name))
    _check_cover(spans, len(data) - start)
    return TensorFile(
        f"{counted(len(tensors), 'tensor')} in the safetensors format", records, tensors, metadata
    )


def build_header(tensors: dict[str, Any], metadata: dict[str, str]) -> bytes:
    """A header with its length, padded with blanks so that the data begin at a multiple of 8, as usual.

    Args:
        tensors: the members of a header, except metadata.
        metadata: left out if there is none.
    """
    header = ({METADATA: metadata} if metadata else {}) | tensors
    written = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    text = written.encode()
    text += b" " * (-len(text) % ALIGNMENT)
    if len(text) > LONGEST_HEADER:
        raise ArchiveError(expected=f"a header of at most {LONGEST_HEADER:,} bytes", found=f"{len(text):,}")
    return LENGTH.build(length=len(text)) + text


def header_of(data: Bytes) -> tuple[int, dict[str, Any]]:
    """Where the data begin, and the header's value."""
    (length,) = LENGTH.read(data)
    most = min(LONGEST_HEADER, len(data) - LENGTH.size)
    if length > most:
        raise ArchiveError(
            place="byte 0", expected=f"a header of at most {most:,} bytes", found=f"{length:,}"
        )
    start = LENGTH.size
    text = data[start : start + length]
    if bytes(text[:1]) != b"{":
        raise ArchiveError(record=HEADER, place=f"byte {start}", expected="{", found=shown(bytes(text[:1])))
    with memory.lent(json_cost(text), "JSON values", record=HEADER):
        try:
            with json_errors("character"), without_collecting():
                return start + length, json.loads(str(text, "utf-8"), object_pairs_hook=_members)
        except ArchiveError as error:
            raise error.within(record=HEADER) from None


def metadata_of(header: dict[str, Any]) -> dict[str, str]:
    """Remove and return the metadata of a header's value."""
    entry = header.pop(METADATA, None)
    if entry is None:
        return {}
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise ArchiveError(record=HEADER, place=METADATA, expected="an object of texts", found=shown(entry))
    return entry


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; refuse duplicates, and texts with lone surrogates."""
    for text in chain.from_iterable(pairs):
        if isinstance(text, str) and HALVES.search(text):
            raise ArchiveError(expected="whole characters", found=shown(text))
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise twice("key", next(key for key, count in counts.items() if count > 1))
    return members


def _described(entry: Any) -> tuple[str, tuple[int, ...], int, int]:  # noqa: ANN401 (any JSON)
    """Dtype, shape, begin and end of a tensor."""
    if not isinstance(entry, dict) or not entry.keys() >= MEMBERS:
        found = (
            f"{', '.join(map(one_line, entry))[:60] or 'none'}" if isinstance(entry, dict) else words(entry)
        )
        raise ArchiveError(expected="an object of dtype, shape and data_offsets", found=found)
    named = entry["dtype"]
    dtype = DTYPES.get(named) if isinstance(named, str) else None
    if dtype is None:
        raise ArchiveError(expected="a dtype", found=shown(named))
    shape = _numbers(entry["shape"], "shape")
    check_shape(shape)
    offsets = _numbers(entry["data_offsets"], "data_offsets")
    if len(offsets) != 2 or offsets[0] > offsets[1]:  # noqa: PLR2004 (begin and end)
        raise ArchiveError(expected="offsets of a beginning and an end", found=shown(list(offsets)))
    size = bytes_of(dtype, prod(shape), whole=True)
    if size != offsets[1] - offsets[0]:
        expected = "a whole number of bytes" if size is None else f"{size:,} bytes"
        raise ArchiveError(
            expected=f"{expected} for {named} of shape {shown(shape)}", found=f"{offsets[1] - offsets[0]:,}"
        )
    return dtype, shape, *offsets


def _numbers(entry: Any, what: str) -> tuple[int, ...]:  # noqa: ANN401 (any JSON)
    if not isinstance(entry, list) or not all(
        type(number) is int and 0 <= number <= MOST_ELEMENTS for number in entry
    ):
        raise ArchiveError(expected=f"{what} of numbers from 0 on", found=shown(entry))
    return tuple(entry)


def _check_cover(spans: list[tuple[int, int, str]], size: int) -> None:
    """Refuse tensors that do not cover the data, or overlap."""
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            problem = "a hole" if begin > at else "an overlap"
            place = f"tensor {shown(name)}"
            raise ArchiveError(
                problem, record=HEADER, place=place, expected=f"offset {at:,}", found=f"{begin:,}"
            )
        at = end
    if at != size:
        raise ArchiveError(expected=f"{at:,} bytes of data after the header", found=f"{size:,}")
