"""ETDumps: what ExecuTorch's runtime logs of its runs, a FlatBuffer with the identifier ``ED00``.

The runtime writes the buffer's size before it. The version is 0 in every release so far. A block of
``run_data`` is what ran between two marks: ``Default`` for loading, ``Execute`` for a run of a method; no
field says which method that is.

Events are logged when they end, so inner events come before the outer one. A kernel's instruction has two:
the kernel's own, inside that of the call. Both have the number of the instruction:

    native_call_embedding.out    the kernel; the operator's name has no namespace
    OPERATOR_CALL                the call: the kernel, and logging it

Operators on sizes (``executorch_prim::add.Scalar``) only have the call. ``DELEGATE_CALL`` is the call of a
backend; what the backend logs inside it has no name but an id: a number, or a text. ``MOVE_CALL``,
``JF_CALL`` and ``FREE_CALL`` are the runtime's own instructions. ``Method::execute`` is the whole run, which
has no instruction: its chain is -1, and the number 0. A run that fails has none.

Times are ticks of the device's clock; no field says how long a tick is. It is 1 ns in ``posix.cpp`` and
``android.cpp`` of ``runtime/platform/default``. Backends may take theirs from another clock. A clock of 32
bits starts again at 0 after its last tick.

A debug event has the value of a result, or of an argument of a backend, if the runtime was given a buffer
for them: its place in the buffer, a file of its own. It comes before the events of its instruction's kernel
and call, and has no name. Those of the results of the whole run come last; their chain and number are those
of the run's event. An allocation event has the bytes that an allocator returned; these are only counted.

Source: ExecuTorch 1.5, ``devtools/etdump/etdump_schema_flatcc.fbs`` and ``etdump_flatcc.cpp``, and
``Method::execute_instruction`` in ``runtime/executor/method.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from construct import Default, Int8sl, Int8ul, Int32sl, Int32ul, Int64sl, Int64ul

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.formats.schema.flatbuffer import NOTHING, Table, Text, Unread, Vector, identified_at
from archive.formats.schema.flatbuffer_columns import FlatBuffer, Tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.io.ranged import Bytes

IDENTIFIER = b"ED00"
VERSION = 0
WHOLE_RUN = "Method::execute"
KERNEL = "native_call_"
"""What precedes an operator's name in the name of its kernel's event."""
OPERATOR_CALL, DELEGATE_CALL, JUMP_CALL = "OPERATOR_CALL", "DELEGATE_CALL", "JF_CALL"
CALLS = frozenset({OPERATOR_CALL, DELEGATE_CALL, JUMP_CALL, "MOVE_CALL", "FREE_CALL"})
"""The names of instructions' own events."""
UNSET = -1
"""Stands for a missing chain, instruction, id or input."""
IS_TENSOR, IS_LIST = 5, 6
"""What a value is."""

