"""The lines of columns, and texts: what is built is parsed, and what is broken is told."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.companion.build import build_companion
from archive.companion.codecs import Codec
from archive.companion.encodings import (
    ColumnLine,
    EncodedColumn,
    Transform,
    build_lines,
    encoded_by,
    is_varied,
    parse_lines,
)
from archive.companion.layout import (
    MAPPED_LINE,
    CompanionLayout,
    read_directory,
    written,
)
from archive.companion.packed import solid_body, stored
from archive.companion.parse import OpenedCompanion, parse_companion
from archive.container.write import new_member
from archive.formats.schema.varints import build_signed
from archive.normalform.columns import COLUMNS, SOLID, STRINGS
from archive.reader.collect import collect
from tests.support.exported import EXPORTED, PROGRAMS
from tests.support.sampling import examples
from tests.support.zips import written as zipped

if TYPE_CHECKING:
    from pathlib import Path

    from archive.companion.contents import Contents

LAST = COLUMNS[-1].number


@st.composite
def lines(draw: st.DrawFn) -> list[ColumnLine]:
    """Lines of some columns, in the order of their numbers."""
    found = []
    for column in sorted(COLUMNS, key=lambda column: column.number):
        if draw(st.booleans()):
            transform, width = draw(st.sampled_from(Transform)), draw(st.integers(0, 8))
            start = 0 if transform is Transform.FLAT else draw(st.integers(-1 << 63, (1 << 63) - 1))
            encoded = EncodedColumn(transform, draw(st.booleans()), width, start, b"")
            found.append(ColumnLine(column.name, draw(st.integers(0, 3) | st.integers(0, 1 << 40)), encoded))
    return found


@settings(max_examples=examples(100))
@given(lines=lines(), rest=st.binary(max_size=9))
def test_lines_are_parsed_as_they_were_built(lines: list[ColumnLine], rest: bytes) -> None:
    built = build_lines(lines)
    assert parse_lines(memoryview(built + rest)) == (lines, len(built))


def test_fields_of_lines_stand_together() -> None:
    flat, same = (
        EncodedColumn(transform, zigzag=False, width=width, start=start, data=b"")
        for transform, width, start in ((Transform.FLAT, 1, 0), (Transform.SAME, 0, -1))
    )
    listed = [
        ColumnLine("program.sites", 3, flat),
        ColumnLine("site.scope", 300, same),
        ColumnLine("site.base", 300, flat),
    ]
    assert build_lines(listed) == b"\x71\7\1\0" + b"\x01\xa0\x01" + b"\4\xad\2\0" + b"\1"


@pytest.mark.parametrize(
    ("built", "said"),
    [
        (b"", "^section 3, byte 0, field step: expected lines of columns, found others$"),
        (b"\x71\7", "^section 3, byte 2, field step: expected lines of columns, found others$"),
        (b"\x71\0", "^section 3, byte 2, field coding: expected lines of columns, found others$"),
        (b"\x71\0\1", "^section 3, byte 3, field count: expected lines of columns, found others$"),
        (b"\x71\0\xa0\1", "^section 3, byte 4, field start: expected lines of columns, found others$"),
        (b"\1\0\1\1", "expected known columns, each once, found number 1, coding 0, 1"),
        (b"\x71\0\xe0\1\0", "expected known columns, each once, found number 113, coding 7, 0"),
        (b"\x71\0\x09\1", "expected known columns, each once, found number 113, coding 0, 9"),
        (b"\x71\0\xa0\1" + build_signed(1 << 63), "program.sites: expected a start of 64 bits"),
        (
            b"\1" * (LAST + 30 * len(COLUMNS)),
            "expected known columns, each once, found number 1, coding 0, 1",
        ),
    ],
)
def test_lines_that_are_broken_are_told(built: bytes, said: str) -> None:
    with pytest.raises(ArchiveError, match=said):
        parse_lines(memoryview(built))


def contents_of(path: Path) -> Contents:
    with archive.open(path) as opened:
        return collect(opened)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_columns_that_are_encoded_alike_are_the_same_columns(path: Path) -> None:
    contents = contents_of(path)
    columns, texts = stored(contents)
    transforms = {True: Transform.DELTA, False: Transform.SAME}
    deltas = {name: encoded_by(transforms[is_varied(values)], values) for name, values in columns.items()}
    sections = [(SOLID, solid_body(columns, deltas) + contents.raw), (STRINGS, texts)]
    data = written(
        CompanionLayout.PACKED,
        contents.archive_id,
        [
            (
                MAPPED_LINE.row(number, 1, Codec.NONE, len(part), 0, len(part), len(part), zlib.crc32(part)),
                part,
            )
            for number, part in sections
        ],
    )
    again = parse_companion(memoryview(data))
    assert again.columns.keys() == contents.columns.keys()
    for name, values in contents.columns.items():
        assert np.array_equal(again.columns[name], values), name
    assert again.strings.copies() == contents.strings.copies()


def named(folder: Path, code: str) -> Path:
    """A program with one node, whose trace has that line."""
    metadata = {"stack_trace": f'File "a.py", line 1, in f\n    {code}'}
    node = {"target": "f", "inputs": [], "outputs": [], "name": "a", "metadata": metadata}
    tree = {"graph_module": {"graph": {"nodes": [node]}}}
    record = new_member("models/model.json", json.dumps(tree).encode())
    path = folder / "named.pt2"
    path.write_bytes(zipped(new_member("archive_format", b"pt2"), record))
    return path


@pytest.mark.parametrize("code", ["x", "x\0y", "\0", "\1"])
def test_texts_may_have_what_stands_between_them(code: str, tmp_path: Path) -> None:
    contents = contents_of(named(tmp_path, code))
    data = build_companion(contents)
    opened = OpenedCompanion(memoryview(data))
    assert ("template.length" in opened.columns) == ("\0" in code)
    assert opened.contents.strings.copies() == contents.strings.copies()
    assert code.encode() in opened.contents.strings.copies()


def test_texts_cost_what_they_take_once_they_are_apart() -> None:
    contents = contents_of(EXPORTED / "own.pt2")
    data = memoryview(build_companion(contents))
    directory = read_directory(data)
    sections = {
        number: (one, bytes(data[slice(*directory.places[number])]))
        for number, one in directory.sections.items()
    }
    many = bytes(1 << 20)
    line = MAPPED_LINE.row(STRINGS, 1, Codec.NONE, 0, 0, len(many), len(many), zlib.crc32(many))
    sections[STRINGS] = (line, many)
    bomb = written(CompanionLayout.PACKED, contents.archive_id, list(sections.values()))
    with (
        pytest.raises(LimitError, match="section 1: memory is limited to"),
        memory.charged(Limits(memory=1 << 23).allowance(0)),
    ):
        parse_companion(memoryview(bomb))
