"""Writes an archive again, with other debug records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.backend.lower.padding import padding
from archive.container.container import member_from, new_member, write_archive
from archive.container.serialization_id import RECORD_NAME, renewed_id
from archive.formats.record_kinds import VERSION_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from archive.reader.archive import Archive


LOWERED_CODE, CODE_BODY = "code/torch/jit/LoweredModule/", 4
"""Start of the records that hold lowered modules' code, and the blanks before its statements."""


def padded_code(opened: Archive) -> dict[str, bytes]:
    """The code of lowered modules that PyTorch compiles quickly only with a comment behind it."""
    padded = {}
    for name, record in opened.records.items():
        if name.startswith(LOWERED_CODE) and name.endswith(".py"):
            source = bytes(record.view())
            if comment := padding(source, CODE_BODY):
                padded[name] = source + comment
    return padded


def rewrite(file: BinaryIO, opened: Archive, records: Mapping[str, bytes]) -> int:
    """Write an archive with records replaced, and new ones before its ``version``; its length in bytes."""
    held = opened.container.records
    members = [
        new_member(name, records[name]) if name in records else member_from(record)
        for name, record in held.items()
        if name != RECORD_NAME
    ]
    added = [new_member(name, data) for name, data in records.items() if name not in held]
    place = next((n for n, name in enumerate(held) if name in VERSION_RECORDS), len(members))
    members[place:place] = added
    found = held[RECORD_NAME].view() if RECORD_NAME in held else None
    if found is not None:
        members.append(new_member(RECORD_NAME, renewed_id(members, held.values(), found)))
    return write_archive(file, opened.root, members)