PROFILE_EVENT = Table(
    "ProfileEvent",
    "name" / Text * "of the operator, the call or the whole run; none for an event of a backend",
    "chain_index" / Int32sl * "the chain of the instruction; -1 if the event has none",
    "instruction_id" / Default(Int32sl, UNSET) * "its number in the chain",
    "delegate_debug_id_int" / Default(Int32sl, UNSET) * "a backend's id of its event, if that is a number",
    "delegate_debug_id_str" / Text * "the same if it is a text",
    "delegate_debug_metadata" / Unread("[ubyte]") * "what else the backend logs",
    "start_time" / Int64ul * "ticks",
    "end_time" / Int64ul * "ticks",
)
TENSOR = Table(
    "Tensor",
    "scalar_type" / Int8sl * "as c10::ScalarType numbers them",
    "sizes" / Vector(Int64sl),
    "strides" / Vector(Int64sl) * "in elements",
    "offset" / Int64sl * "of its bytes in the buffer of values",
)
TENSOR_LIST = Table("TensorList", "tensors" / Vector(TENSOR))
IS_OUTPUT = Table("Bool", "bool_val" / Int8ul * "0 for false")
VALUE = Table(
    "Value",
    "val" / Int8sl * "what it is: 5 a tensor, 6 a list of tensors; others are numbers and texts",
    "tensor" / TENSOR,
    "tensor_list" / TENSOR_LIST,
    "int_value" / Unread("Int"),
    "float_value" / Unread("Float"),
    "double_value" / Unread("Double"),
    "bool_value" / Unread("Bool"),
    "output" / IS_OUTPUT * "whether it is a result of the whole run",
)
DEBUG_EVENT = Table(
    "DebugEvent",
    "chain_index" / Int64ul * "the chain of the instruction; the largest number if the event has none",
    "instruction_id" / Default(Int32sl, UNSET) * "its number in the chain",
    "debug_entry" / VALUE,
    "delegate_debug_id_int" / Default(Int32sl, UNSET) * "a backend's id of its event, if that is a number",
    "delegate_debug_id_str" / Text * "the same if it is a text",
    "name" / Text * "none, so far",
)
EVENT = Table(
    "Event",
    "profile_event" / PROFILE_EVENT * "exactly one of the three is set",
    "allocation_event" / Unread("AllocationEvent"),
    "debug_event" / DEBUG_EVENT,
)
RUN_DATA = Table(
    "RunData",
    "name" / Text * "of the block: Default or Execute",
    "bundled_input_index" / Default(Int32sl, UNSET) * "the bundled input that the run took; -1: none",
    "allocators" / Unread("[Allocator]"),
    "events" / Vector(EVENT) * "in the order of their ends",
)
ETDUMP = Table("ETDump", "version" / Int32ul * "of the schema", "run_data" / Vector(RUN_DATA) * "blocks")


class ProfileEvent(NamedTuple):
    """Something that took time.

    Attributes:
        name: "" for an event of a backend.
        chain: of the instruction; -1 if the event has none.
        instruction: its number in the chain.
        delegate: the id of a backend's event, as text even if it is a number; "" for others.
        end: ticks.
    """

    name: str
    chain: int
    instruction: int
    delegate: str
    start: int
    end: int


class NotedTensor(NamedTuple):
    """A tensor whose bytes are in the buffer of values.

    Attributes:
        scalar: the number of its dtype.
        sizes: of its dimensions.
        strides: of each, in elements.
        offset: of its bytes in the buffer.
    """

    scalar: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class NotedValue(NamedTuple):
    """A result that is noted.

    Attributes:
        chain: of the instruction; -1 for a result of the whole run.
        instruction: its number in the chain.
        delegate: the id of a backend's event, as text even if it is a number; "" for others.
        tensors: one, those of a list, or none for a number or text.
        is_output: whether it is a result of the whole run.
        before: how many of the block's events that took time are noted before it.
    """

    chain: int
    instruction: int
    delegate: str
    tensors: tuple[NotedTensor, ...]
    is_output: bool
    before: int


@dataclass(frozen=True, slots=True)
class DumpBlock:
    """A block of events.

    Attributes:
        name: ``Execute`` for a run of a method.
        input: the number of the bundled input that the run took; -1 if it took none.
        events: those that took time, in the order of their ends.
        values: results that are logged, in the order of the file.
        allocations: how many allocations are logged.
    """

    name: str
    input: int
    events: Sequence[ProfileEvent]
    values: Sequence[NotedValue]
    allocations: int


def is_dump(data: Bytes | bytes) -> bool:
    """Whether a file, or its beginning, has an ETDump's identifier."""
    return identified_at(data, IDENTIFIER) is not None


