"""ONNX: a graph of operators with its weights, as one message of protobuf.

Its messages are declared in ``onnx_messages``. Fields that are not named here are skipped.

A tensor's elements are in one of these places, little-endian, the last dimension the fastest:

- ``raw_data``. Elements of less than a byte fill bytes without gaps, the first in the lowest bits.
- ``float_data`` and ``double_data``: numbers of 4 and 8 bytes; for complex ones, both parts.
- ``int32_data``, ``int64_data``, ``uint64_data``: integers in variable form. An int32 is an element of any
  type of at most 32 bits, as an integer with its bits; or a byte of 2-bit or 4-bit elements.
- a file beside the model: ``data_location`` is 1, and ``external_data`` has the keys ``location`` (a path
  below the model's folder, with slashes), ``offset`` and ``length``.
- ``string_data``: texts.

Tensors are named by paths: initializers of the graph by their names; tensors of attributes
``NODE.ATTRIBUTE``, in lists ``NODE.ATTRIBUTE.0``; initializers of graphs in attributes
``NODE.ATTRIBUTE.NAME``. A node without a name is named after its first output. The indices of a sparse tensor
are ``NAME.indices``. Those of a function are prefixed with ``FUNCTION.``, those for training with
``training.0.``.

What is checked: every tensor has as many bytes as its shape and type say; no two initializers of a graph have
the same name; fields that may occur once do not occur twice; paths to other files stay below the model's
folder. Integers in variable form are counted when their tensor is read.

Source: ``onnx/onnx.proto`` of onnx 1.23 (IR version 14).
"""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, counted, shown
from archive.base.strings import decoded
from archive.formats.record_kinds import DATA_FOLDER, RecordKind
from archive.formats.schema.protobuf import FIXED32, FIXED64, LENGTH, VARINT, MessageReader, signed
from archive.formats.schema.varints import MOST_BYTES
from archive.formats.tensor_files.described import (
    External,
    FileRecord,
    TensorFile,
    header_around,
    take_tensor,
    twice,
)
from archive.formats.tensor_files.onnx_messages import (
    ATTRIBUTE,
    ENTRY,
    FUNCTION,
    GRAPH,
    MODEL,
    NODE,
    OPERATOR_SET_ID,
    SPARSE_TENSOR,
    TENSOR,
    TRAINING_INFO,
)
from archive.formats.tensors.dtypes import BLOCKS, WIDTHS, bytes_of
from archive.formats.tensors.tensor import (
    NamedTensors,
    Tensor,
    check_dimensions,
    check_shape,
    path_below,
    row_major,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.schema.protobuf import Field, Message
    from archive.formats.tensor_files.described import Value
    from archive.io.ranged import Bytes

GRAPH_RECORD = "graph"
"""The record of everything other than elements."""
DEPTH = 32
"""Most graphs inside one another; protobuf's own readers go no further, since each is three messages deep."""
STRING = "string"
EXTERNAL = 1
"""``DataLocation`` of elements in another file."""
SIX = 6
"""Bits of a float6, each of which is stored as an int32."""
HALF = 2
"""Bytes of the widest elements that are not stored as int32."""
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: STRING,
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
"""The dtype of each number of ``TensorProto.DataType``."""
TEXTS_OF_MODEL = {"producer_name", "producer_version", "domain", "doc_string"}
NUMBERS_OF_MODEL = {"ir_version", "model_version"}
ONCE = TEXTS_OF_MODEL | NUMBERS_OF_MODEL | {"graph"}
TENSORS = {"t", "tensors"}
SPARSE = {"sparse_tensor", "sparse_tensors"}
GRAPHS = {"g", "graphs"}
LISTS = {"tensors", "graphs", "sparse_tensors"}
INSIDE = TENSORS | SPARSE | GRAPHS
"""Fields of attributes that hold tensors."""
DATA_FIELDS: dict[str, set[str]] = {
    "float_data": {"float32", "complex64"},
    "string_data": {STRING},
    "int64_data": {"int64"},
    "double_data": {"float64", "complex128"},
    "uint64_data": {"uint32", "uint64"},
    "int32_data": {"int32", *BLOCKS} | {dtype for dtype, width in WIDTHS.items() if width <= HALF},
    "raw_data": {dtype for dtype in DTYPES.values() if dtype != STRING},
}
"""The dtypes of each field with elements."""
INTEGERS = {"int32_data", "int64_data", "uint64_data"}
ALONE: dict[str, int] = {
    **dict.fromkeys(INTEGERS, VARINT),
    "float_data": FIXED32,
    "double_data": FIXED64,
}
"""The wire type of elements that have a field each; most writers pack them into one."""
LONGEST_TEXT = 1 << 20
"""Most bytes of a text; longer metadata is cut to its first bytes, followed by an ellipsis."""
NOT_IN_PATHS = set("\\:\0")
"""Characters that change the meaning of a path on some machine."""
DIGITS = 19


def read_onnx(data: Bytes) -> TensorFile:
    """Read the message of a file.

    Args:
        data: the file; elements of a remote one are skipped.

    Returns:
        Records: ``data/NAME`` for each tensor whose elements are in the file, ``graph`` for everything else.
        Tensors in other files are in ``external``.
    """
    return _Model(data).file()


class _Model:
    """A model, read once from beginning to end."""

    def __init__(self, data: Bytes) -> None:
        self._message, self._size = MessageReader(data), len(data)
        self._tensors = NamedTensors()
        self._records: dict[str, FileRecord] = {}
        self._external: dict[str, External] = {}
        self._metadata: dict[str, Value] = {}
        self._nodes = 0

    def file(self) -> TensorFile:
        """All that the model says."""
        seen, opsets, trainings = set[str](), list[str](), 0
        for field in self._message.fields(MODEL, 0, self._size):
            name = field.name
            if name in ONCE and name in seen:
                raise twice("field", name)
            seen.add(name)
            if name in TEXTS_OF_MODEL:
                self._metadata[name] = self._text(field, is_cut=True)
            elif name in NUMBERS_OF_MODEL:
                self._metadata[name] = _number(field)
            elif name == "graph":
                self._graph(field, "", 0)
            elif name == "opset_import":
                domain, version = self._opset(field)
                opsets.append(f"{domain} {version}".lstrip())
            elif name == "metadata_props":
                key, value = self._entry(field)
                self._metadata[f"metadata_props.{key}"] = value
            elif name == "training_info":
                self._training(field, f"training.{trainings}")
                trainings += 1
            elif name == "functions":
                self._function(field)
        if "graph" not in seen:
            raise ArchiveError(expected="a graph", found="none")
        if opsets:
            self._metadata["opset_import"] = ", ".join(opsets)
        around = header_around(
            self._size, (span for record in self._records.values() for span in record.spans)
        )
        records = {GRAPH_RECORD: FileRecord(RecordKind.GRAPH, around), **self._records}
        what = f"an ONNX model of {counted(self._nodes, 'node')} and {counted(len(self._tensors), 'tensor')}"
        return TensorFile(what, records, self._tensors, self._metadata, self._external)

    # Graphs

    def _graph(self, graph: Field, path: str, depth: int) -> None:
        if depth > DEPTH:
            place = f"byte {graph.start:,}"
            raise ArchiveError(place=place, expected=f"at most {DEPTH} graphs", found="more inside")
        names = set[str]()
        for field in self._fields(graph, GRAPH):
            if field.name == "node":
                self._nodes += not path
                self._node(field, path, depth)
            elif field.name in {"name", "doc_string"} and not path:
                self._metadata[f"graph.{field.name}"] = self._text(field, is_cut=True)
            elif field.name in {"initializer", "sparse_initializer"}:
                take = self._tensor if field.name == "initializer" else self._sparse
                name = take(field, path)
                if name in names:
                    raise twice("initializer", name).within(place=f"byte {field.start:,}")
                names.add(name)

    def _training(self, training: Field, path: str) -> None:
        for field in self._fields(training, TRAINING_INFO):
            if field.name in {"initialization", "algorithm"}:
                self._graph(field, f"{path}.{field.name}", 1)

    def _function(self, function: Field) -> None:
        names = (self._text_in(function, FUNCTION, name) for name in ("domain", "name"))
        path = path_below(*names)
        for field in self._fields(function, FUNCTION):
            if field.name == "node":
                self._node(field, path, 1)

    def _node(self, node: Field, path: str, depth: int) -> None:
        """Look for tensors and graphs in the attributes of a node."""
        label = None
        for field in self._fields(node, NODE):
            if field.name != "attribute":
                continue
            places = Counter[str]()
            for part in self._fields(field, ATTRIBUTE):
                if part.name not in INSIDE:
                    continue
                if label is None:
                    names = (self._text_in(node, NODE, one) for one in ("name", "output", "op_type"))
                    label = next(filter(None, names), "")
                name = path_below(label, self._text_in(field, ATTRIBUTE, "name"))
                if part.name in LISTS:
                    name = path_below(name, str(places[part.name]))
                    places[part.name] += 1
                whole = path_below(path, name)
                if part.name in TENSORS:
                    self._tensor(part, whole, is_named=False)
                elif part.name in SPARSE:
                    self._sparse(part, whole, is_named=False)
                else:
                    self._graph(part, whole, depth + 1)

    # Tensors

    def _sparse(self, sparse: Field, path: str, *, is_named: bool = True) -> str:
        """Take the two tensors of a sparse one; return the name of its values."""
        parts = {field.name: field for field in self._fields(sparse, SPARSE_TENSOR)}
        if not parts.keys() >= {"values", "indices"}:
            place = f"byte {sparse.start:,}"
            raise ArchiveError(
                place=place, expected="values and indices of a sparse tensor", found="not both"
            )
        name = self._tensor(parts["values"], path, is_named=is_named)
        inner = path_below(path, name) if is_named else path
        self._tensor(parts["indices"], path_below(inner, "indices"), is_named=False)
        return name

    def _tensor(self, tensor: Field, path: str, *, is_named: bool = True) -> str:
        """Take a tensor; return its own name, which is a part of its path if ``is_named``."""
        described = _Described()
        for field in self._fields(tensor, TENSOR):
            if field.name == "name":
                described.name = self._text(field)
            elif field.name == "external_data":
                key, value = self._entry(field)
                described.external[key] = value
            else:
                described.take(field, self._message)
        name = described.name
        where = path_below(path, name) if is_named else path
        try:
            self._add(where, described)
        except ArchiveError as error:
            raise error.within(place=f"tensor {shown(where)}") from None
        return name

    def _add(self, path: str, described: _Described) -> None:
        take_tensor(path)
        dtype, shape = described.dtype(), described.shape()
        name, record = self._tensors.free(path), described.record(dtype, prod(shape))
        place = ""
        if record is not None:
            place = DATA_FOLDER + name
            self._records[place] = record
        elif described.location:
            self._external[name] = described.outside(bytes_of(dtype, prod(shape)) or 0)
        self._tensors[name] = Tensor(dtype, shape, row_major(shape), 0, place)

    # Fields

    def _fields(self, field: Field, message: Message) -> Iterator[Field]:
        """The fields of a message inside."""
        if field.wire != LENGTH:
            place = f"byte {field.start:,}"
            raise ArchiveError(place=place, expected="a message", found=f"a field of wire type {field.wire}")
        return self._message.fields(message, field.start, field.stop)

    def _text(self, field: Field, *, is_cut: bool = False) -> str:
        """A text; only the beginning of a long one, if ``is_cut``."""
        size = field.stop - field.start
        if is_cut and size > LONGEST_TEXT:
            return self._text(field._replace(stop=field.start + LONGEST_TEXT)) + "…"
        if field.wire != LENGTH or size > LONGEST_TEXT:
            expected, found = f"a text of at most {LONGEST_TEXT:,} bytes", f"{size:,}"
            raise ArchiveError(place=f"byte {field.start:,}", expected=expected, found=found)
        memory.take(memory.TEXT + 4 * size, "texts")
        return decoded(self._message.data(field))

    def _text_in(self, field: Field, message: Message, name: str, *, is_cut: bool = False) -> str:
        """The first text of a name in a message, or ""."""
        parts = (one for one in self._fields(field, message) if one.name == name)
        return next((self._text(one, is_cut=is_cut) for one in parts), "")

    def _entry(self, field: Field) -> tuple[str, str]:
        """Key and value of a StringStringEntryProto."""
        return self._text_in(field, ENTRY, "key"), self._text_in(field, ENTRY, "value", is_cut=True)

    def _opset(self, field: Field) -> tuple[str, int]:
        versions = [_number(one) for one in self._fields(field, OPERATOR_SET_ID) if one.name == "version"]
        return self._text_in(field, OPERATOR_SET_ID, "domain"), versions[0] if versions else 0


class _Described:
    """What the fields of a tensor say.

    Attributes:
        external: where its elements are, if not in the model.
    """

    def __init__(self) -> None:
        self.name = ""
        self.external: dict[str, str] = {}
        self._dims: list[int] = []
        self._numbers: dict[str, int] = {}
        self._data: dict[str, list[Field]] = {}

    def take(self, field: Field, message: MessageReader) -> None:
        """Take a field that isn't a text."""
        if field.name == "dims":
            packed = message.integers(field.start, field.stop) if field.wire == LENGTH else (field.value,)
            for size in packed:
                self._dims.append(signed(size))
                check_dimensions(len(self._dims))
        elif field.name in {"data_type", "segment", "data_location"}:
            self._numbers[field.name] = field.value
        elif field.name in DATA_FIELDS:
            if field.wire not in {LENGTH, ALONE.get(field.name)}:
                found = f"a field of wire type {field.wire}"
                raise ArchiveError(place=f"byte {field.start:,}", expected="elements", found=found)
            memory.take(memory.TEXT, "elements of tensors")
            self._data.setdefault(field.name, []).append(field)

    @property
    def location(self) -> bool:
        """Whether the elements are in another file."""
        return self._numbers.get("data_location") == EXTERNAL

    def dtype(self) -> str:
        """The dtype of its elements."""
        number = self._numbers.get("data_type", 0)
        if number not in DTYPES:
            raise ArchiveError(expected="a known type of elements", found=f"{number}")
        if "segment" in self._numbers:
            raise ArchiveError("a segment of a tensor is not read: no writer of them is known")
        return DTYPES[number]

    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        if min(self._dims, default=0) < 0:
            raise ArchiveError(expected="sizes from 0 on", found=f"{min(self._dims)}")
        check_shape(tuple(self._dims))
        return tuple(self._dims)

    def record(self, dtype: str, count: int) -> FileRecord | None:
        """Where its elements are in the model; None if they are in another file."""
        kept = [name for name in self._data if self._stored(name)]
        if self.location and kept:
            raise ArchiveError(expected="elements in one place", found="some here and in another file")
        if self.location:
            return None
        if not (kept or count):
            return FileRecord(RecordKind.TENSOR, ())
        if len(kept) != 1:
            raise ArchiveError(expected=f"{count:,} elements in one field", found=f"{len(kept)} with some")
        name = kept[0]
        fields = self._data[name]
        if dtype not in DATA_FIELDS[name]:
            raise ArchiveError(expected="a field for its type", found=f"{dtype} in field {fields[0].number}")
        spans = tuple((field.start, field.stop) for field in fields)
        if name in INTEGERS:
            return _integers(dtype, count, spans)
        size = sum(stop - start for start, stop in spans)
        if name == "raw_data" and len(fields) > 1:
            raise twice("field", name)
        expected = count if name == "string_data" else bytes_of(dtype, count)
        found = len(fields) if name == "string_data" else size
        if expected != found:
            of = "texts" if name == "string_data" else "bytes"
            raise ArchiveError(expected=f"{expected:,} {of} of elements", found=f"{found:,}")
        return FileRecord(RecordKind.TENSOR, spans)

    def _stored(self, name: str) -> bool:
        """Whether a field has elements: a text may be empty."""
        return name == "string_data" or any(field.stop > field.start for field in self._data[name])

    def outside(self, size: int) -> External:
        """Where its elements are in another file."""
        file = self.external.get("location", "")
        path = PurePosixPath(file)
        if not file or path.is_absolute() or ".." in path.parts or set(file) & NOT_IN_PATHS:
            expected = "a path below the model's folder"
            raise ArchiveError(expected=expected, found=shown(file))
        start, length = (self._placed(key, default) for key, default in (("offset", 0), ("length", size)))
        if length != size:
            raise ArchiveError(expected=f"{size:,} bytes of elements", found=f"{length:,}")
        return External(str(path), start, size)

    def _placed(self, key: str, default: int) -> int:
        text = self.external.get(key) or str(default)
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            raise ArchiveError(expected=f"a number for {key}", found=shown(text))
        return int(text)


def _integers(dtype: str, count: int, spans: tuple[tuple[int, int], ...]) -> FileRecord:
    """The record of elements that are integers in variable form, of at most ten bytes each."""
    bits = SIX if dtype.startswith("float6") else 0
    is_packed = dtype in BLOCKS and not bits
    width, expected = WIDTHS.get(dtype, 1), (bytes_of(dtype, count) or 0) if is_packed else count
    size = sum(stop - start for start, stop in spans)
    if not expected <= size <= MOST_BYTES * expected:
        found = f"{size:,} bytes"
        raise ArchiveError(expected=f"{expected:,} integers in variable form", found=found)
    return FileRecord(RecordKind.TENSOR, spans, width, expected, bits)


def _number(field: Field) -> int:
    if field.wire != VARINT:
        place = f"byte {field.start:,}"
        raise ArchiveError(place=place, expected="an integer", found=f"a field of wire type {field.wire}")
    return signed(field.value)
