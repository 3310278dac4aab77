"""Rules for source ranges.

- Each of their records can be read, and has the bytes that PyTorch would write for its rows; except for
  records of PyTorch 1.2, which had another pickler. Texts are UTF-8.
- Offsets increase strictly and lie inside the code record. In ``delegated_backends.debug_pkl`` all are -1.
- ``0 <= start <= end <=`` bytes of the text. Where PyTorch knows no place, it writes 0 to 1 of an empty
  source; in inline rows, as ``shrink`` may write them, that is the null source.
- Sources have a text; sources of traced models may have none.
- Tag-first rows, which only builds between 1.8 and 1.9 wrote, are noted: PyTorch 2.13 does not read them.

In layouts that have tags:

- Each row has a tag.
- Equal tags stand for equal ranges, over all records. Sources are equal if their contents are.
- Within a record, a range has one tag. PyTorch numbers ranges by their source *object*, so sources that are
  merely equal, in one record or in several, give several tags. Where equal sources have been merged, as
  ``shrink`` does, a range has several tags. Each still leads to the range, so this is only noted. Tags of
  lowered modules distinguish the operations of a line; nothing is noted there.

Checks of source ranges column by column: a truth value a row → diagnostics by record and row.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.diagnostics import Diagnostics
from archive.base.errors import counted, shown
from archive.check.records import check_bytes, check_texts
from archive.debuginfo.mending import tags_of
from archive.debuginfo.model import RangeLayout
from archive.formats.record_kinds import DELEGATED, code_of, is_legacy
from archive.formats.source_ranges import build_source_ranges, parse_source_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.base.columns import Ints
    from archive.base.diagnostics import Severity
    from archive.base.limits import Limits
    from archive.debuginfo.tables import RangeTable, SourceTable
    from archive.reader.archive import Archive

# --- rows


class RangeChecks:
    """Checks the rows of all source ranges, column by column.

    Attributes:
        table: the ranges (n rows).
        record: row → number of its record (n).
    """

    __slots__ = ("record", "report", "table")

    def __init__(self, table: RangeTable, report: Diagnostics) -> None:
        self.table = table
        self.report = report
        self.record = np.repeat(np.arange(len(table.names)), np.diff(table.first))

    def of_records(self, values: Sequence[int] | Sequence[bool]) -> np.ndarray:
        """A value a record → the same a row (n)."""
        return np.asarray(values)[self.record]

    def place(self, row: int) -> str:
        """A row's place: its number in its record."""
        return f"row {row - int(self.table.first[self.record[row]])}"

    def add(
        self, severity: Severity, wrong: np.ndarray, what: str, field: str, describe: Callable[[int], str]
    ) -> None:
        """Report the rows for which ``wrong`` is true.

        Args:
            severity: the severity of each.
            wrong: one truth value a row (n).
            what: the name of the kind, in the plural.
            describe: row → message.
        """
        rows = np.flatnonzero(wrong)
        cuts = np.flatnonzero(np.diff(self.record[rows])) + 1
        for part in np.split(rows, cuts) if len(rows) else []:
            name = self.table.names[int(self.record[part[0]])]
            self.report.add_each(
                severity, name, what, part, lambda row: (f"{self.place(row)}, field {field}", describe(row))
            )


# --- tags

TAGGED = (RangeLayout.TAG_FIRST, RangeLayout.INLINE, RangeLayout.STRING_TABLE)


def check_tags(rows: RangeChecks) -> None:
    """Check the tags of all rows."""
    tag = rows.table.tag
    tagged = rows.of_records([layout in TAGGED for layout in rows.table.layouts]).astype(np.bool_)
    missing = tagged & (tag < 0)
    rows.add("warning", missing, "rows without a tag", "tag", lambda row: f"expected a tag, found {tag[row]}")
    considered = np.flatnonzero(tagged & ~missing)
    _check_ranges_of_tags(rows, considered)
    _check_tags_of_ranges(rows, considered)


