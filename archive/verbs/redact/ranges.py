"""Source ranges with other paths and texts. Each range stays on the lines that it was on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import firsts
from archive.base.errors import ArchiveError
from archive.debuginfo.tables import SourceTable
from archive.normalform.builder import FormBuilder
from archive.normalform.pool import table_of
from archive.normalform.records import DebugRecords
from archive.verbs.redact.comments import comment_of, without_comments
from archive.verbs.redact.sources import CALL, are_calls, texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.debuginfo.tables import RangeTable
    from archive.reader.archive import Archive
    from archive.verbs.redact.names import Renamed
    from archive.verbs.redact.rules import Removed, Rules


BLANK = b" "


class _Text(NamedTuple):
    """A text before and after, line by line."""

    old: list[bytes]
    new: list[bytes]

    def moved(self, positions: Ints) -> Ints:
        """Where positions in the old text are in the new one: on the same line, at most at its end."""
        if self.old == self.new:
            return positions
        old, new = (firsts(np.array([len(line) + 1 for line in lines])) for lines in self)
        line = np.clip(np.searchsorted(old, positions, "right") - 1, 0, len(self.old) - 1)
        width = np.array([len(line) for line in self.new])
        behind = np.maximum(positions - (old[-1] - 1), 0)  # of a range behind its text
        moved: Ints = new[line] + np.minimum(positions - old[line], width[line]) + behind
        return moved


def redacted_ranges(
    opened: Archive, rules: Rules, removed: Removed, renamed: Renamed | None = None
) -> dict[str, bytes]:
    """The records of source ranges, rewritten, by the names that they have in the archive.

    Args:
        opened: the archive.
        rules: what becomes of paths and texts.
        removed: takes what is removed.
        renamed: the same archive with other names; None where they stay.
    """
    if not opened.range_records:
        return {}
    table = redacted(opened.range_table, rules, removed, opened.allowance, renamed)
    made = DebugRecords(FormBuilder.of(table, allowance=opened.allowance).form())
    former = dict(zip(table.names, opened.range_table.names, strict=True))
    records = {}
    for new in made:
        name = former[new]
        records[name] = made[new]
        opened.allowance.take(len(records[name]), "bytes of a record", record=name)
    return records


def redacted(
    table: RangeTable, rules: Rules, removed: Removed, allowance: Allowance, renamed: Renamed | None = None
) -> RangeTable:
    """The table with other paths and texts, and, of code that was renamed, with other places and names.

    Args:
        table: source ranges.
        rules: what becomes of paths and texts.
        removed: takes what is removed.
        allowance: the memory that it may cost.
        renamed: the archive with other names; None where they stay.

    Raises:
        LimitError: the texts would take more memory than allowed.
    """
    sources = table.sources
    number, texts = texts_of(sources, allowance)
    calls = {at for at, lines in enumerate(texts) if are_calls(lines)}
    named = sorted({one for one in sources.filename.tolist() if one >= 0})
    files = dict(zip(named, sources.strings.copies(np.array(named, np.int64)), strict=True))
    in_calls = {found["path"] for at in calls for line in texts[at] if (found := CALL.fullmatch(line))}
    names = rules.renamed({*files.values(), *in_calls})
    removed.renamed(names)
    marked = _marked(table, number, texts) if rules.source != "keep" else []
    pairs = []
    for at, lines in enumerate(texts):
        if at in calls:
            new = [_call(line, names, renamed) for line in lines]
        elif rules.source == "keep":
            new = lines
        else:
            new = _blanked(lines, marked[at], removed, keeps=rules.source == "lines")
        pairs.append(_Text(lines, new))
    order = {one: len(pairs) + at for at, one in enumerate(named)}
    strings = table_of([*(b"\n".join(pair.new) for pair in pairs), *(names[files[one]] for one in named)])
    filename = np.array([order.get(one, -1) for one in sources.filename.tolist()], np.int64)
    everywhere = np.arange(len(sources) + 1)
    start, end = (_moved(table.source, positions, number, pairs) for positions in (table.start, table.end))
    return replace(
        table if renamed is None else renamed.table(table),
        start=start,
        end=end,
        sources=SourceTable(strings, everywhere, number, filename, sources.line, sources.is_null),
        table_first=np.zeros(len(table.names) + 1, np.int64),
        table=np.zeros(0, np.int64),
    )


def check_lines(
    before: RangeTable, after: RangeTable, allowance: Allowance, renamed: Renamed | None = None
) -> None:
    """Refuse a table whose rows, tags or line numbers are others than before.

    Args:
        before: of the archive.
        after: of the redacted one.
        allowance: the memory that it may cost.
        renamed: the archive with other names, if they are not kept.

    Raises:
        ArchiveError: some are.
        LimitError: the texts would take more memory than allowed.
    """
    expected = before if renamed is None else renamed.table(before)
    same = expected.names == after.names and all(
        np.array_equal(getattr(expected, name), getattr(after, name)) for name in ("first", "offset", "tag")
    )
    old, new = (_line_numbers(table, allowance) for table in (before, after))
    if not same or not np.array_equal(old, new):
        raise ArchiveError("source ranges would be on other lines; nothing is written")


def _line_numbers(table: RangeTable, allowance: Allowance) -> Ints:
    """The lines that each row's range begins and ends on (2, n)."""
    number, texts = texts_of(table.sources, allowance)
    found = np.stack([table.start, table.end])
    for rows, lines in zip(_by_text(table.source, number, len(texts)), texts, strict=True):
        bounds = firsts(np.array([len(line) + 1 for line in lines]))
        found[:, rows] = np.clip(np.searchsorted(bounds, found[:, rows], "right"), 1, len(lines))
    return found + table.sources.line[table.source]


