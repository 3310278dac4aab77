"""The columns of a companion that only a join reads: ``member.kind`` and ``file.digest``.

``member.kind`` says for each record of the archive, in the archive's order, where a join takes it from, and
how it was stored: ``origin % 8 + 8 * deflated + 16 * no_crc + 32 * (origin // 8)``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import CALLSTACK_MAP, METHOD_HANDLES, MODULE_PATHS
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Int64sl, Struct

FILE_DIGEST = Layout("file digest" / Struct("value" / Int64sl * "blake2b of the archive, of 8 bytes"))


class Origin(IntEnum):
    """Where a join takes a record from."""

    KEPT = 0
    """The record is in what was left of the archive."""
    RANGES = 1
    """The next record of source ranges."""
    CALLSTACKS = 2
    """``callstack_debug_map.pkl``, made from the columns."""
    METHODS = 3
    """``mobile_debug_handles.pkl``, made from the columns."""
    PATHS = 4
    """``mobile_debug.pkl``, made from the columns."""
    RAW = 5
    """The next raw record."""
    COMPUTED = 6
    """The serialization id, if PyTorch on Linux computes it from the other records; otherwise it is raw."""
    PROGRAM = 7
    """An exported program: what was left of it, and the metadata of its nodes."""
    OBJECT = 8
    """A shared object: what was left of it, and the bytes after its segments."""


ORIGIN_BY_NAME = {
    CALLSTACK_MAP: Origin.CALLSTACKS,
    METHOD_HANDLES: Origin.METHODS,
    MODULE_PATHS: Origin.PATHS,
    RECORD_NAME: Origin.COMPUTED,
}
"""The records with fixed names that a join makes from columns, or computes; raw if that gives other bytes."""


class MemberKind(NamedTuple):
    """A value of ``member.kind``; with ``no_crc``, the zip's directory has 0 for the crc: not computed."""

    origin: Origin
    deflated: bool
    no_crc: bool

    @classmethod
    def of(cls, value: int) -> MemberKind:
        """The kind that a value of the column stands for."""
        origin = value % _DEFLATED + value // _LATER * _DEFLATED
        return cls(Origin(origin), bool(value & _DEFLATED), bool(value & _NO_CRC))

    @property
    def value(self) -> int:
        """The value of the column."""
        later, origin = divmod(self.origin, _DEFLATED)
        return origin + _DEFLATED * self.deflated + _NO_CRC * self.no_crc + _LATER * later


_DEFLATED, _NO_CRC, _LATER = 8, 16, 32


def digest_value(digest: bytes) -> int:
    """The value of ``file.digest``: the blake2b digest of the archive, of 8 bytes, as a signed integer."""
    value: int = FILE_DIGEST.read(digest).value
    return value
