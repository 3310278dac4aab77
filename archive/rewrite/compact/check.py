"""The debug records of two archives are compared, fact by fact."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, numbered, sizes_of, spread
from archive.base.errors import ArchiveError, LimitError, in_file, shown
from archive.base.strings import decoded
from archive.debuginfo.mending import mended
from archive.debuginfo.model import Generation
from archive.formats.method_handles import METHOD_RECORDS
from archive.formats.record_kinds import CALLSTACK_MAP
from archive.rewrite.compact.stacks import frame_numbers
from archive.rewrite.compact.texts import string_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.tables import SourceTable
    from archive.reader.archive import Archive

    Where = Callable[[int], tuple[str, str]]
    Describe = Callable[[int], str]
    Numbers = dict[bytes, int]

TEXT_RATIO = 1_100
"""Bytes of text that may be compared for each byte of the records, whatever the limits are."""
TEXT_CHUNK = 1 << 20
"""Bytes of texts that are joined to be compared at once."""
SHOWN_WIDTH = 200


# --- source ranges


def same_facts(before: Archive, after: Archive) -> None:
    """Refuse an archive whose debug records have other facts than those of another one.

    Source ranges are compared row by row: offset, range, tag, and the source's text, filename (None is not
    "") and starting line. Handles are compared by number, in any order of rows: tag, operator, and the call
    stack, frame by frame. Tags that no source range has are expected as :mod:`archive.debuginfo.mending`
    replaces them. It does not matter which rows share an object, nor whether an empty source is the null
    source: PyTorch reads both alike.
    """
    with in_file(after.file):
        old, new = before.range_table.numbers, after.range_table.numbers
        for name in (*before.range_table.names, *after.range_table.names):
            _refuse_missing(name, before=name in old, after=name in new)
        compare_ranges(before, after, before.range_table.names)
        expected = mended(before.handle_table, before.range_table)[0]
        compare_handles(expected, after.handle_table)
        expected_methods, found_methods = before.method_records, after.method_records
        for name in METHOD_RECORDS.values():
            with memory.part():
                compare_methods(name, expected_methods.get(name), found_methods.get(name))


def compare_ranges(
    archive: Archive,
    other: Archive,
    names: Sequence[str],
    *,
    tags: bool = True,
    unnamed: bool = True,
) -> None:
    """Refuse records of source ranges that differ; with ``unnamed``, a filename of None is not ""."""
    before, after = archive.range_table, other.range_table
    order, other_order = (
        np.array([table.numbers[name] for name in names], np.int64) for table in (before, after)
    )
    counts = np.diff(before.first)[order]
    _compare(lambda record: (names[record], ""), counts, np.diff(after.first)[other_order], _count_of("rows"))
    row, at = spread(before.first[order], counts), spread(after.first[other_order], counts)
    fields = ("offset", "start", "end", "tag") if tags else ("offset", "start", "end")
    compare_rows(archive, other, (row, at), fields, unnamed=unnamed)


def compare_rows(
    archive: Archive, other: Archive, rows: tuple[Ints, Ints], fields: Sequence[str], *, unnamed: bool
) -> None:
    """Refuse rows of source ranges that differ, pair by pair, by their numbers in the whole archives."""
    before, after = archive.range_table, other.range_table
    row, at = rows

    def where(field: str, rows: Ints) -> Where:
        def place(index: int) -> tuple[str, str]:
            record = int(np.searchsorted(before.first, rows[index], "right")) - 1
            return before.names[record], f"row {rows[index] - int(before.first[record])}, field {field}"

        return place

    with memory.part():
        memory.take(memory.TEXT * len(row), "rows that are compared")
        for field in fields:
            _compare(where(field, row), getattr(before, field)[row], getattr(after, field)[at])
        source, other_source = before.source[row], after.source[at]
        first = numbered(source, other_source)[1]
        pairs = source[first], other_source[first]
        # Texts may be out of all proportion to their records: a long piece may stand in many of them.
        size = int(before.sources.lengths[pairs[0]].sum())
        records = sum(archive.records[name].size for name in before.names)
        most = max(memory.limits().compared_bytes, TEXT_RATIO * records)
        if size > most:
            raise LimitError("compared_bytes", most, size)
        _compare_sources(
            before.sources, after.sources, pairs, lambda field: where(field, row[first]), unnamed=unnamed
        )


def _compare_sources(
    before: SourceTable,
    after: SourceTable,
    pairs: tuple[Ints, Ints],
    where: Callable[[str], Where],
    *,
    unnamed: bool,
) -> None:
    """Compare sources, pair by pair; ``where`` gives the place of a pair in a field."""
    source, other = pairs
    _compare(where("starting_line"), before.line[source], after.line[other])
    known: Numbers = {} if unnamed else {b"": -1}
    name = string_numbers(before.strings, before.filename[source], known)
    other_name = string_numbers(after.strings, after.filename[other], known)
    _compare(where("filename"), name, other_name, _quoted(known))
    lengths = before.lengths[source]
    _compare(where("text"), lengths, after.lengths[other], _count_of("bytes"))
    numbers: Numbers = {}
    sides = _pieces(before, source, numbers), _pieces(after, other, numbers)
    strings, ends, low = list(numbers), firsts(lengths), 0

    def texts(low: int, high: int) -> list[bytes]:
        numbers = (piece[first[low] : first[high]].tolist() for piece, first in sides)
        return [b"".join(map(strings.__getitem__, some)) for some in numbers]

    while low < len(source):
        high = max(int(np.searchsorted(ends, ends[low] + TEXT_CHUNK, "right")) - 1, low + 1)
        with memory.lent(2 * int(ends[high] - ends[low]), "texts that are compared"):
            old_texts, new_texts = texts(low, high)
            if old_texts != new_texts:
                pair = next(pair for pair in range(low, high) if len({*texts(pair, pair + 1)}) > 1)
                record, place = where("text")(pair)
                both = texts(pair, pair + 1)
                at = next(at for at, values in enumerate(zip(*both, strict=True)) if len({*values}) > 1)
                old, new = (shown(decoded(text[at:])) for text in both)
                raise ArchiveError(record=record, place=f"{place}, byte {at}", expected=old, found=new)
        low = high


def _pieces(sources: SourceTable, which: Ints, known: Numbers) -> tuple[Ints, Ints]:
    """The pieces of some sources' texts, equal ones with equal numbers, and the first of each text."""
    counts = sizes_of(sources.first, which)
    memory.take(3 * memory.NUMBER * int(counts.sum()), "pieces of texts")
    index = sources.piece[spread(sources.first[which], counts)]
    return string_numbers(sources.strings, index, known), firsts(counts)


