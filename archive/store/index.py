"""The index of a store: the facts of all companions in one SQLite file.

The index is written as a whole, as all files are: from memory to a draft, which then takes its name. So no
process ever sees half of one, none waits for another, and a file system without locks will do. Each row has
the state of the companion's file (number, size, time of change); rows whose file is gone or has changed count
for nothing, and files without a row are read. If two processes write an index at once, one loses rows,
and the next process that opens the store reads these files again.

What the file holds is not trusted: its tables must be those that are written here, without triggers and
views, its pages must be sound, and whatever is wrong makes it worthless, never an error.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base.errors import ArchiveError
from archive.formats.release_label import checked_label
from archive.reader.facts import Facts
from archive.store.entries import StoreEntry
from archive.store.kept import MOST_TIME
from archive.store.opened import Signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.store.folder import Folder

APPLICATION_ID, VERSION = 0x50544442, 4
"""``PRAGMA application_id`` and ``user_version`` of an index."""
TABLE = """CREATE TABLE companions (
    archive_id TEXT PRIMARY KEY,
    prefix INTEGER,
    serialization_id TEXT,
    top TEXT,
    qualified_top TEXT,
    handles BLOB,
    code TEXT,
    redacted_id TEXT,
    root TEXT,
    file TEXT,
    added INTEGER,
    size INTEGER,
    digest TEXT,
    labels TEXT,
    body TEXT,
    base TEXT,
    depth INTEGER,
    file_number INTEGER,
    kept_size INTEGER,
    changed INTEGER
) WITHOUT ROWID"""
TYPES = (str, int, str, str, str, bytes, str, str, str, str, int, int, str, str, str, str, int, int, int, int)
INSERT = f"INSERT INTO companions VALUES ({', '.join('?' * len(TYPES))})"  # noqa: S608 (of constants)
MOST_BYTES = 1 << 30
"""Bytes of an index that is read."""
LEAST_HANDLES, HANDLES_A_BYTE = 1 << 22, 16
"""Inflated bytes of all handles that any index may have, and those that each byte of it allows besides.

A run takes 16 bytes here and about 160 in memory."""


def build_index(entries: Iterable[StoreEntry]) -> bytes:
    """An index, as the bytes of a file."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        memory.execute(f"PRAGMA user_version = {VERSION}")
        memory.execute(TABLE)
        rows = map(_row, sorted(entries, key=lambda entry: entry.archive_id))
        memory.executemany(INSERT, rows)
        memory.commit()
        return memory.serialize()


def read_index(folder: Folder) -> dict[str, StoreEntry]:
    """The entries of an index, by archive id; none if the index is missing, or cannot be trusted.

    It is read, and never mapped: whoever may write to the folder may cut it short meanwhile.
    """
    try:
        data = folder.read(folder.index, MOST_BYTES)
        return {entry.archive_id: entry for entry in _entries(data)}
    except (ArchiveError, OSError):
        return {}
    except (sqlite3.Error, zlib.error, ValueError, TypeError, OverflowError, RecursionError, MemoryError):
        return {}


def _entries(data: bytes) -> Iterator[StoreEntry]:
    """The entries of an index."""
    if not data:
        raise ValueError
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.execute("PRAGMA trusted_schema = OFF")
        memory.execute("PRAGMA cell_size_check = ON")
        memory.deserialize(data)
        memory.execute("PRAGMA query_only = ON")
        pragmas = [
            memory.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        ]
        schema = memory.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        if pragmas != [APPLICATION_ID, VERSION] or schema != [("table", "companions", TABLE)]:
            raise ValueError
        if memory.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
            raise ValueError
        room = LEAST_HANDLES + HANDLES_A_BYTE * len(data)
        for row in memory.execute("SELECT * FROM companions"):
            entry = _entry(row, room)
            room -= 16 * len(entry.facts.handles)
            yield entry


def _row(entry: StoreEntry) -> tuple[object, ...]:
    facts = entry.facts
    # the first handle of each range and the one after its last, as differences
    ends = np.array([(run.start, run.stop) for run in facts.handles], np.int64).ravel()
    return (
        facts.archive_id,
        facts.prefix,
        facts.serialization_id,
        facts.top,
        facts.qualified_top,
        zlib.compress(np.diff(ends, prepend=0).astype("<i8").tobytes()),
        json.dumps(sorted(facts.code)),
        facts.redacted_id,
        entry.root,
        entry.file,
        entry.added,
        entry.size,
        entry.digest,
        json.dumps(entry.labels, ensure_ascii=False),
        entry.body,
        entry.base,
        entry.depth,
        *entry.signature,
    )


def _entry(row: Sequence[Any], room: int) -> StoreEntry:
    if tuple(map(type, row)) != TYPES:
        raise ValueError
    *model, handles, code, redacted_id, root, file, added, size, digest, labels, body, base, depth = row[:-3]
    if not 0 <= added < MOST_TIME:
        raise ValueError
    names = json.loads(code)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError
    archive_id, prefix, serialization_id, top, qualified_top = model
    ranges, records = _unpacked(handles, room), frozenset(names)
    facts = Facts(archive_id, prefix, serialization_id, top, qualified_top, ranges, records, redacted_id)
    known = tuple(map(checked_label, json.loads(labels)))
    return StoreEntry(facts, root, file, added, size, digest, known, body, base, depth, Signature(*row[-3:]))


def _unpacked(data: bytes, room: int) -> tuple[range, ...]:
    """Ranges of handles."""
    engine = zlib.decompressobj()
    inflated = engine.decompress(data, room + 1)  # where 0 would mean: without bound
    if len(inflated) > room:
        raise ValueError
    ends = np.cumsum(np.frombuffer(inflated, "<i8")).tolist()
    if not engine.eof or len(ends) % 2:
        raise ValueError
    return tuple(starmap(range, zip(ends[::2], ends[1::2], strict=True)))
