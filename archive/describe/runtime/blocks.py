"""``inspect`` of an ETDump: its blocks of events, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.reader.recognition import FileKind, recognise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.io.mapped import Source


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """A block of an ETDump.

    Attributes:
        name: ``Execute`` for a run of a method.
        input: the number of the bundled input that the run took; null where it took none.
        instructions: calls of instructions that ran.
        notes: what backends noted inside of these.
        values: results that are noted.
        allocations: how many are noted.
        ticks: of the device's clock that the run took; null where nothing ran, or the run did not end.
    """

    name: str
    input: int | None
    instructions: int
    notes: int
    values: int
    allocations: int
    ticks: int | None


@dataclass(frozen=True, slots=True)
class DumpInspection:
    """The contents of an ETDump.

    Attributes:
        file: its name.
        kind: of the file.
        what: the kind in words.
        advice: what can be done with the file.
        size: in bytes.
        blocks: in the order of the file.
    """

    file: str
    kind: FileKind
    what: str
    advice: str
    size: int
    blocks: Sequence[BlockFacts]


@bounded
def inspect_etdump(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> DumpInspection:
    """Count what is in an ETDump."""
    from archive.formats.etdump import UNSET  # noqa: PLC0415 (few files are some: construct takes long)
    from archive.reader.runtime.runs import read_etdump  # noqa: PLC0415 (the same)

    dump = read_etdump(source, limits)
    recognised = recognise(source, limits=limits)
    blocks = []
    for block, run in zip(dump.blocks, dump.runs, strict=True):
        whole = None if run.whole is None else run.whole.end - run.whole.start
        notes = sum(len(call.inner) for call in run.calls)
        number = None if block.input == UNSET else block.input
        blocks.append(
            BlockFacts(block.name, number, len(run.calls), notes, len(block.values), block.allocations, whole)
        )
    return DumpInspection(dump.file, recognised.kind, recognised.what, recognised.advice, dump.size, blocks)
