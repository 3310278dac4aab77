"""Bounds on what hostile input may cost.

Real archives stay far below each default. Seen in real archives: records of 690 MB, 1 M rows in one record,
95-fold inflation, 2,600 entries, call stacks of 60 frames.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one archive may ask for; exceeding one raises ``LimitError``.

    ``compared_bytes`` alone raises nothing: ``verify`` does not compare texts beyond it, and says so.

    Attributes:
        entries: files in the archive.
        name_bytes: length of one record's name.
        record_bytes: inflated size of one deflated record.
        inflated_bytes: inflated size of all deflated records that are read, together.
        inflation: inflated size over stored size of one record, once it exceeds ``inflation_from``; likewise
            the length of a source's text over its record's size.
        inflation_from: bytes that even the smallest record may inflate to, and any text may have.
        pickle_ops: pickle opcodes that are read together.
        pickle_depth: values inside one another, in a pickle that is read as inert values.
        plain_ops: opcodes of a pickle that Python itself wrote (``torch.save``), which are read one by one.
        plain_bytes: length of such a pickle.
        global_bytes: module and name of one global in a pickle.
        shared_items: items of tuples and lists that are shared, counted each time; or as many as there are
            opcodes, if those are more.
        stack_frames: frames of one inlined call stack.
        symbolication_bytes: texts of all frames of one symbolication, and its module hierarchy.
        dimensions: of one tensor.
        path_length: characters of the attribute path to a lowered module.
        blob_values: values and handles in the blobs of all lowered modules, shared ones counted each time.
        companion_inflation: bytes that a companion's columns, strings and texts may each have, by byte of the
            file, beyond ``companion_from``. (Seen: 9,000, of a million rows that differ by little.)
        companion_from: bytes that those of even the smallest companion may have.
        effect_depth: sources, values and constants of effects inside one another.
        effect_bytes: the effects of all methods as text, about, shared parts counted each time.
        compared_bytes: text that ``verify`` reads to compare sources; those that share pieces may be longer
            than the file.
    """

    entries: int = 1_000_000
    name_bytes: int = 4096
    record_bytes: int = 8 << 30
    inflated_bytes: int = 16 << 30
    inflation: int = 1_100
    inflation_from: int = 1 << 20
    pickle_ops: int = 1 << 28
    pickle_depth: int = 1_000
    plain_ops: int = 1 << 20
    plain_bytes: int = 1 << 26
    global_bytes: int = 4096
    shared_items: int = 1 << 20
    stack_frames: int = 4_096
    symbolication_bytes: int = 1 << 28
    dimensions: int = 256
    path_length: int = 4096
    blob_values: int = 1 << 22
    effect_depth: int = 100
    effect_bytes: int = 1 << 24
    compared_bytes: int = 1 << 30
    companion_inflation: int = 20_000
    companion_from: int = 1 << 25

    def __repr__(self) -> str:
        """The bounds that are not the default ones."""
        changed = (
            f"{field.name}={value}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        )
        return f"Limits({', '.join(changed)})"


DEFAULT_LIMITS = Limits()
