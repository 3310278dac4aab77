"""Builds packed companions: columns are modelled, encoded, and compressed together.

The section SOLID holds everything. Inflated it is::

    u8           number of columns
    COLUMN_LINE  for each column
    bytes        of each column, in the same order
    bytes        of the templates of strings
    bytes        of the raw records

In companions of version 2, columns of no rows that must be there are left out.

A line's ``count`` is 0 where the column has as many rows as the one before, else the number of rows + 1.

The templates are a section of their own, STRINGS, if that is smaller with the dictionary that all companions
share (:mod:`archive.companion.dictionary`).

If the columns are more than 4 MiB together, those of more than 65,536 rows are sections of their own, in
blocks: see :mod:`archive.companion.blocks`. Columns of one value (SAME) stay in SOLID, and so do
``row.range`` and ``string.template`` if they are encoded by BACK.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import construct
import numpy as np

from archive.companion.blocks import BLOCK_ROWS, build_blocks
from archive.companion.codecs import BEST, QUICKEST, SMALL, STRONGEST, Codec, compressed, lzma, zstd
from archive.companion.encodings import Encoded, Transform, encodings
from archive.companion.layout import CompanionProfile, Section, written
from archive.companion.modelling import modelled
from archive.companion.objects import built_objects
from archive.companion.templates import templated
from archive.normalform.columns import ALWAYS, BY_NAME, COLUMNS, SOLID, STRINGS, TOGETHER

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.companion.contents import Contents
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns

COLUMN_LINE_BYTES = 24
"""Most bytes of a column's line."""

MUCH = 1 << 22
"""Bytes of all encoded columns from which on long columns get sections of their own."""

LEFT_OUT = [
    column.name
    for column in COLUMNS
    if column.table in {*ALWAYS, *TOGETHER["program"]} and column.table != "file" and not column.optional
]
"""Columns that companions of version 2 leave out where they have no rows."""

LINE = 14
"""Bytes that a line of the directory takes, about."""

WHOLE = {Transform.BACK}
"""Transforms whose values can only be read from the first row on, and so not in blocks."""
NEVER_ALONE = {"row.range", "string.template"}
"""Columns of which nobody asks for single rows: they may be encoded by BACK."""

LONG, QUICK = 1 << 12, 6
"""From LONG rows on, a column's encodings are compared at zstd's level QUICK, else at its strongest."""

COLUMN_LINE = construct.Struct(
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


def build_packed(contents: Contents, level: int) -> bytes:
    """A packed companion.

    Args:
        contents: of the file.
        level: of zstd; from 19 on, whatever the size, LZMA is tried, too.
    """
    templates = templated(contents.strings.copies())
    columns = modelled(contents.columns, templates, contents.strings.length)
    columns["string.template"] = templates.which
    columns["template.length"] = np.array([len(text) for text in templates.texts], np.int64)
    columns["number.value"] = templates.numbers
    left_out = LEFT_OUT if contents.version > 1 else []
    kept = [name for name, values in columns.items() if len(values) or name not in left_out]
    encoded = {column.name: _least(columns[column.name]) for column in COLUMNS if column.name in kept}
    apart = _apart(columns, encoded)
    encoded |= {
        name: _least(columns[name], whole=False) for name in apart if encoded[name].transform in WHOLE
    }
    body = _body(columns, {name: one for name, one in encoded.items() if name not in apart})
    texts, raw = b"".join(templates.texts), bytes(contents.raw)
    solid = [b"".join((body, texts, raw))]
    words = Codec.PROGRAMS if contents.version > 1 else Codec.WORDS
    if len(texts) <= SMALL:
        solid = _shorter(solid, [body + raw, texts], words)
    sections = [_section(SOLID, solid[0], *compressed(solid[0], level))]
    if solid[1:]:
        sections.append(_section(STRINGS, texts, *compressed(texts, level, words)))
    blocks = [build_blocks(BY_NAME[name].number, columns[name], encoded[name], level) for name in apart]
    sections += [*blocks, *built_objects(contents.behind, level)]
    return written(CompanionProfile.PACKED, contents.archive_id, sections, contents.version)


def _shorter(solid: list[bytes], divided: list[bytes], words: Codec) -> list[bytes]:
    """The smaller way: all in one section, or the texts in a section of their own."""
    preset = BEST if len(solid[0]) <= SMALL else QUICKEST
    apart = lzma(divided[0], preset), compressed(divided[1], STRONGEST, words)[1]
    return divided if sum(map(len, apart)) + LINE < len(lzma(solid[0], preset)) else solid


def _section(number: int, body: bytes, codec: Codec, data: bytes) -> tuple[Section, bytes]:
    return Section(number, 1, codec, len(body), 0, len(body), len(data), zlib.crc32(data)), data


def _apart(columns: Columns, encoded: dict[ColumnName, Encoded]) -> list[ColumnName]:
    """The columns that get sections of their own: none, if all together are soon inflated."""
    if sum(len(one.data) for one in encoded.values()) <= MUCH:
        return []
    long = [name for name, one in encoded.items() if len(columns[name]) > BLOCK_ROWS and one.width]
    return [name for name in long if encoded[name].transform not in WHOLE or name not in NEVER_ALONE]


def _body(columns: Columns, encoded: dict[ColumnName, Encoded]) -> bytes:
    lines, before = [], -1
    for name, one in encoded.items():
        coding = {"transform": one.transform, "zigzag": one.zigzag, "width": one.width}
        rows = len(columns[name])
        count = 0 if rows == before else rows + 1
        start = 0 if one.transform is Transform.FLAT else one.start
        line = {"number": BY_NAME[name].number, "coding": coding, "count": count, "start": start}
        lines.append(COLUMN_LINE.build(line))
        before = rows
    return bytes([len(lines)]) + b"".join(lines) + b"".join(one.data for one in encoded.values())


def _least(values: Ints, *, whole: bool = True) -> Encoded:
    """The encoding that compresses best; unless ``whole``, one whose blocks can be read alone."""
    if not len(values):
        return Encoded(Transform.SAME, zigzag=False, width=0, start=0, data=b"")
    candidates = list(encodings(values, whole=whole))
    if len(candidates) == 1:
        return candidates[0]
    level = STRONGEST if len(values) <= LONG else QUICK
    return min(candidates, key=lambda candidate: len(zstd(candidate.data, level)))
