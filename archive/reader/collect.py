"""An archive's debug information as facts for a companion, checked to give every record again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.debuginfo.model import Generation
from archive.formats import callstack_map, method_handles
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import code_of, holds_ranges, kind_of
from archive.normalform.form import Facts
from archive.normalform.handles import pack_handles, pack_methods, pack_paths
from archive.normalform.pool import Pool, table_of
from archive.normalform.ranges import pack_ranges
from archive.normalform.records import GENERATIONS, DebugRecords

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.columns import Ints
    from archive.container.container import Record
    from archive.reader.archive import Archive

    Columns = dict[str, Ints]

KEPT, RANGES, CALLSTACKS, METHODS, PATHS, RAW_RECORD, COMPUTED = range(7)
"""What ``member.kind`` says of a record: that it stays in the archive, or what makes it again. COMPUTED is
the serialization id, where it is what PyTorch on Linux computes from the other records; any other is kept."""
DEFLATED, NO_CRC = 8, 16
"""Added to it: how the record was stored."""
NAMED = {
    callstack_map.CALLSTACK_MAP: CALLSTACKS,
    method_handles.METHOD_HANDLES: METHODS,
    method_handles.MODULE_PATHS: PATHS,
    RECORD_NAME: COMPUTED,
}


def collect(archive: Archive, others: Collection[str] = ()) -> Facts:
    """All debug information of an archive.

    Args:
        archive: the archive.
        others: names of further records to keep as they are.

    Raises:
        ArchiveError: there is none, or it cannot be read.
    """
    records = archive.container.records
    if not others and not any(kind_of(name).is_debug for name in records):
        raise ArchiveError("no debug info in it", file=archive.file)
    pool = Pool()
    columns = pack_ranges(archive.range_table, pool)
    columns |= _places(archive, columns)
    if archive.handle_table is not None:
        columns |= _handles(archive, pool)
    if archive.method_table is not None:
        columns |= pack_methods(archive.method_table, pool)
    if archive.path_table is not None:
        columns |= pack_paths(archive.path_table, pool)
    columns["file.top"] = pool.numbers([archive.top.encode("utf-8", "surrogateescape")])
    columns["file.qualified_top"] = pool.numbers([archive.qualified_top.encode("utf-8", "surrogateescape")])
    facts = Facts(archive_id(records), columns, table_of(pool.strings()), b"")
    raw = _not_regenerated(facts, records) | _foreign_id(records)
    raw |= {name: bytes(records[name].view()) for name in others}
    raw = {name: raw[name] for name in records if name in raw}
    if raw:
        columns["raw.name"] = pool.numbers(name.encode("utf-8", "surrogateescape") for name in raw)
        columns["raw.length"] = np.array([len(data) for data in raw.values()], np.int64)
    columns |= _members(records, raw)
    return replace(facts, strings=table_of(pool.strings()), raw=b"".join(raw.values()))


def _handles(archive: Archive, pool: Pool) -> Columns:
    table = archive.handle_table
    assert table is not None  # noqa: S101 (the caller looked)
    generation = callstack_map.generation(table)
    columns = pack_handles(table, pool)
    columns["file.callstacks"] = np.array([GENERATIONS.index(generation)])
    if generation is Generation.CALLSTACK_3:
        strings = pool.strings()
        known = [
            strings[name].decode("utf-8", "replace") in archive.classes for name in columns["module.type"]
        ]
        columns["module.known"] = np.array(known, np.int64)
    return columns


def _places(archive: Archive, columns: Columns) -> Columns:
    """Line and column of each row in its generated code, both from 0; line -1 where there is no code (n)."""
    table = archive.range_table
    line, start = np.full(len(table), -1), np.zeros(len(table), np.int64)
    for number, name in enumerate(table.names):
        code = archive.records.get(code_of(name))
        rows = slice(int(table.first[number]), int(table.first[number + 1]))
        if code is None or not holds_ranges(name) or (columns["row.offset"][rows] < 0).any():
            continue
        starts = np.append(0, np.flatnonzero(np.frombuffer(code.view(), np.uint8) == ord("\n")) + 1)
        line[rows] = np.searchsorted(starts, table.offset[rows], "right") - 1
        start[rows] = starts[line[rows]]
    return {"row.line": line, "row.column": table.offset - start}


def _not_regenerated(facts: Facts, records: Mapping[str, Record]) -> dict[str, bytes]:
    """The debug records that the columns do not give again to the byte."""
    made = DebugRecords(facts)
    return {
        name: bytes(record.view())
        for name, record in records.items()
        if kind_of(name).is_debug and (name not in made or made[name] != record.view())
    }


def _foreign_id(records: Mapping[str, Record]) -> dict[str, bytes]:
    """The serialization id, if PyTorch on Linux would compute another one from these records."""
    if RECORD_NAME not in records:
        return {}
    found = bytes(records[RECORD_NAME].view())
    return {} if found == serialization_id(records.values()).encode() else {RECORD_NAME: found}


def _members(records: Mapping[str, Record], raw: Mapping[str, bytes]) -> Columns:
    """What a join has to know of the archive's records, in their order."""
    kinds = []
    for name, record in records.items():
        kind = RAW_RECORD if name in raw else _kind(name)
        no_crc = record.crc32 == 0 and record.size > 0
        kinds.append(kind + DEFLATED * record.entry.deflated + NO_CRC * no_crc)
    columns = {"member.kind": np.array(kinds, np.int64)}
    modified = np.array([record.entry.modified for record in records.values()], np.int64)
    return columns | ({"member.modified": modified} if modified.any() else {})


def _kind(name: str) -> int:
    return NAMED.get(name, RANGES if kind_of(name).is_debug else KEPT)
