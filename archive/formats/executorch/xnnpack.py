"""What XNNPACK's part of a ``.pte`` says of its nodes: a header, a FlatBuffer ``XN01``, and constants.

    header = U32 0, "XH00", length U16, offset U32 and size U32 of the FlatBuffer,
             offset U32 and size U64 of the constants

Each node that XNNPACK runs has its kind and, where ExecuTorch gave it one, the debug handle of the node that
it was made from. Nodes that XNNPACK's passes add (transpositions) have the handle 65535, which is none's.
Source: ``backends/xnnpack/serialization/schema.fbs`` and ``xnnpack_graph_serialize.py`` of ExecuTorch 1.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from construct import Int8ul, Int16sl, Int32ul

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.formats.etrecord import UNSET
from archive.formats.schema import words
from archive.formats.schema.fixed import Layout
from archive.formats.schema.flatbuffer import Table, Text, Union, Vector, identified_at
from archive.formats.schema.flatbuffer_columns import FlatBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKEND = "XnnpackBackend"
IDENTIFIERS = b"XN00", b"XN01"
MAGIC_AT, MAGIC = 4, b"XH00"
NO_HANDLES = {UNSET, 65535}
HEADER = Layout(
    "XNNPACK header"
    / words.Struct(
        "magic" / words.Const(bytes(MAGIC_AT) + MAGIC) * "after four bytes that XNNPACK reads as a size of 0",
        "length" / words.Int16ul * "of this header",
        "flatbuffer_offset" / words.Int32ul,
        "flatbuffer_size" / words.Int32ul,
        "constants_offset" / words.Int32ul,
        "constants_size" / words.Int64ul,
    )
)
KINDS = (
    *("Add", "FullyConnected", "Softmax", "Sigmoid", "StaticTranspose", "Clamp", "Conv2d", "Div"),
    *("StaticResizeBilinear2D", "StaticConstantPad", "AvgPooling2d", "Minimum", "DepthwiseConv2d"),
    *("MaxPooling2d", "Multiply", "Subtract", "Floor", "Convert", "GlobalAvgPooling2d", "StaticReshape"),
    *("ArgMaxPooling2d", "SquareRoot", "Ceiling", "Hardswish", "LeakyReLU", "Maximum", "Negate", "Square"),
    *("ELU", "Abs", "PReLU", "Concatenate2", "Concatenate3", "Concatenate4", "StaticSlice"),
    *("ScaledDotProductAttention", "BatchMatrixMultiply", "Concatenate5", "ConvTranspose2d"),
    *("ReciprocalSquareRoot", "Log", "Gelu", "Tanh", "Exp", "Sin", "Copy", "Cos"),
)
"""The kinds of nodes, in the order of the schema's union."""
CHANNEL_TYPES, RUNNING_TYPES = {6, 7, 8, 10}, {9, 11}
"""Types of values that are quantised by channel or block, and while they run."""
TENSOR = Table("XNNTensorValue", "datatype" / Int16sl * "of its elements")
QUANTISED = Table("XNNQuantizedTensorValue", "tensor_value" / TENSOR)
VALUE = Table(
    "XValue",
    "xvalue_union_type" / Int8ul * "which table `xvalue_union` is",
    "xvalue_union" / Union(TENSOR, QUANTISED),
)
NODE = Table(
    "XNode",
    "xnode_union_type" / Int8ul * "which table `xnode_union` is",
    "xnode_union" / Union(*(Table(f"XNN{kind}") for kind in KINDS)),
    "debug_handle" / Int32ul * "of the node that it was made from; 65535 for none",
)
GRAPH = Table(
    "XNNGraph",
    "version" / Text,
    "xnodes" / Vector(NODE) * "in the order in which they run",
    "xvalues" / Vector(VALUE),
)


class XnnpackNode(NamedTuple):
    """A node of XNNPACK's.

    Attributes:
        kind: ``FullyConnected``.
        handle: the debug handle of the node that it was made from; None if it has none.
    """

    kind: str
    handle: int | None


class Quantised(NamedTuple):
    """In which ways values are quantised.

    Attributes:
        at_all: whether some value is.
        by_channel: whether one is by channel or block.
        running: whether one is while the graph runs.
    """

    at_all: bool
    by_channel: bool
    running: bool


class XnnpackGraph(NamedTuple):
    """What XNNPACK runs for one call.

    Attributes:
        nodes: in their order.
        quantised: its values.
    """

    nodes: Sequence[XnnpackNode]
    quantised: Quantised


def read_graph(blob: memoryview) -> XnnpackGraph | None:
    """Read a part that ExecuTorch made for XNNPACK; None where it has no header, as before 0.2."""
    if blob[MAGIC_AT : MAGIC_AT + len(MAGIC)] != MAGIC:
        return None
    header = HEADER.read(blob, 0)
    start, stop = header.flatbuffer_offset, header.flatbuffer_offset + header.flatbuffer_size
    if stop > len(blob):
        raise ArchiveError("XNNPACK's part is cut short", expected=f"{stop:,} bytes", found=f"{len(blob):,}")
    identifier = next((one for one in IDENTIFIERS if identified_at(blob[start:stop], one) is not None), MAGIC)
    root = FlatBuffer(blob[start:stop], identifier).root(GRAPH)
    _, tables = root.vectors("xnodes")
    memory.take(memory.ROW * len(tables), "nodes of XNNPACK")
    kinds = [""] * len(tables)
    for table, which, _ in tables.union("xnode_union"):
        for number in which.tolist():
            kinds[number] = table.name.removeprefix("XNN")
    handles = tables.numbers("debug_handle").tolist()
    nodes = [
        XnnpackNode(kind, None if handle in NO_HANDLES else handle)
        for kind, handle in zip(kinds, handles, strict=True)
    ]
    _, values = root.vectors("xvalues")
    types = set[int]()
    for table, _, found in values.union("xvalue_union"):
        if table is QUANTISED:
            types |= {*found.tables("tensor_value")[1].numbers("datatype").tolist()}
    ways = Quantised(bool(types), bool(types & CHANNEL_TYPES), bool(types & RUNNING_TYPES))
    return XnnpackGraph(nodes, ways)
