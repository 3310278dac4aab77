"""The messages of ONNX, whose fields have the names and numbers of ``onnx.proto``.

Source: ``onnx/onnx.proto`` of onnx 1.23 (IR version 14).
"""

from __future__ import annotations

from construct import LazyBound

from archive.formats.schema.protobuf import (
    BYTES,
    BYTES_OF_TEXT,
    DOUBLE,
    ENUM,
    FLOAT,
    INT32,
    INT64,
    STRING,
    UINT64,
    Message,
    Numbered,
    Repeated,
)

ENTRY = Message(
    "StringStringEntryProto",
    "key" / Numbered(1, STRING),
    "value" / Numbered(2, STRING),
)
SEGMENT = Message(
    "TensorProto.Segment",
    "begin" / Numbered(1, INT64),
    "end" / Numbered(2, INT64),
)
TENSOR = Message(
    "TensorProto",
    "dims" / Repeated(1, INT64) * "sizes, the last dimension the fastest",
    "data_type" / Numbered(2, INT32) * "TensorProto.DataType",
    "segment" / Numbered(3, SEGMENT) * "which part of a larger tensor this is",
    "float_data" / Repeated(4, FLOAT) * "elements of float32; for complex64, both parts",
    "int32_data" / Repeated(5, INT32) * "elements of at most 32 bits, or a byte of smaller ones",
    "string_data" / Repeated(6, BYTES_OF_TEXT) * "elements that are texts",
    "int64_data" / Repeated(7, INT64),
    "name" / Numbered(8, STRING),
    "raw_data" / Numbered(9, BYTES) * "elements of any type but texts, little-endian",
    "double_data" / Repeated(10, DOUBLE) * "elements of float64; for complex128, both parts",
    "uint64_data" / Repeated(11, UINT64) * "elements of uint32 or uint64",
    "doc_string" / Numbered(12, STRING),
    "external_data" / Repeated(13, ENTRY) * "location, offset, length: where elements are in another file",
    "data_location" / Numbered(14, ENUM) * "0 here, 1 in another file",
    "metadata_props" / Repeated(16, ENTRY),
)
SPARSE_TENSOR = Message(
    "SparseTensorProto",
    "values" / Numbered(1, TENSOR) * "the elements that aren't 0; its name is that of the sparse tensor",
    "indices" / Numbered(2, TENSOR) * "where they are: one number each, or one for each dimension",
    "dims" / Repeated(3, INT64) * "sizes of the dense tensor",
)
DIMENSION = Message(
    "TensorShapeProto.Dimension",
    "dim_value" / Numbered(1, INT64) * "a known size",
    "dim_param" / Numbered(2, STRING) * "or the name of an unknown one",
    "denotation" / Numbered(3, STRING) * "what the dimension stands for, such as DATA_BATCH",
)
SHAPE = Message("TensorShapeProto", "dim" / Repeated(1, DIMENSION))
TENSOR_TYPE = Message(
    "TypeProto.Tensor",
    "elem_type" / Numbered(1, INT32) * "TensorProto.DataType",
    "shape" / Numbered(2, SHAPE),
)
SPARSE_TENSOR_TYPE = Message(
    "TypeProto.SparseTensor",
    "elem_type" / Numbered(1, INT32) * "TensorProto.DataType",
    "shape" / Numbered(2, SHAPE),
)
SEQUENCE_TYPE = Message("TypeProto.Sequence", "elem_type" / Numbered(1, LazyBound(lambda: TYPE)))
OPTIONAL_TYPE = Message("TypeProto.Optional", "elem_type" / Numbered(1, LazyBound(lambda: TYPE)))
MAP_TYPE = Message(
    "TypeProto.Map",
    "key_type" / Numbered(1, INT32) * "TensorProto.DataType of integers or texts",
    "value_type" / Numbered(2, LazyBound(lambda: TYPE)),
)
OPAQUE_TYPE = Message(
    "TypeProto.Opaque",
    "domain" / Numbered(1, STRING),
    "name" / Numbered(2, STRING),
)
TYPE: Message = Message(
    "TypeProto",
    "tensor_type" / Numbered(1, TENSOR_TYPE) * "a value has one of these types",
    "sequence_type" / Numbered(4, SEQUENCE_TYPE),
    "map_type" / Numbered(5, MAP_TYPE),
    "denotation" / Numbered(6, STRING) * "what the value stands for, such as IMAGE",
    "opaque_type" / Numbered(7, OPAQUE_TYPE),
    "sparse_tensor_type" / Numbered(8, SPARSE_TENSOR_TYPE),
    "optional_type" / Numbered(9, OPTIONAL_TYPE),
)
VALUE_INFO = Message(
    "ValueInfoProto",
    "name" / Numbered(1, STRING),
    "type" / Numbered(2, TYPE),
    "doc_string" / Numbered(3, STRING),
    "metadata_props" / Repeated(4, ENTRY),
)
ATTRIBUTE = Message(
    "AttributeProto",
    "name" / Numbered(1, STRING),
    "f" / Numbered(2, FLOAT) * "an attribute has one of these values, or one of the lists",
    "i" / Numbered(3, INT64),
    "s" / Numbered(4, BYTES_OF_TEXT),
    "t" / Numbered(5, TENSOR),
    "g" / Numbered(6, LazyBound(lambda: GRAPH)),
    "floats" / Repeated(7, FLOAT),
    "ints" / Repeated(8, INT64),
    "strings" / Repeated(9, BYTES_OF_TEXT),
    "tensors" / Repeated(10, TENSOR),
    "graphs" / Repeated(11, LazyBound(lambda: GRAPH)),
    "doc_string" / Numbered(13, STRING),
    "tp" / Numbered(14, TYPE),
    "type_protos" / Repeated(15, TYPE),
    "type" / Numbered(20, ENUM) * "which of the values it has: AttributeProto.AttributeType",
    "ref_attr_name" / Numbered(21, STRING) * "in a function: the attribute of its node that has the value",
    "sparse_tensor" / Numbered(22, SPARSE_TENSOR),
    "sparse_tensors" / Repeated(23, SPARSE_TENSOR),
)
SIMPLE_SHARDED_DIM = Message(
    "SimpleShardedDimProto",
    "dim_value" / Numbered(1, INT64) * "a known size",
    "dim_param" / Numbered(2, STRING) * "or the name of an unknown one",
    "num_shards" / Numbered(3, INT64),
)
SHARDED_DIM = Message(
    "ShardedDimProto",
    "axis" / Numbered(1, INT64),
    "simple_sharding" / Repeated(2, SIMPLE_SHARDED_DIM),
)
INT_INT_LIST_ENTRY = Message(
    "IntIntListEntryProto",
    "key" / Numbered(1, INT64),
    "value" / Repeated(2, INT64),
)
SHARDING_SPEC = Message(
    "ShardingSpecProto",
    "tensor_name" / Numbered(1, STRING) * "an input or output of the node",
    "device" / Repeated(2, INT64) * "devices, or groups of them, that have a part",
    "index_to_device_group_map" / Repeated(3, INT_INT_LIST_ENTRY) * "the devices of each group",
    "sharded_dim" / Repeated(4, SHARDED_DIM),
)
NODE_DEVICE_CONFIGURATION = Message(
    "NodeDeviceConfigurationProto",
    "configuration_id" / Numbered(1, STRING) * "the name of a configuration of the model",
    "sharding_spec" / Repeated(2, SHARDING_SPEC),
    "pipeline_stage" / Numbered(3, INT32),
)
NODE = Message(
    "NodeProto",
    "input" / Repeated(1, STRING) * "names of values",
    "output" / Repeated(2, STRING) * "names of values",
    "name" / Numbered(3, STRING) * "may be missing",
    "op_type" / Numbered(4, STRING) * "the operator",
    "attribute" / Repeated(5, ATTRIBUTE),
    "doc_string" / Numbered(6, STRING) * "exporters put the stack of the Python call here",
    "domain" / Numbered(7, STRING) * "of the operator; ai.onnx if it is missing",
    "overload" / Numbered(8, STRING) * "which of several functions with the same name",
    "metadata_props" / Repeated(9, ENTRY),
    "device_configurations" / Repeated(10, NODE_DEVICE_CONFIGURATION),
)
TENSOR_ANNOTATION = Message(
    "TensorAnnotation",
    "tensor_name" / Numbered(1, STRING),
    "quant_parameter_tensor_names" / Repeated(2, ENTRY) * "such as SCALE_TENSOR and the tensor's name",
)
GRAPH: Message = Message(
    "GraphProto",
    "node" / Repeated(1, NODE) * "in an order in which they can be computed",
    "name" / Numbered(2, STRING),
    "initializer" / Repeated(5, TENSOR) * "weights, each with a name of its own",
    "doc_string" / Numbered(10, STRING),
    "input" / Repeated(11, VALUE_INFO),
    "output" / Repeated(12, VALUE_INFO),
    "value_info" / Repeated(13, VALUE_INFO) * "of values in between",
    "quantization_annotation" / Repeated(14, TENSOR_ANNOTATION),
    "sparse_initializer" / Repeated(15, SPARSE_TENSOR),
    "metadata_props" / Repeated(16, ENTRY),
)
TRAINING_INFO = Message(
    "TrainingInfoProto",
    "initialization" / Numbered(1, GRAPH) * "makes the weights' first values",
    "algorithm" / Numbered(2, GRAPH) * "a step of training",
    "initialization_binding" / Repeated(3, ENTRY) * "an initializer, and the output that becomes its value",
    "update_binding" / Repeated(4, ENTRY) * "the same after a step",
)
OPERATOR_SET_ID = Message(
    "OperatorSetIdProto",
    "domain" / Numbered(1, STRING) * "ai.onnx if it is missing or empty",
    "version" / Numbered(2, INT64),
)
FUNCTION = Message(
    "FunctionProto",
    "name" / Numbered(1, STRING) * "the operator that it is",
    "input" / Repeated(4, STRING),
    "output" / Repeated(5, STRING),
    "attribute" / Repeated(6, STRING) * "names of attributes without a default",
    "node" / Repeated(7, NODE),
    "doc_string" / Numbered(8, STRING),
    "opset_import" / Repeated(9, OPERATOR_SET_ID),
    "domain" / Numbered(10, STRING),
    "attribute_proto" / Repeated(11, ATTRIBUTE) * "attributes with a default",
    "value_info" / Repeated(12, VALUE_INFO),
    "overload" / Numbered(13, STRING),
    "metadata_props" / Repeated(14, ENTRY),
)
DEVICE_CONFIGURATION = Message(
    "DeviceConfigurationProto",
    "name" / Numbered(1, STRING),
    "num_devices" / Numbered(2, INT32),
    "device" / Repeated(3, STRING) * "the name of each",
)
MODEL = Message(
    "ModelProto",
    "ir_version" / Numbered(1, INT64) * "of the format",
    "producer_name" / Numbered(2, STRING) * "the exporter",
    "producer_version" / Numbered(3, STRING),
    "domain" / Numbered(4, STRING) * "of the model, in reverse: com.example",
    "model_version" / Numbered(5, INT64),
    "doc_string" / Numbered(6, STRING),
    "graph" / Numbered(7, GRAPH),
    "opset_import" / Repeated(8, OPERATOR_SET_ID) * "the operators that nodes may use",
    "metadata_props" / Repeated(14, ENTRY),
    "training_info" / Repeated(20, TRAINING_INFO),
    "functions" / Repeated(25, FUNCTION) * "operators that are graphs of others",
    "configuration" / Repeated(26, DEVICE_CONFIGURATION) * "devices that nodes may be spread over",
)
