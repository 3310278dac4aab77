"""The values that ExecuTorch's runtime noted in a run, at the calls that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.formats.etdump import CALLS, UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.formats.etdump import DumpBlock, NotedValue
    from archive.reader.runtime.runs import Call, Run


class NotedCall(NamedTuple):
    """A call of an instruction.

    Attributes:
        values: what it returned, in the order of the file.
        inner: how many values a backend noted inside of it.
    """

    call: Call
    values: Sequence[NotedValue]
    inner: int


class NotedRun(NamedTuple):
    """A run with its values.

    Attributes:
        calls: in the order in which they ran.
        outputs: results of the whole run.
    """

    calls: Sequence[NotedCall]
    outputs: Sequence[NotedValue]


def noted_run(block: DumpBlock, run: Run) -> NotedRun:
    """The values of a block, each at the call that it was noted in.

    A value comes before the event of its call, and after those of earlier calls.

    Raises:
        ArchiveError: a value lies in no call of its instruction.
    """
    ends = [
        at
        for at, event in enumerate(block.events)
        if event.chain != UNSET and event.name in CALLS and not event.delegate
    ]
    values = [value for value in block.values if not value.is_output]
    calls, first = list[NotedCall](), 0
    for end, call in zip(ends, run.calls, strict=True):
        at = first
        while at < len(values) and values[at].before <= end:
            at += 1
        found, first = values[first:at], at
        own = (call.event.chain, call.event.instruction)
        strays = [value for value in found if (value.chain, value.instruction) != own]
        if strays:
            raise _outside(strays[0])
        results = [value for value in found if not value.delegate]
        calls.append(NotedCall(call, results, len(found) - len(results)))
    if first < len(values):
        raise _outside(values[first])
    return NotedRun(calls, [value for value in block.values if value.is_output])


def _outside(value: NotedValue) -> ArchiveError:
    label = f"{value.chain}:{value.instruction}"
    return ArchiveError(f"a value of instruction {label} is not inside of the instruction's call")
