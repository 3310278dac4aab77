"""The events of an ETDump → the calls of instructions of each run.

Each instruction is one call, which may have a kernel, and what a backend noted, inside of it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, in_file, one_line
from archive.formats.etdump import (
    CALLS,
    KERNEL,
    OPERATOR_CALL,
    UNSET,
    WHOLE_RUN,
    ProfileEvent,
    is_dump,
    parse_etdump,
)
from archive.io.mapped import Mapped
from archive.reader.recognition import recognise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.limits import Limits
    from archive.formats.etdump import DumpBlock
    from archive.io.mapped import Source


WRAPPED = 1 << 32
"""Ticks after which a clock of 32 bits starts again at 0."""


class Ran(NamedTuple):
    """What two calls have in common that are of one instruction.

    Attributes:
        operator: that ran, without its namespace: ``embedding.out``; "" where it is not known.
    """

    chain: int
    number: int
    call: str
    operator: str

    @property
    def label(self) -> str:
        """The numbers of its chain and of the instruction: ``0:14``."""
        return f"{self.chain}:{self.number}"


class Call(NamedTuple):
    """An instruction that ran.

    Attributes:
        kernel: its kernel; None where none is noted.
        inner: what a backend noted inside of it.
    """

    event: ProfileEvent
    kernel: ProfileEvent | None
    inner: tuple[ProfileEvent, ...]

    @property
    def operator(self) -> str:
        """The operator that ran, without its namespace: ``embedding.out``; "" where it is not known."""
        name = "" if self.kernel is None else self.kernel.name
        return name.removeprefix(KERNEL) if name.startswith(KERNEL) else ""

    @property
    def name(self) -> str:
        """What is shown for it: the operator, or what the runtime calls it."""
        return self.operator or (self.kernel or self.event).name

    @property
    def ran(self) -> Ran:
        """What other calls of the instruction have, too."""
        return Ran(self.event.chain, self.event.instruction, self.event.name, self.operator)


class Run(NamedTuple):
    """A block of events in which instructions ran.

    Attributes:
        calls: the instructions, in the order in which they ran.
        whole: the event of the whole run; None where the run did not end.
    """

    calls: Sequence[Call]
    whole: ProfileEvent | None


class Dump(NamedTuple):
    """An ETDump.

    Attributes:
        runs: that the blocks are, without calls where no instruction ran.
    """

    file: str
    size: int
    blocks: Sequence[DumpBlock]
    runs: Sequence[Run]


def read_etdump(source: Source, limits: Limits) -> Dump:
    """Read an ETDump."""
    with closing(Mapped(source)) as mapped, in_file(mapped.name):
        if not is_dump(mapped.data):
            raise ArchiveError(expected="an ETDump", found=recognise(mapped.data, limits=limits).what)
        with memory.charged(limits.allowance(mapped.weight)):
            blocks = parse_etdump(mapped.data)
            memory.take(2 * memory.ROW * sum(len(block.events) for block in blocks), "events")
            return Dump(mapped.name, len(mapped.data), blocks, [*map(run_of, blocks)])


def run_of(block: DumpBlock) -> Run:
    """The run that a block is; without calls where no instruction ran."""
    calls, inner, whole = list[Call](), list[ProfileEvent](), None
    for event in _unwrapped(block.events):
        if event.chain == UNSET:
            whole = event if event.name == WHOLE_RUN else whole
        elif event.name not in CALLS or event.delegate:
            inner.append(event)
        else:
            if any(other[1:3] != event[1:3] for other in inner):
                break
            kernels = [other for other in inner if not other.delegate and event.name == OPERATOR_CALL]
            kernel = kernels[-1] if kernels else None  # the last one is outermost
            if kernel is not None and not event.start <= kernel.start <= kernel.end <= event.end:
                break
            calls.append(Call(event, kernel, tuple(other for other in inner if other.delegate)))
            inner = []
    if inner:
        what = f"{inner[-1].name or inner[-1].delegate} of instruction {number_of(inner[-1])}"
        raise ArchiveError(f"{one_line(what)} is not inside of the instruction's call")
    return Run(calls, whole)


def _unwrapped(events: Sequence[ProfileEvent]) -> Sequence[ProfileEvent]:
    """Events of a block whose times go on where a clock of 32 bits starts again at 0."""
    own = [event for event in events if not event.delegate]  # a backend's clock may be another
    turned = next((event for event in own if event.end < event.start), None)
    if turned is None:
        return events
    starts = [event.start for event in own if event.name == WHOLE_RUN and event.end < event.start]
    if not starts or any(event.start >= WRAPPED or event.end >= WRAPPED for event in own):
        what = f"{one_line(turned.name)} of instruction {number_of(turned)}"
        raise ArchiveError(f"{what} ends {turned.start - turned.end} ticks before it starts")

    def later(tick: int) -> int:
        return tick + WRAPPED * (tick < starts[0])

    return [event._replace(start=later(event.start), end=later(event.end)) for event in events]


def number_of(event: ProfileEvent) -> str:
    """The numbers of an event's chain and instruction: ``0:14``."""
    return f"{event.chain}:{event.instruction}"