# --- handles and methods


def compare_handles(before: HandleTable | None, after: HandleTable | None) -> None:
    """Refuse call-stack maps that differ."""
    name = CALLSTACK_MAP
    _refuse_missing(name, before=before is not None, after=after is not None)
    if before is None or after is None:
        return
    _compare(lambda _: (name, ""), np.array([len(before)]), np.array([len(after)]), _count_of("handles"))
    with memory.part():
        memory.take(memory.TEXT * len(before) + memory.ROW * len(before.next), "handles that are compared")
        _compare_rows_of_handles(before, after)


def _compare_rows_of_handles(before: HandleTable, after: HandleTable) -> None:
    """Compare the rows of two maps by handle, in any order of rows."""
    name = CALLSTACK_MAP
    order, other = (np.argsort(table.handle, kind="stable") for table in (before, after))
    handle = before.handle[order]
    _compare(lambda row: (name, f"row {row} by handle"), handle, after.handle[other])

    def where(field: str) -> Where:
        return lambda row: (name, f"handle {handle[row]}, field {field}")

    _compare(where("tag"), before.tag[order], after.tag[other])
    known: Numbers = {}
    op = string_numbers(before.strings, before.op, known)
    other_op = string_numbers(after.strings, after.op, known)
    _compare(where("op"), op[order], other_op[other], _quoted(known))
    frames: dict[tuple[int, object], int] = {}
    stack, other_stack = (_stack_numbers(table, known, frames) for table in (before, after))
    for row in np.flatnonzero(stack[order] != other_stack[other])[:1].tolist():
        calls = before.entry(int(order[row])).stack, after.entry(int(other[row])).stack
        frame, pair = next((i, pair) for i, pair in enumerate(zip_longest(*calls)) if pair[0] != pair[1])
        expected, found = (shown(call, SHOWN_WIDTH) for call in pair)
        place = f"handle {handle[row]}, frame {frame}"
        raise ArchiveError(record=name, place=place, expected=expected, found=found)


