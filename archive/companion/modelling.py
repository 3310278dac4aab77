"""Columns that other columns determine: packed companions store the difference to what those predict.

==================  ========================================================================================
column              stored instead
==================  ========================================================================================
row.offset          difference to the previous row of the same record
row.line            the same
row.column          only the columns of rows that are the first of their record or line
range.end           0 (``WITH_TEXT``) if the range ends where its text ends, else its length + 1, or a
                    negative length itself
source.filename     0 (``FRAMES_FILE``) if it is the file of the text's first frame, ``<file>(<line>):
                    <function>``; else it + 2 (``FILE_SHIFT``)
source.line         difference to the line of that frame; the line itself if the text begins with no frame
site.number         difference to one more than that of the previous row with the same base; -2
                    (``BEFORE_FIRST``) precedes the first one: so names that are counted have 0
maker.number        the same
origin.number       the same
handle.place        one row, the rule that gives the order (:mod:`~archive.companion.hash_order`), if one does
==================  ========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, sums_along
from archive.base.errors import ArchiveError
from archive.companion.hash_order import places_by, rule_of
from archive.companion.templates import NO_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.columns import Ints
    from archive.companion.templates import Templates
    from archive.normalform.columns import Columns

WITH_TEXT = 0
"""Stored in ``range.end``: the range ends where its text ends. Lengths from 0 on are stored one higher."""
LONGEST, WRAPPED = (1 << 63) - 1, -1 << 63
"""The longest length, and what one more is in 64 bits."""
FRAMES_FILE = 0
"""Stored in ``source.filename``: the file of the text's first frame."""
FILE_SHIFT = 2
"""Other files are stored this much higher: the least one is -1, no file, and ``NO_FILE`` means no frame."""
BEFORE_FIRST = -2
"""Precedes the first number of a base: a name without a number, -1, follows it, and then 0, 1, 2 …"""
COUNTED: tuple[tuple[str, str], ...] = (
    ("site.base", "site.number"),
    ("maker.base", "maker.number"),
    ("origin.base", "origin.number"),
)
"""Names, and the numbers by which PyTorch counts them."""
MODELLED = {"row.offset", "row.line", "row.column", "range.end", "source.filename", "source.line"}
MODELLED |= {number for _, number in COUNTED} | {"handle.place"}


def modelled(columns: Columns, templates: Templates, lengths: Ints) -> Columns:
    """The columns as packed companions store them."""
    stored = dict(columns)
    if "record.rows" in columns:
        is_first = _first_rows(columns)
        stored["row.offset"] = _differences(columns["row.offset"], is_first)
        if "row.line" in columns:
            stored["row.line"] = line = _differences(columns["row.line"], is_first)
            stored["row.column"] = columns["row.column"][is_first | (line != 0)]
        texts = _TextFacts(columns, templates, lengths)
        length = columns["range.end"] - columns["range.start"]
        with_text = columns["range.end"] == texts.lengths[columns["range.source"]]
        stored["range.end"] = np.where(with_text, WITH_TEXT, length + (length >= 0))
        name = columns["source.filename"]
        stored["source.filename"] = np.where(name == texts.files, FRAMES_FILE, name + FILE_SHIFT)
        stored["source.line"] = columns["source.line"] - texts.lines
    for base, number in COUNTED:
        if number in columns:
            values, (order, is_first) = columns[number], _by_base(columns[base])
            stored[number] = counts = np.empty_like(values)
            with np.errstate(over="ignore"):
                counts[order] = np.diff(values[order], prepend=0) - 1
                counts[order[is_first]] = values[order[is_first]] - (BEFORE_FIRST + 1)
    if "handle.place" in columns:
        stored["handle.place"] = rule_of(columns["handle.handle"], columns["handle.place"])
    return stored


