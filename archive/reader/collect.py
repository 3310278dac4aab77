"""What goes into an archive's companion: its debug information, and the records that it cannot rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import NothingToDoError
from archive.companion.contents import OBJECT_TABLE, Contents, raw_columns
from archive.companion.members import ORIGIN_BY_NAME, MemberKind, Origin
from archive.container.names import as_bytes
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.debuginfo.model import Generation
from archive.formats import callstack_map
from archive.formats.record_kinds import code_of, holds_ranges, kind_of
from archive.normalform.builder import FormBuilder
from archive.normalform.columns import VALUE_WIDTH
from archive.normalform.records import DebugRecords
from archive.reader.line_digests import digests_of
from archive.reader.recognition import SHRUNK_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.columns import Ints
    from archive.container.record import Record
    from archive.formats.record_kinds import MetadataKind, SpareKind
    from archive.normalform.columns import Columns
    from archive.reader.archive import Archive

MOST_LINES = 200_000
"""Lines of code of which digests are made at most: more would not fit into a store's notes."""
LINE_BYTES, NEWLINE = 160, ord("\n")
"""Bytes of memory for each line while digests are computed."""
CODE_BYTES = 1 << 20
"""Bytes of generated code whose lines are looked for at once."""


def collect(
    archive: Archive,
    others: Collection[str] = (),
    *,
    fingerprints: bool = False,
) -> Contents:
    """The contents of an archive's companion. Records that its columns cannot rebuild are in it raw.

    Args:
        others: names of further records to add raw.
        fingerprints: add digests of the lines of its generated code.
    """
    records = archive.container.records
    form = FormBuilder.of(archive.range_table, archive.handle_table, archive.method_table, archive.path_table)
    form.columns |= _code_places(archive)
    packed = _packed_programs(archive, form)
    if archive.handle_table is not None:
        form.columns |= _known_classes(archive, form)
    if fingerprints and (lines := line_digests_of(archive)):
        memory.take(VALUE_WIDTH * sum(map(len, lines.values())), "columns")
        form.columns["code.name"] = form.pool.numbers(map(as_bytes, lines))
        form.columns["code.lines"] = np.array([len(digests) for digests in lines.values()], np.int64)
        form.columns["digest.line"] = np.concatenate(list(lines.values()))
    has_classes = archive.recognised.kind in SHRUNK_KINDS  # torch.save may write any values
    tops = (archive.top, archive.qualified_top) if has_classes else ("", "")
    form.columns["file.top"], form.columns["file.qualified_top"] = (
        form.pool.numbers([as_bytes(top)]) for top in tops
    )
    raw = _not_regenerated(form, records)
    if RECORD_NAME in records:  # raw, if PyTorch on Linux would compute a different one from these records
        recorded = bytes(records[RECORD_NAME].view())
        if recorded != serialization_id(records.values()).encode():
            raw[RECORD_NAME] = recorded
    for name in (*others, *archive.spare.records):
        raw[name] = _raw(records[name])
    raw = {name: raw[name] for name in records if name in raw}
    form.columns |= raw_columns(raw, form.pool)
    cuts = {name: cut for name, cut in archive.spare.cuts.items() if name not in raw}
    if cuts:
        rows = [(len(cut.tail), *cut.table) for cut in cuts.values()]
        names: tuple[str, ...] = ("object.length", *OBJECT_TABLE)
        form.columns |= dict(zip(names, np.array(rows, np.int64).T.copy(), strict=True))
    form.columns |= _members(records, raw, packed, cuts)
    memory.take(sum(2 * len(cut.tail) for cut in cuts.values()), "bytes of shared objects")
    tails = b"".join(cut.tail for cut in cuts.values())
    return Contents(archive.digests.id, form.form(), b"".join(raw.values()), tails)


def check_debug_info(
    archive: Archive,
    kept: Collection[MetadataKind | SpareKind] = (),
    *,
    kept_records: Collection[str] = (),
) -> None:
    """Refuse an archive without debug info.

    Args:
        kept: kinds of debug info that are to stay.
        kept_records: names of debug records that are to stay as they are.

    Raises:
        NothingToDoError: it has none, or only what is to stay.
    """
    debug = {name for name in archive.container.records if kind_of(name).is_debug}
    if not debug.issubset(kept_records):
        return
    kinds = archive.programs.kinds | archive.spare.kinds
    if kinds.issubset(kept):
        stays = sorted({*kinds, *debug})
        but = f" but {', '.join(stays)}, to be kept" if stays else ""
        if archive.programs.whole:
            but += f"; {archive.programs.whole[0]} stays as it is, for its JSON is not as PyTorch writes it"
        raise NothingToDoError(f"no debug info in it{but}", file=archive.file)


