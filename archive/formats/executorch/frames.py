"""The frames of a program's instructions, which ExecuTorch writes with ``emit_stacktrace=True``.

Each instruction has the frames of its node's stack trace, outermost first, with the first line of the code of
each. ExecuTorch cuts them out of the trace, so marks below the code and further lines of it are lost
(``_stacktrace_to_framelist`` in ``exir/print_program.py`` of ExecuTorch 1.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.formats.executorch.program import program_root
from archive.formats.exported.traces import Trace, TraceFrame
from archive.formats.schema.flatbuffer import SIZE

if TYPE_CHECKING:
    from archive.formats.executorch.model import Span
    from archive.formats.schema.flatbuffer_columns import Tables

TEXTS = ("filename", "name", "context")
"""The fields of a frame that are strings."""


class MethodFrames:
    """The frames of a method's instructions.

    Args:
        chain: its only one.
        what: the method in words.

    Attributes:
        counts: how many frames each instruction has (n), for the first ones that have an entry.
    """

    def __init__(self, chain: Tables, what: str) -> None:
        instructions, entries = (chain.stretches(name)[1].sum() for name in ("instructions", "stacktrace"))
        if entries > instructions:
            expected = f"at most {instructions:,}, one for each instruction"
            raise ArchiveError(place=f"{what}, stacktrace", expected=expected, found=f"{entries:,}")
        _, lists = chain.vectors("stacktrace")
        self.counts, frames = lists.vectors("items")
        memory.take(4 * memory.NUMBER * len(frames), "frames of instructions")
        self._stops = np.cumsum(self.counts)
        self._lines = frames.numbers("lineno")
        self._texts = {name: frames.texts(name) for name in TEXTS}

    @property
    def framed(self) -> int:
        """How many instructions have frames."""
        return int(np.count_nonzero(self.counts))

    def trace(self, number: int) -> Trace | None:
        """The stack trace of an instruction; None where it has no frames."""
        if number >= len(self.counts) or not self.counts[number]:
            return None
        stop = int(self._stops[number])
        frames = map(self._frame, range(stop - int(self.counts[number]), stop))
        return Trace(tuple(frames), indented=False, ended=False)

    def _frame(self, at: int) -> TraceFrame:
        file, function, code = (self._text(name, at) for name in TEXTS)
        return TraceFrame(file or "", int(self._lines[at]), function or "", code or None, None)

    def _text(self, name: str, at: int) -> str | None:
        numbers, texts = self._texts[name]
        return texts[numbers[at]] if numbers[at] >= 0 else None


def read_frames(data: memoryview) -> dict[str, MethodFrames]:
    """The frames of each method of a program that could be read, by its name."""
    _, plans = program_root(data).vectors("execution_plan")
    found = dict[str, MethodFrames]()
    for number in range(len(plans)):
        plan = plans.one(number)
        numbers, texts = plan.texts("name")
        name = texts[numbers[0]] if numbers[0] >= 0 else ""
        _, chains = plan.vectors("chains")
        found[name] = MethodFrames(chains, f"method {shown(name)}")
    return found


def frame_spans(root: Tables) -> list[Span]:
    """Where the frames of all instructions are, in the order of the file.

    Besides these, a program without frames lacks a reference to them in each chain, and perhaps a vtable.

    Args:
        root: of the program.
    """
    _, plans = root.vectors("execution_plan")
    _, chains = plans.vectors("chains")
    _, lists = chains.vectors("stacktrace")
    _, frames = lists.vectors("items")
    memory.take(8 * memory.NUMBER * (len(lists) + len(frames)), "frames of instructions")
    found = [(each.places, each.stops) for each in (lists, frames)]
    found += [frames.text_places(name) for name in TEXTS]
    for tables, name in ((chains, "stacktrace"), (lists, "items")):
        starts, counts = tables.stretches(name)
        found.append((starts[starts > SIZE] - SIZE, (starts + SIZE * counts)[starts > SIZE]))
    starts, stops = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(stops[order])
    is_first = np.concatenate(([True], starts[1:] > ends[:-1]))[: len(starts)]
    is_last = np.append(is_first[1:], True)[: len(starts)]
    return [*zip(starts[is_first].tolist(), ends[is_last].tolist(), strict=True)]
