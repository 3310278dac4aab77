"""Inside of debug records: text, rows, overhead, source files; and what of them cannot be read."""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError
from archive.container.write import new_member
from archive.debuginfo.model import RangeLayout
from archive.describe.sizes import Size
from archive.describe.sizes.cells import _readable
from archive.describe.sizes.pieces import apportioned
from archive.formats.record_kinds import kind_of
from archive.formats.source_ranges import build_source_ranges
from tests.support.corpus import ARCHIVES, CALLSTACKS, HANDLES, ORACLES
from tests.support.slow_reader import instructions
from tests.support.strategies import Range, column, table_of
from tests.support.tampering import PLAIN, STACK, packed, tampered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from archive.debuginfo.tables import RangeTable

RANGES = "code/m.py.debug_pkl"
PARTS = ("text", "rows", "pickle overhead")
FACTS = {"BININT", "BININT1", "BININT2", "LONG1", "NONE", "NEWTRUE", "NEWFALSE", "BINFLOAT"}
FACTS |= {"EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "EMPTY_LIST", "APPEND", "APPENDS", "LIST"}


@pytest.mark.parametrize("path", ARCHIVES[3::40], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_parts_of_debug_records_are_as_pickletools_reads_them(path: Path) -> None:
    expected: Counter[str] = Counter()
    with zipfile.ZipFile(path) as reference:
        for name in reference.namelist():
            if kind_of(name.partition("/")[2]).is_debug:
                expected += parts(reference.read(name))
    found = archive.sizes(path).by("part")
    assert {part: found[part].inflated for part in expected} == dict(expected)


def parts(data: bytes) -> Counter[str]:
    """How many bytes of a pickle are of each part."""
    ops = list(instructions(data))
    found: Counter[str] = Counter()
    for (name, argument, at), end in zip(ops, [at for *_, at in ops[1:]] + [len(data)], strict=True):
        text = len(argument) if name.startswith("BINUNICODE") else 0
        found["text"] += text
        found["rows" if name in FACTS else "pickle overhead"] += end - at - text
    return found


# --- apportioning


def test_stored_bytes_are_apportioned_by_largest_remainder() -> None:
    assert apportioned(100, [1, 1, 1]) == [34, 33, 33]
    assert apportioned(7, [10, 30, 60]) == [1, 2, 4]
    assert apportioned(0, [5, 0]) == [0, 0]


@given(st.integers(0, 1 << 62), st.lists(st.integers(0, 1 << 62), min_size=1).filter(any))
def test_apportioned_shares_add_up_and_are_less_than_one_off(total: int, weights: list[int]) -> None:
    shares = apportioned(total, weights)
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share * sum(weights) - total * weight) < sum(weights)
        assert weight or not share


def test_source_files_share_exactly_what_their_part_has() -> None:
    account = archive.sizes(STACK)
    assert len({piece.source for piece in account.pieces}) > 4
    by_part: Counter[str] = Counter()
    with zipfile.ZipFile(STACK) as reference:
        for info in reference.infolist():
            if kind_of(info.filename.partition("/")[2]).is_debug:
                own = parts(reference.read(info))
                shares = apportioned(info.compress_size, [own[part] for part in PARTS])
                by_part += Counter(dict(zip(PARTS, shares, strict=True)))
    found = account.by("part")
    assert {part: found[part].stored for part in by_part} == dict(by_part)


# --- source files

ROWS = [
    Range(b"text one\n", 0, 4, b"/src/a.py"),
    Range(b"text of b\n", 0, 4, b"/src/b.py"),
    Range(b"/src/a.py(7): forward\n/src/b.py(8): call\n", 0, 4, None),
    Range(b"no frame\n", 0, 4, None),
]


def of_sources(table: RangeTable) -> dict[str, int]:
    """Inflated bytes of one record by source file."""
    record = build_source_ranges(table, 0)
    account = archive.sizes(packed([new_member(RANGES, record)]))
    labels = {label: size.inflated for label, size in account.by("source").items() if size.inflated}
    assert sum(labels.values()) == len(record)
    return labels


def test_inline_rows_are_about_the_file_they_name_or_that_of_their_first_frame() -> None:
    row, string = 15, 7  # numbers, tuples, memo write; opcode, length and memo write
    assert of_sources(table_of([0, 5, 9, 12], ROWS, RangeLayout.INLINE)) == {
        "/src/a.py": (row + string + 9 + string + 9) + (row + string + 41 + 1),
        "/src/b.py": row + string + 10 + string + 9,
        "(none)": row + string + 9 + 1,
        "[source ranges]": 7,  # PROTO, MARK, TUPLE, BINPUT, STOP
    }


def test_texts_of_a_string_table_are_about_their_first_users_file() -> None:
    row, string, name = 27, 7, 33  # name: of build_intlist, the first time
    assert of_sources(table_of([0, 5, 9, 12], ROWS, RangeLayout.STRING_TABLE)) == {
        "/src/a.py": (row + name + string + 9 + string + 9) + (row + string + 41) + string,  # and ""
        "/src/b.py": row + string + 10 + string + 9,
        "(none)": row + string + 9,
        "[source ranges]": 43,  # PROTO, the marker, two MARK … TUPLE BINPUT, TUPLE3, STOP
    }


def test_a_frame_may_be_cut_into_pieces() -> None:
    table = table_of(
        [0, 5],
        [Range(b"/src/a.py(7", 0, 4, None), Range(b"): forward\n", 0, 4, None)],
        RangeLayout.STRING_TABLE,
    )
    one, other = table.sources.piece.tolist()
    sources = replace(table.sources, first=column([0, 2, 3]), piece=column([one, other, other]))
    assert {"/src/a.py", "(none)"} < set(of_sources(replace(table, sources=sources)))


def shared_text() -> RangeTable:
    ranges = [Range(b"same\n", 0, 4, b"/src/a.py"), Range(b"same\n", 0, 4, b"/src/b.py")]
    return table_of([0, 5], ranges, RangeLayout.STRING_TABLE)


def test_a_line_of_several_files_is_its_first_users() -> None:
    table = shared_text()
    first = int(table.sources.piece[0])
    sources = replace(table.sources, piece=column([first, first]))
    kept = table.table[[0, 1, 2, 4]]  # each string once
    assert of_sources(replace(table, sources=sources, table=kept, table_first=column([0, 4]))) == {
        "/src/a.py": 27 + 33 + 7 + 5 + 7 + 9,
        "/src/b.py": 27 + 7 + 9,
        "[source ranges]": 42 + 7,
    }


def test_a_string_table_may_repeat_a_string_from_the_memo() -> None:
    assert of_sources(shared_text()) == {
        "/src/a.py": 27 + 33 + 7 + 5 + 7 + 9 + 2,  # the memo read stands behind its strings
        "/src/b.py": 27 + 7 + 9,
        "[source ranges]": 42 + 7,
    }


@pytest.mark.parametrize("name", ["traced_stack.ptl", "traced_stack_inline_ranges.ptl"])
def test_traced_sources_are_about_the_files_of_their_stacks(name: str) -> None:
    labels = archive.sizes(ORACLES / name).by("source")
    assert "/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py" in labels
    assert "(none)" in labels  # the null source


# --- records that cannot be read


def test_a_record_that_is_no_pickle_is_unreadable_and_hides_no_other() -> None:
    whole = archive.sizes(STACK).by("source")
    broken = archive.sizes(tampered(STACK, {CALLSTACKS: b"\x80\2broken"}))
    assert broken.by("part")["unreadable"] == Size(8, 8)
    assert broken.by("kind")["call-stack map"] == Size(8, 8)
    assert {k: v for k, v in broken.by("source").items() if "/" in k} == {
        k: v for k, v in whole.items() if "/" in k
    }


@given(st.lists(st.booleans(), max_size=200))
def test_all_but_the_broken_records_are_read_in_linear_time(broken: list[bool]) -> None:
    tried = 0

    def read(names: Sequence[str]) -> Sequence[str]:
        nonlocal tried
        tried += len(names)
        if any(broken[int(name)] for name in names):
            raise ArchiveError("broken")
        return names

    found = [name for names in _readable([*map(str, range(len(broken)))], read) for name in names]
    assert found == [str(name) for name, is_broken in enumerate(broken) if not is_broken]
    assert tried <= 8 * len(broken)


def test_a_record_with_another_crc_is_unreadable() -> None:
    data = bytearray(STACK.read_bytes())
    with archive.open(STACK) as opened:
        record = opened.container.records[HANDLES]
        data[record.place.data + 9] ^= 1
        assert archive.sizes(bytes(data)).by("part")["unreadable"] == Size(record.stored_size, record.size)


def test_a_pickle_of_something_else_has_parts_but_no_source_files() -> None:
    account = archive.sizes(tampered(STACK, {PLAIN + ".debug_pkl": b"\x80\2K\1\x85q\0."}))
    assert "unreadable" not in account.by("part")
    assert "models/plain.py" not in account.by("source")
    assert "/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py" in account.by("source")


def test_bytes_behind_stop_are_overhead() -> None:
    account = archive.sizes(packed([new_member(RANGES, b"\x80\2)q\0." + b"?" * 10)]))
    assert account.by("part")["pickle overhead"] == Size(15, 15)
    assert account.by("part")["rows"] == Size(1, 1)


def test_a_companion_inside_of_an_archive_is_neither_pickle_nor_unreadable() -> None:
    name = "extra/debug.ptdbg"
    account = archive.sizes(tampered(STACK, {name: b"no pickle"}))
    assert "unreadable" not in account.by("part")
    assert account.by("part")[f"[{kind_of(name)}]"] == Size(9, 9)


def test_what_would_inflate_to_too_much_is_unreadable() -> None:
    member = new_member(RANGES, bytes(2 << 20), compress=True)
    account = archive.sizes(packed([member]))
    assert account.by("part")["unreadable"] == Size(len(member.data), 2 << 20)


def test_without_a_look_inside_debug_records_are_whole() -> None:
    account = archive.sizes(tampered(STACK, {CALLSTACKS: b"broken"}), inside=False)
    assert account.by("kind") == archive.sizes(tampered(STACK, {CALLSTACKS: b"broken"})).by("kind")
    assert account.by("part")["[call-stack map]"] == Size(6, 6)
