"""Records that are compared by their bytes, and how records are stored.

Records whose content other modules compare as tensors, code, values and so on are *understood*. Every other
one is compared here, so that nothing of a file is left out.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import counted
from archive.compare.alignment import unified
from archive.compare.changes import Change, added, changed, gone, renamed, text_changed
from archive.compare.equality import equal, same_bytes
from archive.compare.sameness import Level, level_of, version_of_operators
from archive.compare.sourceless import COPIES, SOURCE_KINDS, sourceless, weights_in, without_weights
from archive.compare.tensors import names_tensors_of
from archive.formats.record_kinds import RecordKind
from archive.formats.tensors.exported import TABLE
from archive.reader.recognition.kinds import PROGRAM_KINDS, kind_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord

TEXT_BYTES = 1 << 20
"""Bytes of a text whose lines are compared."""
GROUPS = {
    RecordKind.TENSOR: {"tensor"},
    RecordKind.MODULES: {"tensor", "attribute", "class"},
    RecordKind.CONSTANTS: {"tensor", "attribute", "class"},
    RecordKind.OBJECT: {"tensor", "value"},
    RecordKind.CODE: {"class", "function", "method", "code"},
    RecordKind.BYTECODE: {"bytecode", "class"},
    RecordKind.PROGRAM: {"node", "program", "metadata"},
    RecordKind.WEIGHTS: {"tensor", "program"},
}
"""What rows about a kind of understood records call things: then bytes differ because of them."""


def record_changes(
    old: Archive, new: Archive, understood: tuple[Collection[str], Collection[str]]
) -> Iterator[Change]:
    """What differs in the records that nothing else compares.

    Args:
        understood: names of the records of each that something else compares.
    """
    versions = [version_of_operators(archive) for archive in (old, new)]
    if versions[0] != versions[1]:
        words = [
            "" if version is None else version.decode("utf-8", "backslashreplace") for version in versions
        ]
        yield changed(Level.MODEL, "version of operators", "version", *words)
    was = {name: record for name, record in old.records.items() if name not in understood[0]}
    now = {name: record for name, record in new.records.items() if name not in understood[1]}
    new_names = _renamed(was, now)
    old_names = set(new_names.values())
    for name, record in was.items():
        if name in now:
            if not same_bytes(record, now[name]):
                yield from _rows((old, new), record, now[name])
        elif name not in old_names:
            kind = str(kind_in(old.recognised.kind, name))
            yield gone(_level_alone(old, name, new), kind, name, f"{record.size:,} bytes")
    for name, record in now.items():
        kind = str(kind_in(new.recognised.kind, name))
        if name in new_names:
            yield renamed(level_of(new, name), kind, name, new_names[name])
        elif name not in was:
            yield added(_level_alone(new, name, old), kind, name, f"{record.size:,} bytes")


def _level_alone(archive: Archive, name: str, other: Archive) -> Level:
    """What a record is about that the other archive lacks: one without programs has its tensors elsewhere."""
    if TABLE.fullmatch(name) and other.recognised.kind not in PROGRAM_KINDS:
        return Level.LAYOUT
    return level_of(archive, name)


def _renamed(was: dict[str, ReadableRecord], now: dict[str, ReadableRecord]) -> dict[str, str]:
    """The old names of records that came and have the bytes of one that is gone."""
    left = {(same.size, same.crc32): name for name, same in was.items() if name not in now and same.size}
    old_names = {}
    for name, record in now.items():
        other = left.get((record.size, record.crc32)) if name not in was else None
        if other is not None and same_bytes(was[other], record):
            old_names[name] = other
            del left[record.size, record.crc32]
    return old_names


def _rows(archives: tuple[Archive, Archive], old: ReadableRecord, new: ReadableRecord) -> Iterator[Change]:
    """What differs in two records of one name. Weights of compiled models that have names are tensors."""
    kind, level = kind_in(archives[0].recognised.kind, new.name), level_of(archives[0], new.name)
    if kind not in SOURCE_KINDS:
        yield _changed(level, kind, old, new)
        return
    memory.take(COPIES * (old.size + new.size), "compiled models")
    weights = [weights_in(record.view(), kind) for record in (old, new)]
    if not equal(*weights) and not all(names_tensors_of(archive, new.name) for archive in archives):
        was, now = (f"{len(data):,} bytes" for data in weights)
        yield changed(
            level, "weights", new.name, was, f"{now}; which tensors is not known" if was == now else now
        )
    if sourceless(old.view(), kind) != sourceless(new.view(), kind):
        yield _changed(level, kind, old, new)
    elif not equal(*(without_weights(record.view(), kind) for record in (old, new))):
        yield _changed(Level.DEBUG, kind, old, new)


def _changed(level: Level, kind: RecordKind, old: ReadableRecord, new: ReadableRecord) -> Change:
    what = str(kind)
    texts = [_text(record) for record in (old, new)]
    if all(text is not None for text in texts) and any("\n" in str(text).strip() for text in texts):
        return text_changed(level, what, new.name, "text", unified(str(texts[0]), str(texts[1])))
    words = [
        f"{record.size:,} bytes" if text is None else text.strip()
        for record, text in zip((old, new), texts, strict=True)
    ]
    return changed(level, what, new.name, words[0], _other(*words))


def _other(was: str, now: str) -> str:
    """The word for what something has become that differs."""
    return "other bytes" if was == now else now


def _text(record: ReadableRecord) -> str | None:
    """A record as text; None where it isn't text, or too long."""
    if record.size > TEXT_BYTES:
        return None
    try:
        text = bytes(record.view()).decode()
    except UnicodeDecodeError:
        return None
    return text if all(character.isprintable() or character in "\n\r\t" for character in text) else None


