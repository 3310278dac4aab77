"""The input of the checks, parsed records, and their output, faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.formats.bytecode import Bytecode
    from archive.reader.archive import Archive


class ParsedRecords(NamedTuple):
    """The records that checks look at, parsed; None for one that is missing or cannot be read.

    Attributes:
        archive: the archive.
        readable: the names of the records that can be read.
        tags: the tags of all source ranges, sorted (n).
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
    """The places in one record that fail a check.

    Attributes:
        record: the record; "" for the archive as a whole.
        what: the name of the fault, in the plural; "" for a fault of the record as a whole.
        found: the numbers of what is wrong, as ``describe`` takes them (n).
        describe: number → place and problem.
    """

    record: str
    what: str
    found: Ints | list[int]
    describe: Callable[[int], tuple[str, str]]


def whole(record: str, problem: str) -> Fault:
    """A fault of a record as a whole."""
    return Fault(record, "", [0], lambda _: ("", problem))
