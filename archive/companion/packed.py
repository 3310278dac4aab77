"""Builds packed companions: columns are modelled, encoded, and compressed together.

The section SOLID holds all columns. Inflated it is::

    lines     how each column is encoded: see :mod:`archive.companion.lines`
    bytes     of each column, in the same order
    bytes     of the raw records

The section STRINGS has the templates of strings, with a NUL between them; ``template.length`` is there only
if a template has a NUL of its own, and then none is between them. Both sections are compressed with the
dictionaries that all companions share (:mod:`archive.companion.codecs`) where that makes them smaller.
Columns of no rows that must be there are left out.

If the columns are more than 4 MiB together, those of more than 65,536 rows are sections of their own, in
blocks: see :mod:`archive.companion.blocks`. Columns of one value (SAME) stay in SOLID, and so do
``row.range`` and ``string.template`` if they are encoded by BACK.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from archive.companion.blocks import BLOCK_ROWS, build_blocks
from archive.companion.codecs import (
    SMALL,
    STRONGEST,
    Codec,
    compressed,
    encoder_bytes,
    zstd,
    zstd_bytes,
)
from archive.companion.encodings import Encoded, Transform, encodings
from archive.companion.layout import CompanionProfile, Section, written
from archive.companion.lines import Line, build_lines
from archive.companion.modelling import modelled
from archive.companion.objects import built_objects
from archive.companion.templates import SEPARATOR, templated
from archive.normalform.columns import ALWAYS, BY_NAME, COLUMNS, SOLID, STRINGS, TOGETHER, VALUE_BYTES

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.companion.contents import Contents
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns

MUCH = 1 << 22
"""Bytes of all encoded columns from which on long columns get sections of their own."""

LEFT_OUT = [
    column.name
    for column in COLUMNS
    if column.table in {*ALWAYS, *TOGETHER["program"]} and column.table != "file" and not column.optional
]
"""Columns that are left out where they have no rows."""

LINE = 14
"""Bytes that a line of the directory takes, about."""

WHOLE = {Transform.BACK}
"""Transforms whose values can only be read from the first row on, and so not in blocks."""
NEVER_ALONE = {"row.range", "string.template"}
"""Columns of which nobody asks for single rows: they may be encoded by BACK."""

LONG, QUICK = 1 << 12, 6
"""From LONG rows on, a column's encodings are compared at zstd's level QUICK, else at its strongest."""


def build_packed(contents: Contents, level: int) -> bytes:
    """A packed companion.

    Args:
        contents: of the file.
        level: of zstd; from 19 on, whatever the size, LZMA is tried, too.
    """
    columns, texts = stored(contents)
    allowance, what = contents.form.allowance, "columns that are encoded"
    with allowance.lent(_candidate_bytes(columns), what):
        encoded = {column.name: _least(columns[column.name]) for column in COLUMNS if column.name in columns}
        apart = _apart(columns, encoded)
        encoded |= {
            name: _least(columns[name], whole=False) for name in apart if encoded[name].transform in WHOLE
        }
    body = _body(columns, {name: one for name, one in encoded.items() if name not in apart})
    raw, blocks = bytes(contents.raw), {name: encoded[name] for name in apart}
    sizes = [len(body) + len(raw), len(texts), _longest_block(blocks, level)]
    with allowance.lent(max(encoder_bytes(size, level) for size in sizes), what):
        bodies = [body, alike(columns)] if len(body) <= SMALL and not apart else [body]
        sections = [_least_section(SOLID, [one + raw for one in bodies], Codec.COLUMNS, level)]
        sections.append(_least_section(STRINGS, [texts], Codec.TEXTS, level))
        sections += [
            build_blocks(BY_NAME[name].number, columns[name], one, level) for name, one in blocks.items()
        ]
    sections += built_objects(contents.behind, level, allowance)
    return written(CompanionProfile.PACKED, contents.archive_id, sections)


def _candidate_bytes(columns: Columns) -> int:
    """Bytes of memory that zstd takes while the encodings of a column are compared."""
    most = max(map(len, columns.values()), default=0)
    quick, best = zstd_bytes(VALUE_BYTES * most, QUICK), zstd_bytes(VALUE_BYTES * min(most, LONG), STRONGEST)
    return max(quick, best)


def _longest_block(blocks: dict[ColumnName, Encoded], level: int) -> int:
    """Bytes that are compressed at once; at the strongest levels, whole columns are tried first."""
    most = max((len(one.data) for one in blocks.values()), default=0)
    return most if level >= STRONGEST else min(most, BLOCK_ROWS * VALUE_BYTES)


def stored(contents: Contents) -> tuple[Columns, bytes]:
    """The columns that a packed companion has, before they are encoded; and the templates of its strings."""
    templates = templated(contents.strings.copies())
    columns = modelled(contents.columns, templates, contents.strings.length)
    columns["string.template"] = templates.which
    columns["template.length"] = np.array([len(text) for text in templates.texts], np.int64)
    columns["number.value"] = templates.numbers
    columns = {name: values for name, values in columns.items() if len(values) or name not in LEFT_OUT}
    divided = SEPARATOR.join(templates.texts)
    if divided.split(SEPARATOR) != templates.texts:
        return columns, b"".join(templates.texts)
    del columns["template.length"]
    return columns, divided


def alike(columns: Columns) -> bytes:
    """Columns as all companions would encode them, for the dictionary's sake."""
    return _body(columns, {name: _alike(values) for name, values in columns.items()})


def _least_section(number: int, bodies: list[bytes], words: Codec, level: int) -> tuple[Section, bytes]:
    """The section that is smallest of some bodies, with or without the words of a dictionary."""
    found = [
        _section(number, body, *compressed(body, level, codec)) for body in bodies for codec in (None, words)
    ]
    return min(found, key=lambda one: len(one[1]))


def _section(number: int, body: bytes, codec: Codec, data: bytes) -> tuple[Section, bytes]:
    return Section(number, 1, codec, len(body), 0, len(body), len(data), zlib.crc32(data)), data


def _apart(columns: Columns, encoded: dict[ColumnName, Encoded]) -> list[ColumnName]:
    """The columns that get sections of their own: none, if all together are soon inflated."""
    if sum(len(one.data) for one in encoded.values()) <= MUCH:
        return []
    long = [name for name, one in encoded.items() if len(columns[name]) > BLOCK_ROWS and one.width]
    return [name for name in long if encoded[name].transform not in WHOLE or name not in NEVER_ALONE]


def _body(columns: Columns, encoded: dict[ColumnName, Encoded]) -> bytes:
    lines = [Line(name, len(columns[name]), one) for name, one in encoded.items()]
    lines.sort(key=lambda line: BY_NAME[line.name].number)
    return build_lines(lines) + b"".join(line.encoded.data for line in lines)


def _alike(values: Ints) -> Encoded:
    if not len(values):
        return _least(values)
    known = (Transform.SAME, Transform.DELTA)
    return next(one for one in encodings(values) if one.transform in known)


def _least(values: Ints, *, whole: bool = True) -> Encoded:
    """The encoding that compresses best; unless ``whole``, one whose blocks can be read alone."""
    if not len(values):
        return Encoded(Transform.SAME, zigzag=False, width=0, start=0, data=b"")
    candidates = list(encodings(values, whole=whole))
    if len(candidates) == 1:
        return candidates[0]
    level = STRONGEST if len(values) <= LONG else QUICK
    return min(candidates, key=lambda candidate: len(zstd(candidate.data, level)))