def parse_etdump(data: memoryview) -> tuple[DumpBlock, ...]:
    """The blocks of an ETDump, in the order of the file."""
    buffer = FlatBuffer(data, IDENTIFIER)
    root = buffer.root(ETDUMP)
    version = int(root.numbers("version")[0])
    if version != VERSION:
        raise ArchiveError(place="ETDump.version", expected=str(VERSION), found=str(version))
    _, runs = root.vectors("run_data")
    names, texts = runs.texts("name")
    inputs = runs.numbers("bundled_input_index").tolist()
    counts, events = runs.vectors("events")
    memory.take(memory.ROW * (len(runs) + len(events)), "events")
    timed, profiled = events.tables("profile_event")
    noted, debugged = events.tables("debug_event")
    allocated = events.references("allocation_event") != NOTHING
    is_wrong = timed.astype(int) + allocated + noted != 1
    buffer.check(is_wrong, events.places, "an event of one kind")
    every, values = _profile_events(profiled), _values(buffer, debugged, np.cumsum(timed)[noted])
    upto = [np.concatenate([[0], np.cumsum(kind)]) for kind in (timed, noted, allocated)]
    blocks, first = [], 0
    for name, number, count in zip(names.tolist(), inputs, counts.tolist(), strict=True):
        own = [slice(int(many[first]), int(many[first + count])) for many in upto]
        several = [value._replace(before=value.before - own[0].start) for value in values[own[1]]]
        allocations = own[2].stop - own[2].start
        text = texts[name] if name >= 0 else ""
        blocks.append(DumpBlock(text, number, every[own[0]], several, allocations))
        first += count
    return tuple(blocks)


def _profile_events(tables: Tables) -> list[ProfileEvent]:
    names, texts = tables.texts("name")
    ids, id_texts = tables.texts("delegate_debug_id_str")
    columns = (
        names,
        tables.numbers("chain_index"),
        tables.numbers("instruction_id"),
        tables.numbers("delegate_debug_id_int"),
        ids,
        tables.numbers("start_time"),
        tables.numbers("end_time"),
    )
    texts, id_texts = (*texts, ""), (*id_texts, "")  # the last one for those that have none
    return [
        ProfileEvent(
            texts[name], chain, instruction, id_texts[text] if number == UNSET else str(number), start, end
        )
        for name, chain, instruction, number, text, start, end in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _values(buffer: FlatBuffer, events: Tables, before: np.ndarray) -> list[NotedValue]:
    """The values of debug events.

    Args:
        before: how many events that took time come before each.
    """
    has_value, values = events.tables("debug_entry")
    buffer.check(~has_value, events.places, "a value in a debug event")
    kinds = values.numbers("val")
    has_tensor, tensors = values.tables("tensor")
    has_list, lists = values.tables("tensor_list")
    is_wrong = (has_tensor != (kinds == IS_TENSOR)) | (has_list != (kinds == IS_LIST))
    buffer.check(is_wrong, values.places, "a value of its kind")
    counts, listed = lists.vectors("tensors")
    memory.take(memory.ROW * (len(values) + len(tensors) + len(listed)), "values")
    single, several = iter(_tensors(buffer, tensors)), iter(_tensors(buffer, listed))
    many = iter(counts.tolist())
    is_output, outputs = values.tables("output")
    is_output[is_output] = outputs.numbers("bool_val") != 0
    ids, texts = events.texts("delegate_debug_id_str")
    texts = (*texts, "")
    columns = (
        events.numbers("chain_index").view(np.int64),  # the runtime writes -1 into a number without a sign
        events.numbers("instruction_id"),
        events.numbers("delegate_debug_id_int"),
        ids,
        has_tensor,
        has_list,
        is_output,
        before,
    )
    made = []
    for chain, instruction, number, text, is_one, is_list, is_result, earlier in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        found = [next(several) for _ in range(next(many))] if is_list else [next(single)] if is_one else []
        delegate = texts[text] if number == UNSET else str(number)
        made.append(NotedValue(chain, instruction, delegate, tuple(found), is_result, earlier))
    return made


def _tensors(buffer: FlatBuffer, tables: Tables) -> list[NotedTensor]:
    sizes, strides = (tables.number_vectors(name) for name in ("sizes", "strides"))
    buffer.check(sizes.counts != strides.counts, tables.places, "a stride for each size of a tensor")
    memory.take(2 * memory.NUMBER * len(sizes.numbers), "values")
    scalars, offsets = (tables.numbers(name).tolist() for name in ("scalar_type", "offset"))
    return [
        NotedTensor(scalar, tuple(shape), tuple(steps), offset)
        for scalar, shape, steps, offset in zip(scalars, sizes.lists(), strides.lists(), offsets, strict=True)
    ]
