"""The records of a migrated archive, in the order of its target, with the records that state its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.container.container import member_from, new_member
from archive.container.serialization_id import RECORD_NAME, renewed_id, serialization_id
from archive.formats.record_kinds import (
    BYTECODE,
    BYTEORDER,
    CALLSTACK_MAP,
    DELEGATED,
    METHOD_HANDLES,
    MIGRATED,
    MODULE_PATHS,
    VERSION_RECORDS,
    kind_of,
)
from archive.rewrite.migrate.aside import is_format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.container.container import Member
    from archive.container.record import Record
    from archive.formats.releases import Release

LITTLE = b"little"
HIDDEN_FROM = 6
"""The first archive version that is kept in ``.data/version``; earlier ones are in ``version``."""
HIDDEN_SINCE = (1, 9)
"""The first release that writes ``.data/version``."""
BEHIND_BYTECODE = (
    MODULE_PATHS,
    METHOD_HANDLES,
    DELEGATED,
    CALLSTACK_MAP,
)


def format_records(records: Mapping[str, Record], release: Release | None) -> dict[str, bytes]:
    """The records that tell how an archive is to be read, by name: as a release writes them, or unchanged."""
    if release is None:
        return {name: bytes(record.view()) for name, record in records.items() if is_format(name)}
    formats = {}
    version = next((name for name in VERSION_RECORDS if name in records), None)
    for name, record in records.items():
        if is_format(name) and name not in (*VERSION_RECORDS, BYTEORDER):
            formats[name] = bytes(record.view())
    if version is not None:
        data = bytes(records[version].view())
        digits = data.strip()
        hidden = digits.isdigit() and len(digits) < 10 and int(digits) >= HIDDEN_FROM  # noqa: PLR2004
        formats[VERSION_RECORDS[0 if hidden and release.first >= HIDDEN_SINCE else 1]] = data
    if release.byteorder:
        formats[BYTEORDER] = bytes(records[BYTEORDER].view()) if BYTEORDER in records else LITTLE
    return formats


def ordered(
    records: Mapping[str, Record],
    rewritten: Mapping[str, bytes],
    formats: Mapping[str, bytes],
    release: Release | None,
    aside: bytes | None,
) -> list[Member]:
    """All records in a release's order.

    Args:
        records: those of the original.
        rewritten: new debug records and code, by name; debug records that are not among them are dropped.
        formats: from :func:`format_records`.
        release: the release; None keeps the order of the original.
        aside: the record that keeps the original; None for none.
    """
    names = [
        name
        for name in records
        if not is_format(name)
        and name not in (RECORD_NAME, MIGRATED)
        and (name in rewritten or not kind_of(name).is_debug)
    ]
    new = [name for name in (*BEHIND_BYTECODE, *rewritten) if name in rewritten and name not in names]
    at = names.index(BYTECODE) + 1 if BYTECODE in names else len(names)
    names[at:at] = list(dict.fromkeys(new))
    members = [_member(name, records, rewritten) for name in names]
    if aside is not None:
        members.insert(0, new_member(MIGRATED, aside, compress=False))
    told = [_member(name, records, formats) for name in formats]
    first = next(iter(records), "") in formats if release is None else release.version_first
    members = told + members if first else members + told
    if RECORD_NAME in records if release is None else release.byteorder:
        members.append(new_member(RECORD_NAME, _id(members, records)))
    return members


def _id(members: Sequence[Member], records: Mapping[str, Record]) -> bytes:
    """The serialization id, by the rules of the original's writer; where it had none, as PyTorch on Linux."""
    if RECORD_NAME in records:
        return renewed_id(members, records.values(), records[RECORD_NAME].view())
    return serialization_id(members).encode()


def _member(name: str, records: Mapping[str, Record], rewritten: Mapping[str, bytes]) -> Member:
    """A record of the result: the original's, compressed as it was, unless its bytes change."""
    if name not in rewritten:
        return member_from(records[name])
    if name in records and records[name].view() == rewritten[name]:
        return member_from(records[name])
    return new_member(name, rewritten[name])
