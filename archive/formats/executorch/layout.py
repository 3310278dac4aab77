"""The layout of ``.pte`` files: a FlatBuffer with the identifier ``ET12``, and segments after it.

    file            = root U32, "ET12", extended header, tables of the FlatBuffer, padding, segments
    extended header = "eh00", length U32, program_size U64, segment_base_offset U64, segment_data_size U64

The FlatBuffer's root refers over the extended header. Files without segments may have none; then the whole
file is the FlatBuffer. A ``length`` of 24 ends before ``segment_data_size``.

A *segment* is bytes at ``segment_base_offset + offset``, aligned, in ascending order. One has all constants,
each at an offset of its own, aligned, too; one the first values of mutable tensors; each blob that a backend
made has one, unless it is *inline* in ``backend_delegate_data``; blobs that several things share are *named*.
Before 1.0, constants were inline in ``constant_buffer``. Constant 0 stands for tensors that aren't constants.

A method is an execution plan: its *values*, of which tensors are one kind; and the instructions of its only
chain, which name values and operators by number. Where a tensor's elements are:

    data_buffer_idx   allocation_info   the elements
    > 0               none              a constant
    > 0               set               mutable, first those in mutable_data_segments
    0                 set               planned memory: `memory_id` is one of the method's buffers, from 1 on
    0                 none              given by the caller, or allocated when the method runs

``extra_tensor_info.location`` 1 means: in a file beside the program (``.ptd``), by its full name.

Source: ``schema/program.fbs``, ``schema/extended_header.cpp`` and ``exir/_serialize/_program.py`` of
ExecuTorch 1.5; ``runtime/executor/program.cpp`` and ``tensor_parser_portable.cpp``.
"""

from __future__ import annotations

from construct import Float64l, Int8sl, Int8ul, Int32sl, Int32ul, Int64sl, Int64ul

from archive.formats.schema import words
from archive.formats.schema.fixed import Layout
from archive.formats.schema.flatbuffer import Table, Text, Union, Vector

IDENTIFIER = b"ET12"
HEADER_AT = 8
"""Where the extended header is: after the root's reference and the identifier."""
HEADER_MAGIC = b"eh00"
SHORTEST_HEADER = 24
"""Bytes of an extended header without ``segment_data_size``."""
INLINE, SEGMENT = 0, 1
"""``DataLocation`` of a blob."""
EXTERNAL = 1
"""``TensorDataLocation`` of a tensor in a file beside the program."""

EXTENDED_HEADER = Layout(
    "extended header"
    / words.Struct(
        "magic" / words.Const(HEADER_MAGIC),
        "length" / words.Int32ul * "of this header, from its magic on",
        "program_size" / words.Int64ul * "bytes of the FlatBuffer, with this header",
        "segment_base_offset" / words.Int64ul * "of the first segment in the file; 0 without segments",
    )
)