def _call(line: bytes, names: dict[bytes, bytes], renamed: Renamed | None) -> bytes:
    found = CALL.fullmatch(line)
    if found is None:
        return line
    function = found["function"] if renamed is None else renamed.function(found["function"])
    return names[found["path"]] + found["line"] + function


def _blanked(lines: list[bytes], marked: set[int], removed: Removed, *, keeps: bool) -> list[bytes]:
    """A text without its lines, or with the code of those that a range is on and that tell of nobody.

    Those keep their lengths, so that ranges stay apart, as their tags do. Others become one blank.

    Args:
        lines: of the text.
        marked: those that a range is on.
        removed: takes what is gone.
        keeps: whether these stay.
    """
    made = [BLANK if line else b"" for line in lines]  # PyTorch prints a last line that is not empty
    bare = without_comments(lines) if keeps and marked else lines
    telling = removed.telling.lines(bare) if keeps and marked else set()
    for at, line in enumerate(lines):
        if keeps and at in marked - telling:
            made[at] = bare[at]
            removed.line(bare[at], kept=True)
            removed.line(comment_of(line, bare[at]), kept=False)
        else:
            made[at] = BLANK * len(line) if at in marked else made[at]
            removed.line(line, kept=False)
    return made


def _marked(table: RangeTable, number: Ints, texts: Sequence[Sequence[bytes]]) -> list[set[int]]:
    """The lines of each text that a range is on."""
    marked: list[set[int]] = [set() for _ in texts]
    bounds = [firsts(np.array([len(line) + 1 for line in lines])) for lines in texts]
    rows = {*zip(number[table.source].tolist(), table.start.tolist(), table.end.tolist(), strict=True)}
    for text, start, end in rows:
        first, last = np.searchsorted(bounds[text], (start, max(start, end - 1)), "right").tolist()
        marked[text].update(range(first - 1, last))
    return marked


def _moved(source: Ints, positions: Ints, number: Ints, pairs: Sequence[_Text]) -> Ints:
    """Positions in old texts as those in new ones (n)."""
    moved = positions.copy()
    for rows, pair in zip(_by_text(source, number, len(pairs)), pairs, strict=True):
        moved[rows] = pair.moved(positions[rows])
    return moved


def _by_text(source: Ints, number: Ints, count: int) -> list[Ints]:
    """The rows of each text.

    Args:
        source: of each row (n).
        number: the text of each source (s).
        count: of texts.
    """
    text = number[source]
    order = np.argsort(text, kind="stable")
    return np.split(order, np.searchsorted(text[order], np.arange(1, count))) if count else []
