"""The messages of ONNX: the numbers of the fields that are looked into, and which fields are messages.

Source: ``onnx/onnx.proto`` of onnx 1.23 (IR version 14).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Model(IntEnum):
    """Fields of ModelProto."""

    IR_VERSION = 1
    PRODUCER_NAME = 2
    PRODUCER_VERSION = 3
    DOMAIN = 4
    MODEL_VERSION = 5
    DOC_STRING = 6
    GRAPH = 7
    OPSET_IMPORT = 8
    """Several."""
    METADATA_PROPS = 14
    """Several."""
    TRAINING_INFO = 20
    """Several."""
    FUNCTIONS = 25
    """Several."""


class Graph(IntEnum):
    """Fields of GraphProto."""

    NODE = 1
    NAME = 2
    INITIALIZER = 5
    DOC_STRING = 10
    INPUT = 11
    OUTPUT = 12
    VALUE_INFO = 13
    QUANTIZATION_ANNOTATION = 14
    SPARSE_INITIALIZER = 15
    METADATA_PROPS = 16


class Node(IntEnum):
    """Fields of NodeProto."""

    OUTPUT = 2
    NAME = 3
    OP_TYPE = 4
    ATTRIBUTE = 5
    METADATA_PROPS = 9


class Attribute(IntEnum):
    """Fields of AttributeProto."""

    NAME = 1
    T = 5
    """A tensor."""
    G = 6
    """A graph."""
    FLOATS = 7
    INTS = 8
    TENSORS = 10
    GRAPHS = 11
    TP = 14
    TYPE_PROTOS = 15
    SPARSE_TENSOR = 22
    SPARSE_TENSORS = 23


class Function(IntEnum):
    """Fields of FunctionProto."""

    NAME = 1
    NODE = 7
    OPSET_IMPORT = 9
    DOMAIN = 10
    ATTRIBUTE_PROTO = 11
    VALUE_INFO = 12
    METADATA_PROPS = 14


class Training(IntEnum):
    """Fields of TrainingInfoProto: two graphs, and entries for each."""

    INITIALIZATION = 1
    ALGORITHM = 2
    INITIALIZATION_BINDING = 3
    UPDATE_BINDING = 4


class Sparse(IntEnum):
    """Fields of SparseTensorProto: two tensors, and numbers."""

    VALUES = 1
    INDICES = 2
    DIMS = 3


class TensorField(IntEnum):
    """Fields of TensorProto."""

    DIMS = 1
    DATA_TYPE = 2
    SEGMENT = 3
    FLOAT_DATA = 4
    INT32_DATA = 5
    STRING_DATA = 6
    INT64_DATA = 7
    NAME = 8
    RAW_DATA = 9
    DOUBLE_DATA = 10
    UINT64_DATA = 11
    EXTERNAL_DATA = 13
    DATA_LOCATION = 14
    METADATA_PROPS = 16


class Opset(IntEnum):
    """Fields of OperatorSetIdProto."""

    DOMAIN = 1
    VERSION = 2


class Entry(IntEnum):
    """Fields of StringStringEntryProto."""

    KEY = 1
    VALUE = 2


class Kind(NamedTuple):
    """A kind of messages.

    Attributes:
        inner: the kind of message in a field, by the field's number.
        numbers: fields of packed numbers and of elements.
    """

    inner: Mapping[int, str]
    numbers: frozenset[int] = frozenset()


ENTRY = "entry"
MESSAGES = {
    "model": Kind(
        {
            Model.GRAPH: "graph",
            Model.OPSET_IMPORT: "opset",
            Model.METADATA_PROPS: ENTRY,
            Model.TRAINING_INFO: "training",
            Model.FUNCTIONS: "function",
        }
    ),
    "graph": Kind(
        {
            Graph.NODE: "node",
            Graph.INITIALIZER: "tensor",
            Graph.QUANTIZATION_ANNOTATION: "annotation",
            Graph.SPARSE_INITIALIZER: "sparse tensor",
            Graph.METADATA_PROPS: ENTRY,
            **dict.fromkeys((Graph.INPUT, Graph.OUTPUT, Graph.VALUE_INFO), "value"),
        }
    ),
    "node": Kind({Node.ATTRIBUTE: "attribute", Node.METADATA_PROPS: ENTRY}),
    "attribute": Kind(
        {
            **dict.fromkeys((Attribute.T, Attribute.TENSORS), "tensor"),
            **dict.fromkeys((Attribute.G, Attribute.GRAPHS), "graph"),
            **dict.fromkeys((Attribute.TP, Attribute.TYPE_PROTOS), "type"),
            **dict.fromkeys((Attribute.SPARSE_TENSOR, Attribute.SPARSE_TENSORS), "sparse tensor"),
        },
        frozenset({Attribute.FLOATS, Attribute.INTS}),
    ),
    "tensor": Kind(
        {TensorField.EXTERNAL_DATA: ENTRY, TensorField.METADATA_PROPS: ENTRY},
        frozenset(
            {
                TensorField.DIMS,
                TensorField.SEGMENT,
                TensorField.FLOAT_DATA,
                TensorField.INT32_DATA,
                TensorField.INT64_DATA,
                TensorField.RAW_DATA,
                TensorField.DOUBLE_DATA,
                TensorField.UINT64_DATA,
            }
        ),
    ),
    "sparse tensor": Kind({Sparse.VALUES: "tensor", Sparse.INDICES: "tensor"}, frozenset({Sparse.DIMS})),
    "value": Kind({2: "type", 4: ENTRY}),
    "type": Kind({1: "tensor type", 8: "tensor type", 4: "item", 9: "item", 5: "map"}),
    "tensor type": Kind({2: "shape"}),
    "shape": Kind({1: "dimension"}),
    "dimension": Kind({}),
    "item": Kind({1: "type"}),
    "map": Kind({2: "type"}),
    "annotation": Kind({2: ENTRY}),
    "training": Kind(
        {
            **dict.fromkeys((Training.INITIALIZATION, Training.ALGORITHM), "graph"),
            **dict.fromkeys((Training.INITIALIZATION_BINDING, Training.UPDATE_BINDING), ENTRY),
        }
    ),
    "function": Kind(
        {
            Function.NODE: "node",
            Function.OPSET_IMPORT: "opset",
            Function.ATTRIBUTE_PROTO: "attribute",
            Function.VALUE_INFO: "value",
            Function.METADATA_PROPS: ENTRY,
        }
    ),
    "opset": Kind({}),
    ENTRY: Kind({}),
}
"""The messages of ONNX that have texts or others in them, by their names here."""