def _check_ranges_of_tags(rows: RangeChecks, considered: Ints) -> None:
    """Check that each row has the same range as the first row with its tag."""
    table = rows.table
    head = np.arange(len(table))
    head[considered] = _heads(considered, table.tag[considered])
    wrong = (table.start != table.start[head]) | (table.end != table.end[head])
    others = np.flatnonzero(~wrong & (head != np.arange(len(table))))
    contents = SourceContents(table.sources, memory.limits())
    wrong[others] = ~contents.equal(table.source[others], table.source[head[others]])

    def describe(row: int) -> str:
        other = int(head[row])
        where = f"{rows.place(other)} of {shown(table.names[int(rows.record[other])])}"
        return f"tag {table.tag[row]} stands for another range in {where}"

    rows.add("error", wrong, "tags of several ranges", "tag", describe)
    if contents.skipped:
        texts = counted(contents.skipped, "text")
        rows.report.add("note", "", "", f"{texts} too long to be compared, tag by tag")


def _check_tags_of_ranges(rows: RangeChecks, considered: Ints) -> None:
    """Check that each row has the same tag as the first row with its range, in the same source object."""
    table = rows.table
    number = table.numbers.get(DELEGATED)
    delegated = [] if number is None else table.rows(number)
    considered = considered[~np.isin(table.tag[considered], table.tag[delegated])]
    tag = table.tag
    head = np.arange(len(table))
    stretch = (table.source[considered], table.start[considered], table.end[considered])
    head[considered] = _heads(considered, *stretch)

    def describe(row: int) -> str:
        other = int(head[row])
        return f"tag {tag[row]} stands for the same range as tag {tag[other]} in {rows.place(other)}"

    rows.add("note", tag != tag[head], "ranges of several tags", "tag", describe)


def _heads(rows: Ints, *keys: Ints) -> Ints:
    """Row → the first row with equal keys (n).

    Rows are sorted by their keys, which keeps equal ones in order; each then takes the begin of its run.
    """
    order = np.lexsort(keys[::-1])
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
    head = np.empty_like(rows)
    head[order] = rows[order[begin]]
    return head


# --- sources


class SourceContents:
    """Compares the sources of a table by content, each of which is digested once.

    A source without filename equals one with an empty filename: PyTorch reads either as empty, and string
    tables have only the empty one.

    Attributes:
        skipped: the number of sources that were not compared, because of the limit ``compared_bytes``.
    """

    __slots__ = ("_digests", "_left", "_sources", "skipped")

    def __init__(self, sources: SourceTable, limits: Limits) -> None:
        self.skipped = 0
        self._sources = sources
        self._left = limits.compared_bytes
        self._digests: dict[int, bytes | None] = {}

    def equal(self, first: Ints, second: Ints) -> np.ndarray:
        """Whether sources are equal, pair by pair (n); pairs that are not compared count as equal."""
        line, lengths = self._sources.line, self._sources.lengths
        same: np.ndarray = (line[first] == line[second]) & (lengths[first] == lengths[second])
        doubtful = np.flatnonzero(same & (first != second))
        size = len(self._sources)
        pairs, back = np.unique(first[doubtful] * size + second[doubtful], return_inverse=True)
        answers = []
        for pair in pairs.tolist():
            digest, other = map(self._digest, divmod(pair, size))
            answers.append(digest is None or other is None or digest == other)
        same[doubtful] = np.array(answers, np.bool_)[back]
        return same

    def _digest(self, index: int) -> bytes | None:
        """The digest of a source's filename and text; None beyond the limit."""
        if index in self._digests:
            return self._digests[index]
        sources, strings = self._sources, self._sources.strings
        filename = int(sources.filename[index])
        name = b"" if filename < 0 else strings.data(filename)
        cost = len(name) + int(sources.lengths[index])
        if cost > self._left:
            self.skipped += 1
            self._digests[index] = None
            return None
        self._left -= cost
        state = hashlib.blake2b(name, digest_size=16)
        state.update(b"\0")
        for piece in sources.piece[int(sources.first[index]) : int(sources.first[index + 1])].tolist():
            state.update(strings.data(piece))
        self._digests[index] = state.digest()
        return self._digests[index]


# --- ranges

UNKNOWN_SIZE = 1 << 62
"""The size of a code record that cannot be read: no offset is too large."""
UNREAD = (
    'tag-first rows, for which PyTorch 2.13 prints "Expected Tuple but got Int" in place of each error; '
    "`debug-archive migrate --to latest` mends it"
)


def ranges_of(archive: Archive, names: Sequence[str]) -> RangeTable:
    """Parse the source ranges of some records."""
    return parse_source_ranges(archive.tree(names))


