"""Stacks of frames with a number each → the texts that viewers of flame graphs read.

- *Folded* stacks are the input of ``flamegraph.pl`` and inferno. Each line has the frames of a stack,
  outermost first, joined by ``;``, and its number. Two numbers, before and after, make a differential flame
  graph, as ``difffolded.pl`` writes it.
- *speedscope* files follow https://www.speedscope.app/file-format-schema.json. Profiles share their frames.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
EXPORTER = "debug-archive"
LAST_NUMBER = re.compile(r" (?=\d+(\.\d*)?$)")
"""The blank before a number at the end of a stack's name, which ``flamegraph.pl`` takes for one of two."""


class StackFrame(NamedTuple):
    """A frame of a stack.

    Attributes:
        name: what is shown.
        file: the source file of a line; None for others.
        line: its number in the file, from 1; None for others.
    """

    name: str
    file: str | None = None
    line: int | None = None


def folded(stacks: Iterable[tuple[Iterable[str], Sequence[int]]]) -> Iterator[str]:
    """A line for each stack, in the order in which stacks first come; none if all numbers are 0.

    Args:
        stacks: names of frames, outermost first, and the numbers; those of equal names are added.
    """
    sums: dict[str, Sequence[int]] = {}
    for names, numbers in stacks:
        joined = ";".join(one_line(name).replace(";", ":") for name in names)
        stack = LAST_NUMBER.sub("_", joined)
        before = sums.get(stack)
        sums[stack] = [a + b for a, b in zip(before, numbers, strict=True)] if before else numbers
    return (f"{stack} {' '.join(map(str, numbers))}\n" for stack, numbers in sums.items() if any(numbers))


class Speedscope:
    """A speedscope file, built profile by profile."""

    def __init__(self) -> None:
        self._frames: dict[StackFrame, int] = {}
        self._profiles: list[dict[str, Any]] = []

    def number(self, frame: StackFrame) -> int:
        """The number of a frame, by which profiles refer to it."""
        return self._frames.setdefault(frame, len(self._frames))

    def add(self, kind: str, name: str, unit: str, end: int, start: int = 0, **rows: object) -> None:
        """Add a profile.

        Args:
            kind: ``evented`` or ``sampled``.
            name: what viewers call it.
            unit: of its values: ``nanoseconds`` or ``bytes``.
            end: the value after the last.
            start: the first value.
            rows: what else a profile of this kind has.
        """
        values = {"startValue": start, "endValue": end}
        self._profiles.append({"type": kind, "name": name, "unit": unit, **values, **rows})

    def add_bytes(self, name: str, stacks: Iterable[tuple[Iterable[StackFrame], int]]) -> None:
        """Add a profile of bytes by stack, outermost frame first."""
        samples, weights = [], []
        for frames, weight in stacks:
            samples.append(list(map(self.number, frames)))
            weights.append(weight)
        self.add("sampled", name, "bytes", sum(weights), samples=samples, weights=weights)

    def facts(self, name: str) -> dict[str, Any]:
        """The file, for JSON."""
        frames = [
            {key: value for key, value in frame._asdict().items() if value is not None}
            for frame in self._frames
        ]
        return {
            "$schema": SPEEDSCOPE_SCHEMA,
            "name": name,
            "exporter": EXPORTER,
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": self._profiles,
        }
