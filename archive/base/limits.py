"""Bounds on the memory and work that hostile input may take.

Real archives stay far below each default. Seen in real archives: 95-fold inflation, call stacks of 60 frames,
values 120 deep.
"""

from __future__ import annotations

from dataclasses import fields

from archive.base.deadline import check_time
from archive.base.errors import LimitError
from archive.base.quick_dataclass import dataclass

MEMORY = 64 << 20
"""Bytes of memory that even the smallest file may take."""
MEMORY_PER_BYTE = 256
"""Bytes of memory that each byte of a file may take on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one file may ask for; exceeding one raises ``LimitError``.

    Only ``compared_bytes`` raises nothing: ``verify`` does not compare texts beyond it, and says so.

    Attributes:
        memory: bytes of memory for everything derived from the file: inflated records, instructions, columns,
            lines, texts. None: 64 MiB plus 256 times the file's size.
        depth: values inside one another, in a pickle that is read as inert values.
        frames: frames of one inlined call stack.
        name_bytes: length of one name: of a record, of a global in a pickle, of the attribute path to a
            lowered module.
        output: bytes of one failure's explanation; for a log four times as many, plus 256 for each byte of
            the log.
        work: steps in which one failure is explained; for a log sixteen times as many, plus four for each
            byte of the log. A step looks up a handle, or reads 4 KB of source; asking one of many
            models takes 16.
        dimensions: of one tensor: four times as many as most of PyTorch's operators take.
        effect_depth: sources, values and constants of effects inside one another.
        compared_bytes: text that ``verify`` reads to compare sources; those that share pieces may be longer
            than the file.
    """

    memory: int | None = None
    depth: int = 1_000
    frames: int = 4_096
    name_bytes: int = 4_096
    output: int = 1 << 24
    work: int = 1 << 18
    dimensions: int = 256
    effect_depth: int = 100
    compared_bytes: int = 1 << 30

    def allowance(self, size: int) -> Allowance:
        """The allowance of a file that is opened now; ``size``: of the file, in bytes."""
        memory = MEMORY + MEMORY_PER_BYTE * size if self.memory is None else self.memory
        return Allowance(self, memory)

    def __repr__(self) -> str:
        """The bounds that are not the default ones."""
        changed = (
            f"{field.name}={value}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        )
        return f"Limits({', '.join(changed)})"


class Allowance:
    """The memory that one file may take, and how much of it is in use.

    Made by :meth:`Limits.allowance`, one for each opened file; :mod:`archive.base.memory` says who asks it.

    Args:
        limits: the bounds besides memory.
        memory: bytes that may be in use at once.
        whole: the allowance that this is a part of; what is taken from the part is taken from it, too.

    Attributes:
        taken: bytes in use.
        peak: the most bytes that were in use.
    """

    __slots__ = ("limits", "memory", "peak", "taken", "whole")

    def __init__(self, limits: Limits, memory: int, whole: Allowance | None = None) -> None:
        self.limits = limits
        self.memory = memory
        self.whole = whole
        self.taken = 0
        self.peak = 0

    def take(self, count: int, what: str = "", record: str | None = None, place: str | None = None) -> None:
        """Ask for memory that stays in use.

        Args:
            count: bytes.
            what: the things that they are for, in the plural, for the message.
            record: the record that asks for them.
            place: where in the record.
        """
        outermost = self
        while outermost.whole is not None:
            outermost = outermost.whole
        wanted = outermost.taken + count
        if wanted > outermost.memory:
            raise LimitError("memory", outermost.memory, wanted, what=what, record=record, place=place)
        each: Allowance | None = self
        while each is not None:
            each.taken += count
            if each.taken > each.peak:  # noqa: PLR1730 (asked very often)
                each.peak = each.taken
            each = each.whole

    @property
    def left(self) -> int:
        """Bytes that may still be taken."""
        return self.memory - self.taken if self.whole is None else self.whole.left

    def give(self, count: int) -> None:
        """Return bytes that are no longer in use."""
        each: Allowance | None = self
        while each is not None:
            each.taken -= count
            each = each.whole


DEFAULT_LIMITS = Limits()


class Steps:
    """The steps that were taken, out of those allowed.

    Args:
        most: the steps that may be taken, a value of ``Limits.work``.

    Attributes:
        most: as given.
        taken: the steps taken so far.
    """

    __slots__ = ("most", "taken")

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, steps: int = 1) -> None:
        """Count steps, before they are taken.

        Raises:
            LateError: the deadline of the work has passed.
        """
        check_time()
        self.taken += steps
        if self.taken > self.most:
            raise LimitError("work", self.most, self.taken)