def _packed_programs(archive: Archive, form: FormBuilder) -> Collection[str]:
    """Add the metadata of exported programs to a form, and give the names of their records.

    A record that ``json.dumps`` did not write stays as it is: its bytes cannot be rebuilt from its value.
    """
    if not archive.programs:
        return set()
    from archive.normalform.programs import ProgramPacker  # noqa: PLC0415 (few archives have programs)

    packer, left = ProgramPacker(form.pool), archive.programs.left
    for name, record in archive.programs.records.items():
        if record in left:
            packer.add(archive.programs[name])
    columns = packer.columns()
    memory.take(sum(values.nbytes for values in columns.values()), "columns")
    form.columns |= columns
    return left.keys()


def line_digests_of(archive: Archive) -> dict[str, Ints]:
    """The digests of the lines of each code record that has source ranges (n each).

    Empty for an archive without code, or with more than ``MOST_LINES`` lines of it.
    """
    names = (
        [code_of(name) for name in archive.range_records if holds_ranges(name)] if archive.has_code else []
    )
    code = {name: archive.records[name].view() for name in names if name in archive.records}
    lines = sum(int(np.count_nonzero(np.frombuffer(data, np.uint8) == NEWLINE)) + 1 for data in code.values())
    if lines > MOST_LINES:
        return {}
    with memory.lent(LINE_BYTES * lines + sum(map(len, code.values())), "lines of code"):
        return {name: digests_of(bytes(data)) for name, data in code.items()}


def _known_classes(archive: Archive, form: FormBuilder) -> Columns:
    """Which modules of call stacks have a class of the module tree: PyTorch 1.9 prints others differently."""
    assert archive.handle_table is not None  # noqa: S101 (the caller looked)
    if callstack_map.generation(archive.handle_table) is not Generation.CALLSTACK_3:
        return {}
    strings = form.pool.strings()
    names = [strings[name].decode("utf-8", "replace") for name in form.columns["module.type"].tolist()]
    return {"module.known": np.array([name in archive.classes for name in names], np.int64)}


def _code_places(archive: Archive) -> Columns:
    """Line and column of each row in its generated code, both from 0; line -1 without code (n)."""
    table = archive.range_table
    memory.take(4 * memory.NUMBER * len(table), "places in code")
    line, start = np.full(len(table), -1), np.zeros(len(table), np.int64)
    for number, name in enumerate(table.names):
        code = archive.records.get(code_of(name))
        rows = slice(int(table.first[number]), int(table.first[number + 1]))
        if code is None or not holds_ranges(name) or (table.offset[rows] < 0).any():
            continue
        line[rows], start[rows] = _lines_at(code.view(), table.offset[rows])
    return {"row.line": line, "row.column": table.offset - start}


def _lines_at(code: memoryview, offset: Ints) -> tuple[Ints, Ints]:
    """The line of each byte, from 0, and where it begins (n); bytes past the code count as its last line."""
    order = np.argsort(offset, kind="stable")
    wanted = offset[order]
    line, start = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    count, last = 0, 0
    for low in range(0, len(code) + 1, CODE_BYTES):
        at, first = low + CODE_BYTES, int(np.searchsorted(wanted, low))
        rows = slice(first, int(np.searchsorted(wanted, at)) if at <= len(code) else len(wanted))
        newlines = np.flatnonzero(np.frombuffer(code[low:at], np.uint8) == ord("\n")) + low + 1
        begins = np.append(last, newlines)
        within = np.searchsorted(newlines, wanted[rows], "right")
        line[rows], start[rows] = count + within, begins[within]
        count, last = count + len(newlines), int(begins[-1])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return line[back], start[back]


def _not_regenerated(form: FormBuilder, records: Mapping[str, Record]) -> dict[str, bytes]:
    """The debug records that the columns do not rebuild to the byte."""
    with memory.part():
        made = DebugRecords(form.form())
        others = [
            name
            for name, record in records.items()
            if kind_of(name).is_debug and (name not in made or made[name] != record.view())
        ]
    return {name: _raw(records[name]) for name in others}


def _raw(record: Record) -> bytes:
    """A record's bytes; they will be held twice, once among those of all raw records."""
    memory.take(2 * record.size, "raw records", record=record.name)
    return bytes(record.view())


def _members(
    records: Mapping[str, Record],
    raw: Mapping[str, bytes],
    packed: Collection[str],
    cuts: Collection[str],
) -> Columns:
    """How a join gets each of the archive's records, in their order.

    Args:
        raw: those that the companion holds as a whole.
        packed: those that are exported programs.
        cuts: those that are shared objects, of which it holds a part.
    """
    origins = {
        **ORIGIN_BY_NAME,
        **dict.fromkeys(cuts, Origin.OBJECT),
        **dict.fromkeys(packed, Origin.PROGRAM),
        **dict.fromkeys(raw, Origin.RAW),
    }
    kinds = []
    for name, record in records.items():
        origin = origins.get(name, Origin.RANGES if holds_ranges(name) else Origin.KEPT)
        no_crc = record.crc32 == 0 and record.size > 0
        kinds.append(MemberKind(origin, record.entry.deflated, no_crc).value)
    columns: Columns = {"member.kind": np.array(kinds, np.int64)}
    modified = np.array([record.entry.modified for record in records.values()], np.int64)
    if modified.any():
        columns["member.modified"] = modified
    return columns
