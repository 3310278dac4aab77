"""Columns that other columns determine: packed companions store the difference to what those tell.

==================  ========================================================================================
column              stored instead
==================  ========================================================================================
row.offset          difference to the row before in the same record
row.line            the same
row.column          the columns of those rows alone that are the first of their record or of a line
range.end           0 if the range ends where its text ends, else its length + 1, or a negative length itself
source.filename     0 if it is the file of the text's first frame, ``<file>(<line>): <function>``; else it + 2
source.line         difference to the line of that frame; the line itself where the text begins with no frame
site.number         difference to one more than that of the row before with the same base; -2 stands before
                    the first one: so names that are counted have 0
maker.number        the same
origin.number       the same
==================  ========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.base.errors import ArchiveError
from archive.companion.templates import NO_FILE
from archive.normalform.texts import sum_over_texts

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.companion.templates import Templates
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns

COUNTED: tuple[tuple[ColumnName, ColumnName], ...] = (
    ("site.base", "site.number"),
    ("maker.base", "maker.number"),
    ("origin.base", "origin.number"),
)
"""Names, and the numbers that PyTorch counts them by."""
MODELLED = {"row.offset", "row.line", "row.column", "range.end", "source.filename", "source.line"}
MODELLED |= {number for _, number in COUNTED}


def modelled(columns: Columns, templates: Templates, lengths: Ints) -> Columns:
    """The columns as packed companions store them.

    Args:
        columns: by name.
        templates: the strings.
        lengths: of the strings, in bytes.
    """
    kept = dict(columns)
    if "record.rows" in columns:
        new = _first_rows(columns)
        kept["row.offset"] = _differences(columns["row.offset"], new)
        if "row.line" in columns:
            kept["row.line"] = line = _differences(columns["row.line"], new)
            kept["row.column"] = columns["row.column"][new | (line != 0)]
        texts = _Texts(columns, templates, lengths)
        length = columns["range.end"] - columns["range.start"]
        whole = columns["range.end"] == texts.lengths[columns["range.source"]]
        kept["range.end"] = np.where(whole, 0, length + (length >= 0))
        name = columns["source.filename"]
        kept["source.filename"] = np.where(name == texts.files, 0, name + 2)
        kept["source.line"] = columns["source.line"] - texts.lines
    for base, number in COUNTED:
        if number in columns:
            kept[number] = _counts(columns[base], columns[number])
    return kept


def restored(kept: Columns, templates: Templates, lengths: Ints) -> Columns:
    """The columns again, of stored ones whose references have been checked.

    Raises:
        ArchiveError: columns that do not fit together.
    """
    columns = dict(kept)
    if "record.rows" in kept:
        new = _first_rows(kept)
        columns["row.offset"] = _sums(kept["row.offset"], new)
        if "row.line" in kept:
            columns["row.line"] = _sums(kept["row.line"], new)
            columns["row.column"] = _columns(kept, columns["row.offset"], new)
        texts = _Texts(kept, templates, lengths)
        end, start = kept["range.end"], kept["range.start"]
        whole = texts.lengths[kept["range.source"]]
        longer = (end > 0) | (end == np.iinfo(np.int64).min)  # the longest length + 1 has come round
        columns["range.end"] = np.where(end == 0, whole, start + end - longer)
        name = kept["source.filename"]
        columns["source.filename"] = np.where(name == 0, texts.files, name - 2)
        columns["source.line"] = kept["source.line"] + texts.lines
    for base, number in COUNTED:
        if number in kept:
            columns[number] = _numbers(kept[base], kept[number])
    return columns


def _counts(base: Ints, number: Ints) -> Ints:
    """How far each number is from one more than the number before of the same base."""
    order, new = _by_base(base)
    counts = np.empty_like(number)
    with np.errstate(over="ignore"):
        counts[order] = np.diff(number[order], prepend=0) - 1
        counts[order[new]] = number[order[new]] + 1
    return counts


def _numbers(base: Ints, counts: Ints) -> Ints:
    """The numbers again."""
    order, new = _by_base(base)
    numbers = np.empty_like(counts)
    with np.errstate(over="ignore"):
        numbers[order] = _sums(counts[order] + 1, new) - 2
    return numbers


def _by_base(base: Ints) -> tuple[Ints, np.ndarray]:
    """The rows, those of each base together (n); whether each of these is the first one of its base (n)."""
    order = np.argsort(base, kind="stable")
    return order, np.diff(base[order], prepend=-1) != 0


def _first_rows(columns: Columns) -> np.ndarray:
    """Whether each row is the first one of its record (n)."""
    first = firsts(columns["record.rows"])
    rows = len(columns["row.offset"])
    if first[-1] != rows:
        raise ArchiveError(expected=f"records of {rows} rows together", found=str(first[-1]))
    new = np.zeros(rows, np.bool_)
    new[first[:-1][columns["record.rows"] > 0]] = True
    return new


def _differences(values: Ints, new: np.ndarray) -> Ints:
    before = np.append(0, values[:-1]) if len(values) else values
    differences: Ints = values - np.where(new, 0, before)
    return differences


def _sums(differences: Ints, new: np.ndarray) -> Ints:
    sums = np.cumsum(differences)
    before = (sums - differences)[new]
    values: Ints = sums - np.repeat(before, np.diff(np.append(np.flatnonzero(new), len(new))))
    return values


def _columns(kept: Columns, offset: Ints, new: np.ndarray) -> Ints:
    told = new | (kept["row.line"] != 0)
    if told.sum() != len(kept["row.column"]):
        raise ArchiveError(expected=f"{told.sum()} columns", found=str(len(kept["row.column"])))
    line_start = offset[told] - kept["row.column"]
    column: Ints = offset - np.repeat(line_start, np.diff(np.append(np.flatnonzero(told), len(told))))
    return column


class _Texts:
    """What the texts of sources tell about them.

    Attributes:
        lengths: bytes of each source's text (s).
        files: the string that is the file of the text's first frame; NO_FILE where there is none (s).
        lines: the line of that frame; 0 where there is none (s).
    """

    def __init__(self, columns: Columns, templates: Templates, lengths: Ints) -> None:
        leaf = np.append(columns["text.node"], -1)[columns["source.text"]]
        line = columns["node.line"]
        self.lengths = np.append(sum_over_texts(columns["node.parent"], lengths[line]), 0)[leaf]
        first = np.append(line, -1)[leaf]
        files, lines = templates.frames()
        self.files = np.append(files, NO_FILE)[first]
        self.lines = np.append(lines, 0)[first]
