"""``verify`` of source ranges: each fault is reported once, with its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import Limits
from archive.check.verify import verify
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from archive.rewrite.shrink import shrink
from tests.support.corpus import CALLSTACKS, DELEGATED, RELEASES
from tests.support.strategies import Range, table_of
from tests.support.tampering import (
    LINEAR,
    LOWERED,
    MODELS,
    NESTED_1_2,
    NESTED_1_8,
    NESTED_1_9,
    PLAIN,
    STACK,
    TORCH,
    UNICODE,
    edited,
    ranges,
    said,
    tampered,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NESTED_1_12 = RELEASES / "torch-1.12.0" / "nested.pt"
TRACED = RELEASES / "torch-2.13.0" / "traced.ptl"
MANGLED = f"{TORCH}/modules/linear/___torch_mangle_26.py.debug_pkl"
DEBUG = MODELS + ".debug_pkl"
LINEAR_DEBUG, CONTAINER = LINEAR + ".debug_pkl", f"{TORCH}/modules/container.py.debug_pkl"
LEGACY = "debug/nested_gate.pkl"
TABLE = b"\x80\x02X\x18\0\0\0FORMAT_WITH_STRING_TABLEq\0"


@pytest.mark.parametrize(
    ("path", "record", "cells", "expected"),
    [
        (
            NESTED_1_12,
            DEBUG,
            {"offset": {2: 2, 5: 5}},
            [
                "row 2, field offset: expected more than 296, the offset before it, found 2",
                "row 5, field offset: expected more than 375, the offset before it, found 5",
            ],
        ),
        (
            NESTED_1_9,
            DEBUG,
            {"offset": {3: 282}},
            ["row 3, field offset: expected more than 282, the offset"],
        ),
        (NESTED_1_2, LEGACY, {"offset": {0: 82}}, ["row 1, field offset: expected more than 82, the offset"]),
        (
            NESTED_1_8,
            DEBUG,
            {"offset": {-1: 1868, 0: -1}},
            [
                "row 0, field offset: expected an offset from 0 to 1867, inside of the code, found -1",
                "row 106, field offset: expected an offset from 0 to 1867, inside of the code, found 1868",
            ],
        ),
        (
            NESTED_1_2,
            LEGACY,
            {"offset": {-1: 286}},
            ["row 28, field offset: expected an offset from 0 to 285"],
        ),
        (
            NESTED_1_8,
            DEBUG,
            {"end": {1: 196}, "start": {3: 49}},
            [
                "row 1, field range: expected start <= end <= 195, the text's end, found 38 to 196",
                "row 3, field range: expected start <= end <= 195, the text's end, found 49 to 48",
            ],
        ),
        (
            STACK,
            LINEAR_DEBUG,
            {"end": {0: 2}, "tag": {0: 900}},
            ["row 0, field range: expected 0 to 0 or 0 to 1, as the text is empty, found 0 to 2"],
        ),
        (NESTED_1_2, LEGACY, {"end": {0: 2}}, ["row 0, field range: expected 0 to 0 or 0 to 1, as the text"]),
    ],
)
def test_rows_that_are_wrong_by_themselves(
    path: Path, record: str, cells: Mapping[str, Mapping[int, int]], expected: list[str]
) -> None:
    found = said(tampered(path, ranges(path, record, **cells)))
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(f"error: {record}, {start}")


@pytest.mark.parametrize(
    ("path", "record", "cells", "expected"),
    [
        (STACK, LINEAR_DEBUG, {"tag": {1: -1}}, {"warning: row 1, field tag: expected a tag, found -1"}),
        (
            NESTED_1_9,
            DEBUG,
            {"tag": {1: 0}},
            {
                f"error: row 1, field tag: tag 0 stands for another range in row 0 of '{DEBUG}'",
                "note: row 3, field tag: tag 1 stands for the same range as tag 0 in row 1",
            },
        ),
        (
            STACK,
            MANGLED,
            {"end": {1: 127}},
            {f"error: row 1, field tag: tag 11 stands for another range in row 1 of '{LINEAR_DEBUG}'"},
        ),
        (
            STACK,
            MANGLED,
            {"tag": {1: 10}},
            {f"error: row 1, field tag: tag 10 stands for another range in row 5 of '{CONTAINER}'"},
        ),
        (
            LOWERED,
            DELEGATED,
            {"offset": {2: 0}},
            {"warning: row 2, field offset: expected -1, as the code is the backend's, found 0"},
        ),
    ],
)
def test_rows_that_disagree_with_others(
    path: Path, record: str, cells: Mapping[str, Mapping[int, int]], expected: set[str]
) -> None:
    found = said(tampered(path, ranges(path, record, **cells)))
    assert {line.replace(f"{record}, ", "", 1) for line in found if CALLSTACKS not in line} == expected


def test_rows_of_several_records_are_told_by_their_own_records() -> None:
    first, second = PLAIN + ".debug_pkl", LINEAR_DEBUG
    wrong = {"tag": {0: -1, 1: -1}}
    found = said(tampered(STACK, {**ranges(STACK, first, **wrong), **ranges(STACK, second, **wrong)}))
    assert [line for line in found if "expected a tag" in line] == [
        f"warning: {record}, row {row}, field tag: expected a tag, found -1"
        for record in (first, second)
        for row in (0, 1)
    ]


def test_equal_sources_may_have_the_same_tag_or_not() -> None:
    assert said(tampered(STACK, ranges(STACK, MANGLED, tag={1: 900}))) == []


@pytest.mark.parametrize(
    ("path", "place", "several"),
    [
        (
            LOWERED,
            "row 3, field tag: tag 4 stands for the same range as tag 3 in row 1",
            "35 ranges of several tags in 2 records",
        ),
        (
            TRACED,
            "row 41, field tag: tag 20 stands for the same range as tag 19 in row 40",
            "9 ranges of several tags",
        ),
    ],
)
def test_several_tags_of_a_range_whose_sources_were_made_one_are_one_note(
    path: Path, place: str, several: str, tmp_path: Path
) -> None:
    shrink(path, tmp_path / "compact.ptl")
    found = said(tmp_path / "compact.ptl")
    (noted,) = (line for line in found if "stands for the same range" in line)
    assert noted.endswith(f", {place}; the first of {several}")
    assert [line for line in found if not line.startswith("note: ")] == []


def test_sources_that_differ_in_text_name_or_line_are_told_apart() -> None:
    expected = (
        f"error: {MANGLED}, row 1, field tag: tag 11 stands for another range in row 1 of '{LINEAR_DEBUG}'"
    )
    for old, new in ((b"return", b"Return"), (b"/linear.py", b"/Linear.py"), (b"K\x82\x87", b"K\x83\x87")):

        def changed(data: bytes, old: bytes = old, new: bytes = new) -> bytes:
            assert old in data
            return data.replace(old, new)

        assert said(tampered(STACK, {MANGLED: changed})) == [expected], old


def test_in_empty_code_there_is_no_offset() -> None:
    made = build_source_ranges(table_of([0], [Range(b"x", 0, 1, b"m.py", 1)], RangeLayout.INLINE), 0)
    problem = "row 0, field offset: expected no offset, as the code is empty, found 0"
    assert said(tampered(NESTED_1_12, {DEBUG: made, MODELS: b""})) == [f"error: {DEBUG}, {problem}"]


def test_texts_that_are_too_long_are_not_compared() -> None:
    for limit, texts in ((100, "2 texts"), (400, "1 text")):
        (finding,) = verify(STACK, limits=Limits(compared_bytes=limit))
        message = f"{texts} too long to be compared, tag by tag"
        assert (finding.severity, str(finding)) == ("note", message)


@pytest.mark.parametrize(("piece", "filename", "field"), [(5, 0, "text"), (0, 5, "filename"), (0, 0, "")])
def test_an_index_outside_of_the_string_table_is_found(piece: int, filename: int, field: str) -> None:
    text = b"ctorch.jit._pickle\nbuild_intlist\n(](K%cetR" % piece
    row = b"K\0" + text + b"K%cK\0\x87q\1K\0K\0\x87K\0\x87" % filename
    found = said(tampered(NESTED_1_12, {DEBUG: TABLE + b"X\0\0\0\0\x85" + row + b"\x85\x87."}))
    if field:
        place = f"row 0, field {field}: expected an index into a string table of 1, found 5"
        assert found == [f"error: {DEBUG}, {place}"]
    else:
        assert not any(line.startswith("error") for line in found)


def test_one_broken_record_does_not_hide_what_is_wrong_in_others() -> None:
    changes = {
        LINEAR_DEBUG: b"\x80\x02N.",
        f"{TORCH}/functional.py.debug_pkl": b"",
        **ranges(STACK, PLAIN + ".debug_pkl", offset={1: 0}),
    }
    first, second, third, fourth = said(tampered(STACK, changes))
    assert first.startswith(f"error: {PLAIN}.debug_pkl, row 1, field offset: ")
    assert second.startswith(f"error: {LINEAR_DEBUG}, byte 2: expected ")
    assert third.startswith(f"error: {TORCH}/functional.py.debug_pkl")
    assert fourth == f"note: {CALLSTACKS}: tags are not looked up, as not all source ranges can be read"


def test_a_damaged_code_record_leaves_its_offsets_unjudged() -> None:
    with archive.open(STACK) as opened:
        at = opened.container.records[PLAIN].place.data
    data = bytearray(STACK.read_bytes())
    data[at + 50] ^= 0xFF
    (line,) = said(bytes(data))
    assert line.startswith(f"error: {PLAIN}, byte {at}: ")


@pytest.mark.parametrize(("path", "record"), [(STACK, PLAIN + ".debug_pkl"), (NESTED_1_8, DEBUG)])
def test_records_that_another_pickler_wrote_are_noted(path: Path, record: str) -> None:
    with archive.open(path) as opened:
        old = bytes(opened.records[record].view())
    at = old.index(b"q\0")
    long = old[:at] + b"r\0\0\0\0" + old[at + 2 :]
    words = f"from here on not as PyTorch writes it ({len(old) + 3:,} bytes, which would be {len(old):,})"
    assert said(tampered(path, {record: long})) == [f"note: {record}, byte {at}: {words}"]


@pytest.mark.parametrize("path", [NESTED_1_8, NESTED_1_2])
def test_sources_without_text_are_well(path: Path) -> None:
    record = DEBUG if path is NESTED_1_8 else LEGACY
    with archive.open(path) as opened:
        table = opened.range_table
        number = table.numbers[record]
        rows = np.array(table.rows(number))
        source = int(table.source[rows[1]])
        own = rows[table.source[rows] == source]
        null = int(table.sources.piece[table.source[rows[0]]])
        emptied = replace(table, sources=edited(table.sources, piece={source: null}))
        zeros = dict.fromkeys(own.tolist(), 0)
        data = build_source_ranges(edited(emptied, start=zeros, end=zeros), number)
    assert said(tampered(path, {record: data})) == [], "PyTorch writes them, and nothing is to be done"


@pytest.mark.parametrize("path", [UNICODE, RELEASES / "torch-1.9.0" / "unicode.pt"])
def test_texts_that_are_not_utf8_are_warned_of(path: Path) -> None:
    with archive.open(path) as opened:
        data = bytearray(opened.records[DEBUG].view())
    at = data.index("é".encode())
    data[at] = 0xFF
    assert said(tampered(path, {DEBUG: bytes(data)})) == [
        f"warning: {DEBUG}, byte {at}: expected UTF-8, found 0xff (invalid start byte)"
    ]


@pytest.mark.parametrize(("end", "refused"), [(1, False), (2, True)])
@pytest.mark.parametrize("filename", [b"m.py", None, b""])
def test_one_byte_of_an_empty_source_is_what_pytorch_writes_where_a_trace_knew_no_place(
    end: int, filename: bytes | None, *, refused: bool
) -> None:
    made = build_source_ranges(table_of([0], [Range(b"", 0, end, filename, 0)], RangeLayout.INLINE), 0)
    found = [line for line in said(tampered(NESTED_1_12, {DEBUG: made})) if "as the text is empty" in line]
    assert bool(found) == refused
