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

A debug event has the value of a result, an allocation event the bytes that an allocator returned; here both
are only counted. Source: ExecuTorch 1.5, ``devtools/etdump/etdump_schema_flatcc.fbs`` and
``etdump_flatcc.cpp``, and ``Method::execute_instruction`` in ``runtime/executor/method.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from construct import Default, Int32sl, Int32ul, Int64ul

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
EVENT = Table(
    "Event",
    "profile_event" / PROFILE_EVENT * "exactly one of the three is set",
    "allocation_event" / Unread("AllocationEvent"),
    "debug_event" / Unread("DebugEvent"),
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


@dataclass(frozen=True, slots=True)
class DumpBlock:
    """A block of events.

    Attributes:
        name: ``Execute`` for a run of a method.
        input: the number of the bundled input that the run took; -1 if it took none.
        events: those that took time, in the order of their ends.
        values: how many results are logged.
        allocations: how many allocations are logged.
    """

    name: str
    input: int
    events: Sequence[ProfileEvent]
    values: int
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
    allocated, debugged = (events.references(kind) != NOTHING for kind in ("allocation_event", "debug_event"))
    is_wrong = timed.astype(int) + allocated + debugged != 1
    buffer.check(is_wrong, events.places, "an event of one kind")
    every = iter(_profile_events(profiled))
    blocks, first = [], 0
    for name, number, count in zip(names.tolist(), inputs, counts.tolist(), strict=True):
        own = slice(first, first + count)
        several = [next(every) for _ in range(int(timed[own].sum()))]
        numbers = (int(kind[own].sum()) for kind in (debugged, allocated))
        blocks.append(DumpBlock(texts[name] if name >= 0 else "", number, several, *numbers))
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