def check_ranges(archive: Archive, readable: set[str], report: Diagnostics, *, parsed: bool) -> Ints | None:
    """Check the source ranges.

    Args:
        parsed: whether the archive's tables are parsed from its records. A companion's columns are what its
            records are made of, so these cannot differ; its texts have no place in a record, and are not
            checked to be UTF-8.

    Returns:
        The tags that call stacks may lead to, sorted (n); None where a record of ranges cannot be read.
    """
    names = [name for name in archive.range_records if name in readable]
    table, read = _read(archive, names, report) if names else (None, [])
    if table is not None:
        if parsed:
            check_texts(table.sources.strings, read, report)
        with memory.lent(10 * memory.NUMBER * len(table.offset), "source ranges that are checked"):
            rows = RangeChecks(table, report)
            _check_offsets(archive, readable, rows)
            _check_spans(rows)
            check_tags(rows)
        report.looked(len(table), "source range", "checked: offsets, places in their texts, tags")
        for number, name in enumerate(table.names):
            if table.layouts[number] is RangeLayout.TAG_FIRST:
                report.add("note", name, "", UNREAD)
            if parsed and not is_legacy(name):
                check_bytes(
                    archive,
                    name,
                    partial(build_source_ranges, table, number),
                    report,
                )
    if len(read) < len(archive.range_records):
        return None
    return np.zeros(0, np.int64) if table is None else tags_of(table)


def _read(archive: Archive, names: list[str], report: Diagnostics) -> tuple[RangeTable | None, list[str]]:
    """The ranges of all records that can be read, as one table, and the names of these records."""
    if len(names) == len(archive.range_records):
        table = Diagnostics().attempt("", lambda: archive.range_table)
        if table is not None:
            return table, names
    read = [name for name in names if report.attempt(name, partial(ranges_of, archive, [name])) is not None]
    if not read:
        return None, []
    together = Diagnostics()
    table = together.attempt("", partial(ranges_of, archive, read))
    for finding in together.findings:
        report.add("error", "", "", f"the source ranges of all records together: {finding.message}")
    return table, [] if table is None else read


def _check_offsets(archive: Archive, readable: set[str], rows: RangeChecks) -> None:
    """Check that offsets lie inside the code and increase; those of delegated ranges are -1."""
    offset, names = rows.table.offset, rows.table.names
    delegated = rows.of_records([name == DELEGATED for name in names]).astype(np.bool_)
    code = [code_of(name) for name in names]
    size = rows.of_records(
        [archive.records[record].size if record in readable else UNKNOWN_SIZE for record in code]
    )

    def allowed(row: int) -> str:
        if not size[row]:
            return "no offset, as the code is empty"
        last = "on" if size[row] == UNKNOWN_SIZE else f"to {size[row] - 1}, inside of the code"
        return f"an offset from 0 {last}"

    rows.add(
        "error",
        ~delegated & ((offset < 0) | (offset >= size)),
        "offsets outside of the code",
        "offset",
        lambda row: f"expected {allowed(row)}, found {offset[row]}",
    )
    before = np.roll(offset, 1)
    rows.add(
        "error",
        ~delegated & (np.diff(rows.record, prepend=-1) == 0) & (offset <= before),
        "offsets that do not increase",
        "offset",
        lambda row: f"expected more than {before[row]}, the offset before it, found {offset[row]}",
    )
    rows.add(
        "warning",
        delegated & (offset != -1),
        "offsets of delegated ranges",
        "offset",
        lambda row: f"expected -1, as the code is the backend's, found {offset[row]}",
    )


def _check_spans(rows: RangeChecks) -> None:
    """Check that ranges lie inside their text; 0 to 1 of an empty one is PyTorch's unknown place."""
    table = rows.table
    start, end, length = table.start, table.end, table.sources.lengths[table.source]
    nothing = (length == 0) & (start == 0) & (end == 1)

    def allowed(row: int) -> str:
        if not length[row]:
            return "0 to 0 or 0 to 1, as the text is empty"
        return f"start <= end <= {length[row]}, the text's end"

    rows.add(
        "error",
        (start < 0) | (start > end) | ((end > length) & ~nothing),
        "ranges outside of their text",
        "range",
        lambda row: f"expected {allowed(row)}, found {start[row]} to {end[row]}",
    )
