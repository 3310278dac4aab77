"""ETDumps: what ExecuTorch's runtime notes of its runs, a FlatBuffer with the identifier ``ED00``.

    ETDump          = version U32, run_data [RunData]
    RunData         = name, bundled_input_index S32 = -1, allocators [Allocator], events [Event]
    Event           = profile_event | allocation_event | debug_event
    ProfileEvent    = name, chain_index S32, instruction_id S32 = -1, delegate_debug_id_int S32 = -1,
                      delegate_debug_id_str, delegate_debug_metadata [U8], start_time U64, end_time U64

The runtime writes the buffer's size before it. The version is 0, in each release so far. A block of
``run_data`` is what ran between two marks: ``Default`` for loading, ``Execute`` for a run of a method; which
method that is, no field tells.

Events are noted when they end, so what is inside of another one stands before it. Of a kernel's instruction
there are two, the kernel's inside of the call's, and both have the number of the instruction:

    native_call_embedding.out    the kernel; the operator's name has no namespace
    OPERATOR_CALL                the call: the kernel, and the note of it

Operators on sizes (``executorch_prim::add.Scalar``) have the call alone. ``DELEGATE_CALL`` is the call of a
backend; what the backend notes inside of it has no name, but an id: a number, or a text. ``MOVE_CALL``,
``JF_CALL`` and ``FREE_CALL`` are instructions of the runtime's own. ``Method::execute`` is the whole run, of
no instruction: its chain is -1, and the number 0. A run that fails has none.

Times are ticks of the device's clock: no field tells how long one is. It is 1 ns in ``posix.cpp`` and
``android.cpp`` of ``runtime/platform/default``. Backends may take theirs from another clock. A clock of 32
bits starts anew after its last tick.

A debug event has the value of a result, an allocation event the bytes that an allocator gave: both are
counted here, and no more. Source: ExecuTorch 1.5, ``devtools/etdump/etdump_schema_flatcc.fbs`` and
``etdump_flatcc.cpp``, and ``Method::execute_instruction`` in ``runtime/executor/method.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.base.facts import dataclass
from archive.formats.flatbuffer import NOTHING, REFERENCE, S32, U32, U64, FlatBuffer, TableLayout, Tables
from archive.formats.flatbuffer_head import ETDUMP_IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.limits import Allowance

VERSION = 0
WHOLE_RUN = "Method::execute"
KERNEL = "native_call_"
"""What stands before an operator's name in the name of its kernel's event."""
OPERATOR_CALL, DELEGATE_CALL, JUMP_CALL = "OPERATOR_CALL", "DELEGATE_CALL", "JF_CALL"
CALLS = frozenset({OPERATOR_CALL, DELEGATE_CALL, JUMP_CALL, "MOVE_CALL", "FREE_CALL"})
"""The names of instructions' own events."""
UNSET = -1
"""The chain, instruction, id or input of what has none."""
BYTES_AN_EVENT = 256
"""Bytes of memory that an event costs at most, beside reading a field."""

NUMBER = S32._replace(default=UNSET)
ETDUMP = TableLayout("ETDump", {"version": U32, "run_data": REFERENCE})
RUN_DATA = TableLayout(
    "RunData",
    {"name": REFERENCE, "bundled_input_index": NUMBER, "allocators": REFERENCE, "events": REFERENCE},
)
EVENT = TableLayout(
    "Event", {"profile_event": REFERENCE, "allocation_event": REFERENCE, "debug_event": REFERENCE}
)
PROFILE_EVENT = TableLayout(
    "ProfileEvent",
    {
        "name": REFERENCE,
        "chain_index": S32,
        "instruction_id": NUMBER,
        "delegate_debug_id_int": NUMBER,
        "delegate_debug_id_str": REFERENCE,
        "delegate_debug_metadata": REFERENCE,
        "start_time": U64,
        "end_time": U64,
    },
)


class ProfileEvent(NamedTuple):
    """Something that took time.

    Attributes:
        name: "" for an event of a backend.
        chain: of the instruction; -1 where the event is of none.
        instruction: its number in the chain.
        delegate: the id of a backend's event, a number as text, too; "" for others.
        start: ticks.
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
        input: the number of the bundled input that the run took; -1 where it took none.
        events: those that took time, in the order of their ends.
        values: how many results are noted.
        allocations: how many allocations are noted.
    """

    name: str
    input: int
    events: Sequence[ProfileEvent]
    values: int
    allocations: int


def parse_etdump(data: memoryview, allowance: Allowance) -> tuple[DumpBlock, ...]:
    """The blocks of an ETDump, in the order of the file.

    Raises:
        ArchiveError: the bytes are no ETDump of version 0, or lead out of the file; with the byte.
        LimitError: it takes more memory than allowed, or a name is too long.
    """
    buffer = FlatBuffer(data, ETDUMP_IDENTIFIER, allowance)
    root = buffer.root(ETDUMP)
    version = int(root.numbers("version")[0])
    if version != VERSION:
        raise ArchiveError(place="ETDump.version", expected=str(VERSION), found=str(version))
    _, places = root.vectors("run_data")
    runs = Tables(buffer, RUN_DATA, places)
    names, texts = runs.texts("name")
    inputs = runs.numbers("bundled_input_index").tolist()
    counts, places = runs.vectors("events")
    allowance.take(BYTES_AN_EVENT * (len(runs) + len(places)), "events")
    events = Tables(buffer, EVENT, places)
    timed, allocated, debugged = (events.references(kind) for kind in EVENT.fields)
    is_wrong = sum((kind != NOTHING).astype(int) for kind in (timed, allocated, debugged)) != 1
    buffer.check(is_wrong, places, "an event of one kind")
    every = iter(_profile_events(Tables(buffer, PROFILE_EVENT, timed[timed != NOTHING])))
    blocks, first = [], 0
    for name, number, count in zip(names.tolist(), inputs, counts.tolist(), strict=True):
        own = slice(first, first + count)
        several = [next(every) for _ in range(int((timed[own] != NOTHING).sum()))]
        numbers = (int((kind[own] != NOTHING).sum()) for kind in (debugged, allocated))
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
