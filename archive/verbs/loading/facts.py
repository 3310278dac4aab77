"""What the checks look at, and what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from archive.base.columns import Ints
    from archive.debuginfo.tables import HandleTable, MethodTable
    from archive.formats.bytecode import Bytecode
    from archive.reader.archive import Archive


class ParsedRecords(NamedTuple):
    """What the checks look at; None where there is none, or none that can be read.

    Attributes:
        archive: the archive.
        readable: the records that can be read.
        tags: those of all source ranges, sorted.
        handles: the call-stack map.
        methods: the handles of the methods' instructions.
        bytecode: the methods of the lite interpreter.
    """

    archive: Archive
    readable: Collection[str]
    tags: Ints | None
    handles: HandleTable | None
    methods: MethodTable | None
    bytecode: Bytecode | None


class Fault(NamedTuple):
    """What a check finds in one record.

    Attributes:
        record: where; "" for the archive as a whole.
        what: what is wrong, in the plural; "" for something about the record as a whole.
        found: numbers of what is wrong.
        describe: place and problem of one of them.
    """

    record: str
    what: str
    found: Ints | list[int]
    describe: Callable[[int], tuple[str, str]]


def whole(record: str, problem: str) -> Fault:
    """Something about a whole record."""
    return Fault(record, "", [0], lambda _: ("", problem))