def restored(stored: Columns, templates: Templates, lengths: Ints) -> Columns:
    """The original columns, from stored ones whose references have been checked."""
    columns = dict(stored)
    if "record.rows" in stored:
        is_first = _first_rows(stored)
        columns["row.offset"] = offset = _sums(stored["row.offset"], is_first)
        if "row.line" in stored:
            columns["row.line"] = _sums(stored["row.line"], is_first)
            has_column = is_first | (stored["row.line"] != 0)
            if has_column.sum() != len(stored["row.column"]):
                found = str(len(stored["row.column"]))
                raise ArchiveError(expected=f"{has_column.sum()} columns", found=found)
            line_start = offset[has_column] - stored["row.column"]
            columns["row.column"] = offset - np.repeat(line_start, _run_lengths(has_column))
        texts = _TextFacts(stored, templates, lengths)
        end, start = stored["range.end"], stored["range.start"]
        one_higher = (end > WITH_TEXT) | (end == WRAPPED)
        whole = texts.lengths[stored["range.source"]]
        columns["range.end"] = np.where(end == WITH_TEXT, whole, start + end - one_higher)
        name = stored["source.filename"]
        columns["source.filename"] = np.where(name == FRAMES_FILE, texts.files, name - FILE_SHIFT)
        columns["source.line"] = stored["source.line"] + texts.lines
    for base, number in COUNTED:
        if number in stored:
            counts, (order, is_first) = stored[number], _by_base(stored[base])
            columns[number] = numbers = np.empty_like(counts)
            with np.errstate(over="ignore"):
                numbers[order] = _sums(counts[order] + 1, is_first) + BEFORE_FIRST
    if "handle.place" in stored:
        columns["handle.place"] = places_by(stored["handle.place"], stored["handle.handle"])
    return columns


def end_of(stored: int, start: int, text_length: Callable[[], int]) -> int:
    """The end of one range, from its stored one; the length of its text is only asked for if needed."""
    if stored == WRAPPED:
        return LONGEST
    return start + stored - (stored > WITH_TEXT) if stored != WITH_TEXT else text_length()


def file_of(stored: int, frames_file: int) -> int:
    """The file of one source, from its stored one and the file of its text's first frame."""
    return frames_file if stored == FRAMES_FILE else stored - FILE_SHIFT


def _by_base(base: Ints) -> tuple[Ints, np.ndarray]:
    """The rows, grouped by base (n); whether each of these is the first one of its base (n)."""
    order = np.argsort(base, kind="stable")
    return order, np.diff(base[order], prepend=-1) != 0


def _first_rows(columns: Columns) -> np.ndarray:
    """Whether each row is the first one of its record (n)."""
    first = firsts(columns["record.rows"])
    rows = len(columns["row.offset"])
    if first[-1] != rows:
        raise ArchiveError(expected=f"records of {rows} rows together", found=str(first[-1]))
    is_first = np.zeros(rows, np.bool_)
    is_first[first[:-1][columns["record.rows"] > 0]] = True
    return is_first


def _differences(values: Ints, is_first: np.ndarray) -> Ints:
    """The difference of each value to the previous one; where a run begins, to 0 (n)."""
    before = np.append(0, values[:-1]) if len(values) else values
    differences: Ints = values - np.where(is_first, 0, before)
    return differences


def _sums(differences: Ints, is_first: np.ndarray) -> Ints:
    """The original values (n)."""
    sums = np.cumsum(differences)
    before = (sums - differences)[is_first]
    values: Ints = sums - np.repeat(before, _run_lengths(is_first))
    return values


def _run_lengths(is_first: np.ndarray) -> Ints:
    """Rows of each run, by where runs begin."""
    return np.diff(np.append(np.flatnonzero(is_first), len(is_first)))


class _TextFacts:
    """What the texts of sources say about them.

    Attributes:
        lengths: bytes of each source's text (s).
        files: the string that is the file of the text's first frame; NO_FILE where there is none (s).
        lines: the line of that frame; 0 where there is none (s).
    """

    def __init__(self, columns: Columns, templates: Templates, lengths: Ints) -> None:
        leaf = np.append(columns["text.node"], -1)[columns["source.text"]]
        line = columns["node.line"]
        self.lengths = np.append(sums_along(columns["node.parent"], lengths[line]), 0)[leaf]
        first = np.append(line, -1)[leaf]
        files, lines = templates.frames()
        self.files = np.append(files, NO_FILE)[first]
        self.lines = np.append(lines, 0)[first]
