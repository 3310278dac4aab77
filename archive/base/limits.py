"""Bounds on what hostile input may cost.

Real archives stay far below each default. Seen in real archives: 95-fold inflation, call stacks of 60 frames,
values 120 deep.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from archive.base.allowance import Allowance

MEMORY = 64 << 20
"""Bytes of memory that even the smallest file may cost."""
MEMORY_PER_BYTE = 256
"""Bytes of memory that each byte of a file may cost besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one file may ask for; exceeding one raises ``LimitError``.

    ``compared_bytes`` alone raises nothing: ``verify`` does not compare texts beyond it, and says so.

    Attributes:
        memory: bytes of memory for all that is derived from the file: inflated records, instructions,
            columns, lines, texts. None: 64 MiB and 256 times the file's size.
        depth: values inside one another, in a pickle that is read as inert values.
        frames: frames of one inlined call stack.
        name_bytes: length of one name: of a record, of a global in a pickle, of the attribute path to a
            lowered module.
        output: bytes of one failure's explanation; of a log's explanations four times as many, and 256 more
            for each byte of the log.
        work: steps in which one failure is explained; of a log sixteen times as many, and four more for each
            byte of the log. A step looks up a handle, or looks through 4 KB of source.
        dimensions: of one tensor.
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


DEFAULT_LIMITS = Limits()
