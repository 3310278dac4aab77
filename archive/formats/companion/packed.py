"""The packed profile, written: columns modelled, encoded, and compressed as one.

The section SOLID holds everything. Inflated it is: the number of columns (u8); for each a line
(``COLUMN``); the columns' bytes in the same order; the templates of the strings; the raw records. A
line's ``count`` is 0 where the column has as many rows as the one before, else the number of rows + 1.

Where the columns are more than 4 MiB together, those of more than 65,536 rows are sections of their own,
in blocks: see :mod:`archive.formats.companion.blocks`. (Those that one value tells stay, and those that
are encoded by looking back.)
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import construct
import numpy as np

from archive.formats.companion.blocks import BLOCK, build_blocks
from archive.formats.companion.codecs import STRONGEST, compressed, zstd
from archive.formats.companion.encodings import Encoded, Transform, encodings
from archive.formats.companion.layout import Profile, Section, written
from archive.formats.companion.modelling import modelled
from archive.formats.companion.sections import BY_NAME, COLUMNS, SOLID
from archive.formats.companion.templates import templated

if TYPE_CHECKING:
    from archive.formats.companion.facts import Facts
    from archive.numbering import Ints

    Columns = dict[str, Ints]

LONGEST = 24
"""Bytes of a column's line, if its numbers are of 64 bits."""

MUCH = 1 << 22
"""Bytes of columns, inflated, from which on long ones are apart."""

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
    encoded = {column.name: _least(columns[column.name]) for column in COLUMNS if column.name in columns}
    apart = _apart(columns, encoded)
    body = _body(columns, {name: one for name, one in encoded.items() if name not in apart})
    body += b"".join(templates.texts) + bytes(facts.raw)
    codec, data = compressed(body, level)
    solid = Section(SOLID, 1, codec, len(body), 0, len(body), len(data), zlib.crc32(data))
    blocks = [build_blocks(BY_NAME[name].number, columns[name], encoded[name], level) for name in apart]
    return written(Profile.PACKED, facts.archive_id, [(solid, data), *blocks])


def _apart(columns: Columns, encoded: dict[str, Encoded]) -> list[str]:
    """The columns that get sections of their own: none, unless all together are much to inflate."""
    if sum(len(one.data) for one in encoded.values()) <= MUCH:
        return []
    alone = (Transform.SAME, Transform.BACK)
    return [
        name for name, one in encoded.items() if len(columns[name]) > BLOCK and one.transform not in alone
    ]


def _body(columns: Columns, encoded: dict[str, Encoded]) -> bytes:
    lines, before = [], -1
    for name, one in encoded.items():
        coding = {"transform": one.transform, "zigzag": one.zigzag, "width": one.width}
        rows = len(columns[name])
        count = 0 if rows == before else rows + 1
        start = 0 if one.transform is Transform.FLAT else one.start
        line = {"number": BY_NAME[name].number, "coding": coding, "count": count, "start": start}
        lines.append(COLUMN.build(line))
        before = rows
    return bytes([len(lines)]) + b"".join(lines) + b"".join(one.data for one in encoded.values())


def _least(values: Ints) -> Encoded:
    """The encoding that compresses best."""
    if not len(values):
        return Encoded(Transform.SAME, zigzag=False, width=0, start=0, data=b"")
    candidates = list(encodings(values))
    if len(candidates) == 1:
        return candidates[0]
    level = STRONGEST if len(values) <= LONG else TRIAL
    return min(candidates, key=lambda candidate: len(zstd(candidate.data, level)))
