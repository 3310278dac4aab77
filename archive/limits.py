"""How much hostile input may cost.

Each bound has a default that real archives stay far under. Seen in real archives: records of
690 MB, 1 M rows in one record, 95-fold inflation, 2,600 entries, call stacks of 60 frames.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one archive may ask for; exceeding one raises ``LimitError``.

    Attributes:
        entries: files in the archive.
        name_bytes: length of one record's name.
        record_bytes: inflated size of one deflated record.
        inflated_bytes: inflated size of all deflated records that are read, together.
        inflation: inflated size over stored size of one record, once it exceeds 1 MiB.
        pickle_ops: pickle opcodes that are read together.
        pickle_depth: open containers (MARKs and nested values) in one pickle.
        stack_frames: frames of one inlined call stack.
    """

    entries: int = 1_000_000
    name_bytes: int = 4096
    record_bytes: int = 8 << 30
    inflated_bytes: int = 16 << 30
    inflation: int = 1_100
    pickle_ops: int = 1 << 28
    pickle_depth: int = 1_000
    stack_frames: int = 4_096


DEFAULT_LIMITS = Limits()
