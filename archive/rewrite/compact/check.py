"""The debug records of two archives are compared, fact by fact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered, spread
from archive.base.errors import ArchiveError, LimitError, shown
from archive.base.strings import decoded
from archive.debuginfo.mending import mended
from archive.formats.method_handles import METHOD_RECORDS
from archive.rewrite.compact.check_handles import compare_handles, compare_methods
from archive.rewrite.compact.comparing import compare, count_of, quoted, refuse_missing
from archive.rewrite.compact.strings import string_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.debuginfo.tables import SourceTable
    from archive.reader.archive import Archive
    from archive.rewrite.compact.comparing import Known, Where


TEXT_RATIO = 1_100
"""Bytes of text that may be compared for each byte of the records, whatever the limits are."""
TEXT_CHUNK = 1 << 20
"""Bytes of texts that are joined to be compared at once."""
ROW_BYTES, PIECE_BYTES = 200, 20
"""Bytes of memory that a row costs while it is compared, and a piece of a text."""


def same_facts(before: Archive, after: Archive) -> None:
    """Refuse an archive whose debug records have other facts than those of another one.

    Source ranges are compared row by row: offset, range, tag, and the source's text, filename (None is not
    "") and starting line. Handles are compared by number, in any order of rows: tag, operator, and the call
    stack, frame by frame. Tags that no source range has are expected as :mod:`archive.debuginfo.mending`
    replaces them. It does not matter which rows share an object, nor whether an empty source is the null
    source: PyTorch reads both alike.

    Args:
        before: the archive whose facts are expected.
        after: the archive that is checked.

    Raises:
        ArchiveError: the facts differ (the message names record, row and field), or a debug record is broken.
        LimitError: comparing them would cost more memory than the first archive's allowance has.
    """
    try:
        names = (*before.range_table.names, *after.range_table.names)
        for name in names:
            there = (name in one.range_table.numbers for one in (before, after))
            refuse_missing(name, before=next(there), after=next(there))
        compare_ranges(before, after, before.range_table.names)
        expected = mended(before.handle_table, before.range_table)[0]
        compare_handles(expected, after.handle_table, before.allowance)
        expected_methods, found_methods = before.method_records, after.method_records
        for name in METHOD_RECORDS.values():
            with before.allowance.part() as part:
                compare_methods(name, expected_methods.get(name), found_methods.get(name), part)
    except ArchiveError as error:
        raise error.within(file=after.file) from error.__cause__


def compare_ranges(
    archive: Archive,
    other: Archive,
    names: Sequence[str],
    *,
    tags: bool = True,
    unnamed: bool = True,
) -> None:
    """Refuse records of source ranges that differ.

    Args:
        archive: the expected one.
        other: the one that is checked.
        names: records that both have.
        tags: compare tags, too.
        unnamed: take a filename of None for another than "".

    Raises:
        ArchiveError: naming the record, row and field of a difference.
    """
    before, after = archive.range_table, other.range_table
    order, other_order = (
        np.array([table.numbers[name] for name in names], np.int64) for table in (before, after)
    )
    counts = np.diff(before.first)[order]
    compare(lambda record: (names[record], ""), counts, np.diff(after.first)[other_order], count_of("rows"))
    row, at = spread(before.first[order], counts), spread(after.first[other_order], counts)
    fields = ("offset", "start", "end", "tag") if tags else ("offset", "start", "end")
    compare_rows(archive, other, (row, at), fields, unnamed=unnamed)


def compare_rows(
    archive: Archive, other: Archive, rows: tuple[Ints, Ints], fields: Sequence[str], *, unnamed: bool
) -> None:
    """Refuse rows of source ranges that differ, pair by pair.

    Args:
        archive: the expected one.
        other: the one that is checked.
        rows: of both, by their numbers in the whole archive.
        fields: columns that are compared besides the source.
        unnamed: take a filename of None for another than "".

    Raises:
        ArchiveError: naming the record, row and field of a difference.
    """
    before, after = archive.range_table, other.range_table
    row, at = rows

    def where(field: str, rows: Ints) -> Where:
        def place(index: int) -> tuple[str, str]:
            record = int(np.searchsorted(before.first, rows[index], "right")) - 1
            return before.names[record], f"row {rows[index] - int(before.first[record])}, field {field}"

        return place

    with archive.allowance.part() as part:
        part.take(ROW_BYTES * len(row), "rows that are compared")
        for field in fields:
            compare(where(field, row), getattr(before, field)[row], getattr(after, field)[at])
        source, other_source = before.source[row], after.source[at]
        first = numbered(source, other_source)[1]
        pairs = source[first], other_source[first]
        _check_work(archive, int(before.sources.lengths[pairs[0]].sum()))
        _compare_sources(
            before.sources,
            after.sources,
            pairs,
            lambda field: where(field, row[first]),
            part,
            unnamed=unnamed,
        )


def _check_work(archive: Archive, size: int) -> None:
    """Refuse texts out of all proportion to their records: a long piece may stand in many texts."""
    records = sum(archive.records[name].size for name in archive.range_table.names)
    most = max(archive.allowance.limits.compared_bytes, TEXT_RATIO * records)
    if size > most:
        raise LimitError("compared_bytes", most, size)


def _compare_sources(
    before: SourceTable,
    after: SourceTable,
    pairs: tuple[Ints, Ints],
    where: Callable[[str], Where],
    allowance: Allowance,
    *,
    unnamed: bool,
) -> None:
    """Compare sources, pair by pair; ``where`` gives the place of a pair in a field."""
    one, other = pairs
    compare(where("starting_line"), before.line[one], after.line[other])
    known: Known = {} if unnamed else {b"": -1}
    name = string_numbers(before.strings, before.filename[one], known, allowance)
    other_name = string_numbers(after.strings, after.filename[other], known, allowance)
    compare(where("filename"), name, other_name, quoted(known))
    lengths = before.lengths[one]
    compare(where("text"), lengths, after.lengths[other], count_of("bytes"))
    numbers: Known = {}
    sides = _pieces(before, one, numbers, allowance), _pieces(after, other, numbers, allowance)
    strings, ends, low = list(numbers), firsts(lengths), 0

    def texts(low: int, high: int) -> list[bytes]:
        numbers = (piece[first[low] : first[high]].tolist() for piece, first in sides)
        return [b"".join(map(strings.__getitem__, some)) for some in numbers]

    while low < len(one):
        high = max(int(np.searchsorted(ends, ends[low] + TEXT_CHUNK, "right")) - 1, low + 1)
        with allowance.lent(2 * int(ends[high] - ends[low]), "texts that are compared"):
            expected, found = texts(low, high)
            if expected != found:
                pair = next(pair for pair in range(low, high) if len({*texts(pair, pair + 1)}) > 1)
                _refuse_text(*where("text")(pair), *texts(pair, pair + 1))
        low = high


def _refuse_text(record: str, place: str, expected: bytes, found: bytes) -> None:
    at = next(at for at, pair in enumerate(zip(expected, found, strict=True)) if len({*pair}) > 1)
    one, other = (shown(decoded(text[at:])) for text in (expected, found))
    raise ArchiveError(record=record, place=f"{place}, byte {at}", expected=one, found=other)


def _pieces(sources: SourceTable, which: Ints, known: Known, allowance: Allowance) -> tuple[Ints, Ints]:
    """The pieces of some sources' texts, equal ones with equal numbers, and the first of each text."""
    counts = np.diff(sources.first)[which]
    allowance.take(PIECE_BYTES * int(counts.sum()), "pieces of texts")
    index = sources.piece[spread(sources.first[which], counts)]
    return string_numbers(sources.strings, index, known, allowance), firsts(counts)
