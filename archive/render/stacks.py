"""Sizes → what viewers of flame graphs read: ``sizes --format folded`` and ``--format speedscope``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.stacks import Speedscope, StackFrame, folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.describe.sizes.measure import Measures


class FoldedSizes:
    """Folded stacks; of several files, the first frame of each is its file.

    Args:
        many: whether there may be several files.
        since_base: write two numbers, those of the old file and of the new one; a file without an old one has
            0 in its place.
    """

    head = tail = ""

    def __init__(self, *, many: bool, since_base: bool) -> None:
        self._many, self._since_base = many, since_base

    def lines(self, file: str, measures: Measures) -> Iterator[str]:
        """The lines of a file."""
        first = (file,) if self._many else ()
        new, old = measures.stacks, measures.base.stacks if measures.base else {}
        yield from folded(
            (
                (*first, *stack),
                [old.get(stack, 0), new.get(stack, 0)] if self._since_base else [new[stack]],
            )
            for stack in dict.fromkeys([*new, *old])
        )


class SpeedscopeSizes:
    """A file for speedscope that has a profile for each file."""

    head = ""

    def __init__(self) -> None:
        self._made = Speedscope()

    def lines(self, file: str, measures: Measures) -> Iterator[str]:
        """Nothing yet, since all profiles share their frames."""
        stacks = ((map(_frame, stack), size) for stack, size in measures.stacks.items() if size)
        self._made.add_bytes(one_line(file), stacks)
        yield from ()

    @property
    def tail(self) -> str:
        """The file."""
        return json.dumps(self._made.facts("sizes")) + "\n"


def _frame(name: str) -> StackFrame:
    return StackFrame(one_line(name))