ALLOCATION = Table(
    "AllocationDetails",
    "memory_id" / Int32ul * "the buffer of the method, from 1 on",
    "memory_offset_low" / Int32ul * "the lower 32 bits of the offset in it",
    "memory_offset_high" / Int32ul * "the upper ones",
)
EXTRA = Table(
    "ExtraTensorInfo",
    "mutable_data_segments_idx" / Int64ul * "where a mutable tensor's first value is",
    "fully_qualified_name" / Text * "of the parameter or buffer",
    "location" / Int8ul * "0 in this file, 1 in one beside it",
    "device_type" / Int8ul * "0 CPU, 1 CUDA",
    "device_index" / Int8sl,
)
TENSOR = Table(
    "Tensor",
    "scalar_type" / Int8ul * "as PyTorch numbers them",
    "storage_offset" / Int32sl * "always 0",
    "sizes" / Vector(Int32sl) * "if the shape varies, the largest it may be",
    "dim_order" / Vector(Int8ul) * "dimensions from the outermost to the innermost in memory",
    "requires_grad" / Int8ul,
    "data_buffer_idx" / Int32ul * "the number of its elements' bytes; 0 for none",
    "allocation_info" / ALLOCATION,
    "layout" / Int8sl,
    "shape_dynamism" / Int8ul * "0 fixed, 1 bounded, 2 unbounded",
    "extra_tensor_info" / EXTRA,
)
INT = Table("Int", "int_val" / Int64sl)
TENSOR_LIST = Table("TensorList", "items" / Vector(Int32sl) * "values")
OPTIONAL_TENSOR_LIST = Table("OptionalTensorList", "items" / Vector(Int32sl) * "values; -1 for none")
VALUE = Table(
    "EValue",
    "val_type" / Int8ul * "which table `val` is",
    "val"
    / Union(
        Table("Null"),
        INT,
        Table("Bool", "bool_val" / Int8ul),
        Table("Double", "double_val" / Float64l),
        TENSOR,
        Table("String", "string_val" / Text),
        Table("IntList", "items" / Vector(Int64sl) * "values"),
        Table("DoubleList", "items" / Vector(Float64l)),
        Table("BoolList", "items" / Vector(Int8ul)),
        TENSOR_LIST,
        OPTIONAL_TENSOR_LIST,
    ),
)
OPERATOR = Table("Operator", "name" / Text, "overload" / Text)
KERNEL_CALL = Table("KernelCall", "op_index" / Int32sl, "args" / Vector(Int32sl) * "values")
DELEGATE_CALL = Table("DelegateCall", "delegate_index" / Int32sl, "args" / Vector(Int32sl) * "values")
MOVE_CALL = Table("MoveCall", "move_from" / Int32sl * "value", "move_to" / Int32sl * "value")
JUMP_CALL = Table(
    "JumpFalseCall", "cond_value_index" / Int32sl, "destination_instruction" / Int32sl * "from 0"
)
FREE_CALL = Table("FreeCall", "value_index" / Int32sl)
INSTRUCTION = Table(
    "Instruction",
    "instr_args_type" / Int8ul * "which table `instr_args` is",
    "instr_args" / Union(KERNEL_CALL, DELEGATE_CALL, MOVE_CALL, JUMP_CALL, FREE_CALL),
)
BLOB_REFERENCE = Table(
    "BackendDelegateDataReference",
    "location" / Int8ul * "0 in `backend_delegate_data`, 1 in `segments`",
    "index" / Int32ul,
)
COMPILE_SPEC = Table("CompileSpec", "key" / Text, "value" / Vector(Int8ul))
DELEGATE = Table(
    "BackendDelegate",
    "id" / Text * "of the backend",
    "processed" / BLOB_REFERENCE * "what the backend made of its part of the graph",
    "compile_specs" / Vector(COMPILE_SPEC),
)
FRAME = Table(
    "Frame",
    "filename" / Text,
    "lineno" / Int32sl,
    "name" / Text * "of the function",
    "context" / Text * "the line of source",
)
FRAMES = Table("FrameList", "items" / Vector(FRAME) * "outermost first")
CHAIN = Table(
    "Chain",
    "inputs" / Vector(Int32sl),
    "outputs" / Vector(Int32sl),
    "instructions" / Vector(INSTRUCTION),
    "stacktrace" / Vector(FRAMES) * "of each instruction, with `emit_stacktrace=True`",
)
CONTAINER = Table("ContainerMetadata", "encoded_inp_str" / Text, "encoded_out_str" / Text)
PLAN = Table(
    "ExecutionPlan",
    "name" / Text * "of the method",
    "container_meta_type" / CONTAINER * "how inputs and outputs are nested",
    "values" / Vector(VALUE),
    "inputs" / Vector(Int32sl) * "values",
    "outputs" / Vector(Int32sl) * "values",
    "chains" / Vector(CHAIN) * "one",
    "operators" / Vector(OPERATOR),
    "delegates" / Vector(DELEGATE),
    "non_const_buffer_sizes" / Vector(Int64sl) * "bytes of planned memory; the first, 0, is of no buffer",
)
BUFFER = Table("Buffer", "storage" / Vector(Int8ul))
INLINE_BLOB = Table("BackendDelegateInlineData", "data" / Vector(Int8ul))
DATA_SEGMENT = Table("DataSegment", "offset" / Int64ul * "after segment_base_offset", "size" / Int64ul)
SUBSEGMENTS = Table(
    "SubsegmentOffsets",
    "segment_index" / Int32ul,
    "offsets" / Vector(Int64ul) * "of each tensor's elements in the segment",
)
NAMED_DATA = Table("NamedData", "key" / Text, "segment_index" / Int32ul)
PROGRAM = Table(
    "Program",
    "version" / Int32ul * "of the schema: 0",
    "execution_plan" / Vector(PLAN) * "methods",
    "constant_buffer" / Vector(BUFFER) * "constants before 1.0",
    "backend_delegate_data" / Vector(INLINE_BLOB),
    "segments" / Vector(DATA_SEGMENT),
    "constant_segment" / SUBSEGMENTS,
    "mutable_data_segments" / Vector(SUBSEGMENTS),
    "named_data" / Vector(NAMED_DATA),
)

DTYPES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    11: "bool",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    22: "bits16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
}
"""The dtype of each number of ``ScalarType`` that has whole bytes as elements."""
