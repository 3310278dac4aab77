"""Builds and parses mapped companions: arrays of the least width, 64-byte aligned, read where they lie.

Strings stand one behind the other in the section STRINGS, and ``string.end`` has where each one ends; there
are no templates. The last section, PAGES, has the crc32 of every 4,096 bytes between the directory and
itself; a page is checked when something on it is read for the first time.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import STEP
from archive.base.errors import ArchiveError
from archive.companion.contents import Contents
from archive.companion.layout import (
    ALIGNMENT,
    HEADER,
    MAPPED_LINE,
    CompanionProfile,
    Section,
    check_crc,
    written,
)
from archive.companion.objects import built_objects, parsed_objects
from archive.normalform.check import CHECKED_BYTES, check
from archive.normalform.columns import BY_NAME, BY_NUMBER, COLUMNS, PAGES, RAW, STRINGS, VALUE_BYTES
from archive.normalform.form import NormalForm
from archive.normalform.pool import table_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.companion.layout import Directory
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns

COPIES = 5
"""Copies of all that it holds while one is built: its sections, a draft of it, and itself twice."""
OBJECT_LEVEL = 9
"""Of zstd, for what stood behind the segments of shared objects, which is compressed here, too."""
PAGE_BITS = 12
PAGE = 1 << PAGE_BITS
SIGNED = 16


def build_mapped(contents: Contents) -> bytes:
    """A mapped companion.

    Raises:
        LimitError: it would take more memory than the contents may.
    """
    strings = contents.strings
    columns: Columns = {**contents.columns, "string.end": np.cumsum(strings.length)}
    kinds = {name: _least(values) for name, values in columns.items()}
    size = sum(kind.itemsize * len(columns[name]) for name, kind in kinds.items())
    size += int(strings.length.sum()) + len(contents.raw) + len(contents.behind)
    with contents.form.allowance.lent(COPIES * size, "columns that are encoded"):
        return _built(contents, columns, kinds)


def _built(contents: Contents, columns: Columns, kinds: Mapping[ColumnName, np.dtype]) -> bytes:
    strings, parts = contents.strings, []
    ends = [*range(0, len(strings), STEP), len(strings)]
    texts = [b"".join(strings.copies(np.arange(low, high))) for low, high in pairwise(ends)]
    text = b"".join(texts)
    for column in COLUMNS:
        if column.name in columns:
            values, kind = columns[column.name], kinds[column.name]
            coding = kind.itemsize + SIGNED * (kind.kind == "i")
            parts.append((column.number, coding, len(values), values.astype(kind).tobytes()))
    parts += [(STRINGS, 1, len(text), text), (RAW, 1, len(contents.raw), bytes(contents.raw))]
    lines = [
        (Section(number, coding, 0, count, 0, len(data), len(data), zlib.crc32(data)), data)
        for number, coding, count, data in parts
    ]
    lines += built_objects(contents.behind, OBJECT_LEVEL, contents.form.allowance)
    draft = written(CompanionProfile.MAPPED, contents.archive_id, [*lines, _pages(b"")])
    begin = HEADER.size + MAPPED_LINE.size * (len(lines) + 1)
    aligned = begin + -begin % ALIGNMENT[CompanionProfile.MAPPED]
    return written(CompanionProfile.MAPPED, contents.archive_id, [*lines, _pages(draft[aligned:])])


def _pages(data: bytes) -> tuple[Section, bytes]:
    sums = [zlib.crc32(data[at : at + PAGE]) for at in range(0, len(data), PAGE)]
    stored = np.array(sums, "<u4").tobytes()
    size = len(stored)
    return Section(PAGES, 4, 0, len(sums), 0, size, size, zlib.crc32(stored)), stored


def _least(values: Ints) -> np.dtype[np.signedinteger] | np.dtype[np.unsignedinteger]:
    """The narrowest type that holds all values."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    kinds = ("<i1", "<i2", "<i4") if low < 0 else ("<u1", "<u2", "<u4")
    for kind in kinds:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return np.dtype(kind)
    return np.dtype("<i8")


def check_sections(directory: Directory) -> None:
    """Refuse a mapped companion without strings, or without the place for raw records.

    Raises:
        ArchiveError: a section is missing.
    """
    for number in (STRINGS, RAW, BY_NAME["string.end"].number):
        if number not in directory.sections:
            raise ArchiveError(place="directory", expected=f"section {number}", found="none")


def parse_mapped(data: memoryview, directory: Directory, allowance: Allowance) -> Contents:
    """All that a mapped companion holds, checked; strings stay where they lie.

    Raises:
        ArchiveError: its bytes were changed, or contradict one another.
        LimitError: it asks for more than allowed.
    """
    check_sections(directory)
    columns: Columns = {}
    for number, section in directory.sections.items():
        start, end = directory.places[number]
        check_crc(zlib.crc32(data[start:end]), section.checksum, f"section {number}, byte {start}")
        if number in BY_NUMBER:
            allowance.take(VALUE_BYTES * section.rows, "values", place=BY_NUMBER[number].name)
            columns[BY_NUMBER[number].name] = values(data[start:end], section).astype(np.int64)
    ends = columns.pop("string.end")
    start, end = directory.places[STRINGS]
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1] != end - start:
        raise ArchiveError(place="string.end", expected=f"ends up to {end - start}", found="others")
    strings = table_over(data[start:end], np.diff(ends, prepend=0), borrowed=True)
    longest = max(map(len, columns.values()), default=0)
    with allowance.lent(CHECKED_BYTES * longest, "values"):
        check(columns, len(strings), allowance)
    start, end = directory.places[RAW]
    form = NormalForm(columns, strings, allowance)
    return Contents(directory.archive_id, form, data[start:end], parsed_objects(data, directory, allowance))


def values(data: memoryview, section: Section) -> np.ndarray:
    """A column where it lies, as an array of its own width.

    Raises:
        ArchiveError: the section does not hold as many values as the directory says.
    """
    width = section.coding % SIGNED
    if width not in (1, 2, 4, 8) or width * section.rows != len(data) or section.coding > 2 * SIGNED:
        raise ArchiveError(
            place=f"section {section.number}", expected=f"{section.rows} values", found="others"
        )
    kind = "i" if section.coding & SIGNED or width == VALUE_BYTES else "u"
    return np.frombuffer(data, f"<{kind}{width}")
