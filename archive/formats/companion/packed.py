"""The packed profile: columns modelled, encoded, and compressed as one.

One section, SOLID, holds everything. Inflated it is: the number of columns (u8); for each a line
(``COLUMN``); the columns' bytes in the same order; the templates of the strings; the raw records. A
line's ``count`` is 0 where the column has as many rows as the one before, else the number of rows + 1.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING

import construct
import numpy as np

from archive.errors import ArchiveError, LimitError
from archive.formats.companion.codecs import STRONGEST, compressed, inflated, zstd
from archive.formats.companion.encodings import WORD, Encoded, Transform, decoded, encodings
from archive.formats.companion.facts import Facts, check
from archive.formats.companion.layout import Profile, Section, written
from archive.formats.companion.modelling import MODELLED, modelled, restored
from archive.formats.companion.pool import table_of
from archive.formats.companion.sections import BY_NUMBER, COLUMNS, SOLID
from archive.formats.companion.templates import Templates, cut, templated

if TYPE_CHECKING:
    from archive.formats.companion.layout import Directory
    from archive.limits import Limits
    from archive.numbering import Ints

    Columns = dict[str, Ints]

LONGEST = 24
"""Bytes of a column's line, if its numbers are of 64 bits."""

TRIAL = 3
"""The zstd level at which transforms of long columns are compared."""
LONG = 1 << 12

COLUMN = construct.Struct(
    "number" / construct.Int8ul,
    "coding"
    / construct.BitStruct(
        "transform" / construct.BitsInteger(3),
        "zigzag" / construct.Flag,
        "width" / construct.BitsInteger(4),
    ),
    "count" / construct.VarInt,
    "start" / construct.ZigZag,
)


def build_packed(facts: Facts, level: int) -> bytes:
    """The file.

    Args:
        facts: what it is to hold.
        level: of zstd; from 19 on, whatever the size, LZMA is tried, too.
    """
    templates = templated(facts.strings.copies())
    columns = modelled(facts.columns, templates, facts.strings.length)
    columns["string.template"] = templates.which
    columns["template.length"] = np.array([len(text) for text in templates.texts], np.int64)
    columns["number.value"] = templates.numbers
    body = _body(columns) + b"".join(templates.texts) + bytes(facts.raw)
    codec, data = compressed(body, level)
    section = Section(SOLID, 1, codec, len(body), 0, len(body), len(data), zlib.crc32(data))
    return written(Profile.PACKED, facts.archive_id, [(section, data)])


def _body(columns: Columns) -> bytes:
    lines, parts = [], []
    before = -1
    for column in COLUMNS:
        values = columns.get(column.name)
        if values is None:
            continue
        encoded = (
            _least(values)
            if len(values)
            else Encoded(Transform.SAME, zigzag=False, width=0, start=0, data=b"")
        )
        coding = {"transform": encoded.transform, "zigzag": encoded.zigzag, "width": encoded.width}
        count = 0 if len(values) == before else len(values) + 1
        start = 0 if encoded.transform is Transform.FLAT else encoded.start
        lines.append(
            COLUMN.build({"number": column.number, "coding": coding, "count": count, "start": start})
        )
        parts.append(encoded.data)
        before = len(values)
    return bytes([len(lines)]) + b"".join(lines + parts)


def _least(values: Ints) -> Encoded:
    """The encoding that compresses best."""
    candidates = list(encodings(values))
    if len(candidates) == 1:
        return candidates[0]
    level = STRONGEST if len(values) <= LONG else TRIAL
    return min(candidates, key=lambda candidate: len(zstd(candidate.data, level)))


def parse_packed(data: memoryview, directory: Directory, limits: Limits) -> Facts:
    """What a packed companion holds.

    Raises:
        ArchiveError: its bytes were changed, or contradict one another.
        LimitError: it asks for more than allowed.
    """
    if SOLID not in directory.sections:
        raise ArchiveError(place="directory", expected=f"section {SOLID}", found="others")
    section = directory.sections[SOLID]
    start, end = directory.places[SOLID]
    stored = data[start:end]
    found = zlib.crc32(stored)
    if found != section.checksum:
        place = f"section {SOLID}, byte {start}"
        raise ArchiveError(place=place, expected=f"checksum {section.checksum:#010x}", found=f"{found:#010x}")
    body = memoryview(inflated(section.codec, stored, section.inflated))
    kept, at = _columns(body, limits)
    which, lengths, numbers = (
        kept.pop(name) for name in ("string.template", "template.length", "number.value")
    )
    size = int(lengths.sum())
    texts = cut(body[at : at + size], lengths)
    if which.min(initial=0) < 0 or which.max(initial=-1) >= len(texts):
        raise ArchiveError(place="string.template", expected=f"templates of {len(texts)}", found="others")
    templates = Templates(texts, which, numbers)
    strings = table_of(templates.filled())
    check(kept, len(strings), limits, unread=MODELLED)
    columns = restored(kept, templates, strings.length)
    check(columns, len(strings), limits)
    raw = body[at + size :]
    return Facts(directory.archive_id, columns, strings, raw)


def _columns(body: memoryview, limits: Limits) -> tuple[Columns, int]:
    """The columns, still modelled, and where the strings begin."""
    stream = io.BytesIO(body[: 1 + int(body[0]) * LONGEST] if len(body) else b"\0")
    (count,) = stream.read(1)
    try:
        lines = [COLUMN.parse_stream(stream) for _ in range(count)]
    except construct.ConstructError as cause:
        raise ArchiveError(place=f"section {SOLID}", expected=f"{count} columns", found="others") from cause
    at = stream.tell()
    columns: Columns = {}
    rows = total = 0
    for line in lines:
        rows = line.count - 1 if line.count else rows
        total += rows
        if total * WORD > limits.record_bytes:
            raise LimitError("record_bytes", limits.record_bytes, total * WORD, place=f"section {SOLID}")
        column, coding = BY_NUMBER.get(line.number), line.coding
        if column is None or column.name in columns or coding.transform > max(Transform):
            raise ArchiveError(
                place=f"section {SOLID}", expected="known columns, each once", found=str(line.number)
            )
        size = rows * coding.width
        encoded = Encoded(
            Transform(coding.transform), coding.zigzag, coding.width, line.start, bytes(body[at : at + size])
        )
        try:
            columns[column.name] = decoded(encoded, rows)
        except ArchiveError as problem:
            raise problem.within(place=column.name) from problem.__cause__
        at += size
    return columns, at