def layout_changes(old: Archive, new: Archive) -> Iterator[Change]:
    """How records are stored otherwise: folder, names, order, compression."""
    if old.root != new.root:
        yield _layout("folder of all records", old.root, new.root)
    was, now = old.records, new.records
    common = [name for name in was if name in now]
    if len(common) != len(was) or len(common) != len(now):
        yield _layout(
            "records",
            f"{len(was):,}, {len(was) - len(common):,} of which are gone",
            f"{len(now):,}, {len(now) - len(common):,} of which are new",
        )
    if common != [name for name in now if name in was]:
        yield _layout("order of records", "", "")
    packed = [name for name in common if was[name].compression != now[name].compression]
    if packed:
        name = packed[0]
        yield _layout(
            f"compression of {counted(len(packed), 'record')}",
            f"{name} {was[name].compression}",
            now[name].compression,
        )


def rewritten(
    old: Archive,
    new: Archive,
    understood: tuple[Collection[str], Collection[str]],
    changes: Collection[Change],
    unread: Collection[tuple[str, str]],
) -> Iterator[Change]:
    """Understood records whose bytes differ, though what they say is the same.

    Where that could not be compared, as of damaged bytes, those of one name differ in what they are about.

    Args:
        unread: the pairs of records, old and new, of which that is so.
    """
    names, things = {change.name for change in changes}, {change.what for change in changes}
    unknown = set(chain.from_iterable(unread))
    for name in old.records:
        if name not in understood[0] or name not in understood[1] or name not in new.records or name in names:
            continue
        was, now = old.records[name], new.records[name]
        if name in unknown:
            if (name, name) in unread and not same_bytes(was, now):
                kind = str(kind_in(old.recognised.kind, name))
                sizes = f"{was.size:,} bytes", f"{now.size:,} bytes"
                yield changed(level_of(old, name), kind, name, sizes[0], _other(*sizes))
            continue
        group = GROUPS.get(kind_in(old.recognised.kind, name), set())
        if not group & things and not same_bytes(was, now):
            yield changed(Level.LAYOUT, "record", name, "the same", "written otherwise")


def _layout(name: str, old: str, new: str) -> Change:
    return changed(Level.LAYOUT, "zip", name, old, new)