def _stack_numbers(table: HandleTable, known: Numbers, frames: dict[tuple[int, object], int]) -> Ints:
    """Numbers of the rows' call stacks, the same for equal ones; -1 for none (h)."""
    function, types, instances = (
        string_numbers(table.strings, column, known).tolist()
        for column in (table.function, table.module_type, table.module_instance)
    )
    modules = [*zip(types, instances, strict=True), None]  # -1 finds the None
    owners = map(modules.__getitem__, table.module.tolist())
    facts = list(zip(owners, table.call_tag.tolist(), function, strict=True))
    numbers: Ints = np.append(frame_numbers(table.next, facts, frames), -1)[table.stack]
    return numbers


def compare_methods(name: str, before: MethodTable | None, after: MethodTable | None) -> None:
    """Refuse records of methods that differ."""
    _refuse_missing(name, before=before is not None, after=after is not None)
    if before is None or after is None:
        return
    _compare(lambda _: (name, "version"), np.array([before.version]), np.array([after.version]))
    _compare(lambda _: (name, ""), np.array([len(before)]), np.array([len(after)]), _count_of("methods"))
    memory.take(
        memory.TEXT * len(before) + 10 * memory.NUMBER * len(before.value), "methods that are compared"
    )
    known: Numbers = {}
    names, other_names = (string_numbers(table.strings, table.name, known) for table in (before, after))
    _compare(lambda method: (name, f"method {method}"), names, other_names, _quoted(known))
    _compare(
        lambda method: (name, f"method {method}"),
        np.diff(before.first),
        np.diff(after.first),
        _count_of("instructions"),
    )

    def where(instruction: int) -> tuple[str, str]:
        method = int(np.searchsorted(before.first, instruction, "right")) - 1
        return name, f"method {method}, instruction {instruction - int(before.first[method])}"

    if before.generation is Generation.MODULE_PATHS:
        paths, other_paths = (string_numbers(table.strings, table.value, known) for table in (before, after))
        _compare(where, paths, other_paths, _quoted(known))
    else:
        _compare(where, before.value, after.value)


# --- columns


def _compare(where: Where, expected: Ints, found: Ints, said: Describe = str) -> None:
    """Refuse the first of n values that differs; ``where`` gives its record and place."""
    differing = np.flatnonzero(expected != found)
    if len(differing):
        first = int(differing[0])
        record, place = where(first)
        shown_expected, shown_found = said(int(expected[first])), said(int(found[first]))
        raise ArchiveError(record=record, place=place, expected=shown_expected, found=shown_found)


def _count_of(what: str) -> Describe:
    """Describe numbers as counts of things, given in the plural."""
    return lambda count: f"{count} {what}"


def _quoted(known: Numbers) -> Describe:
    """Describe numbers by the strings that have them."""
    return lambda number: "None" if number < 0 else shown(decoded(list(known)[number]), SHOWN_WIDTH)


def _refuse_missing(name: str, *, before: bool, after: bool) -> None:
    """Refuse a record that is in one of the archives only."""
    if before != after:
        expected, found = ("a record" if there else "no record" for there in (before, after))
        raise ArchiveError(record=name, expected=expected, found=found)
