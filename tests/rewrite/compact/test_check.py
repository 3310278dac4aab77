"""Archives that don't say the same: each kind of difference is found, and named with its place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import ArchiveError
from archive.base import memory
from archive.base.errors import LimitError
from archive.base.limits import Limits
from archive.container.write import new_member
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from archive.rewrite.compact.check import same_facts
from tests.support.corpus import CALLSTACKS, HANDLES, PATHS
from tests.support.strategies import Range, table_of
from tests.support.tampering import NESTED_1_8, STACK, edited, handles, methods, packed, tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from archive.debuginfo.handle_tables import HandleTable, MethodTable

RECORD, OTHER = "code/m.py.debug_pkl", "code/n.py.debug_pkl"
ROWS = [Range(b"", 0, 0, b"", 0), Range(b"y = x\n", 0, 1), Range(b"z = x\n", 4, 5)]
OFFSETS = [0, 7, 90]
NO_ROWS = b"\x80\x02)."


def made(
    rows: Sequence[Range] = ROWS,
    offsets: Sequence[int] = OFFSETS,
    layout: RangeLayout = RangeLayout.INLINE,
    tag: int | None = None,
) -> bytes:
    table = table_of(offsets, rows, layout)
    if tag is not None:
        table.tag[-1] = tag
    return packed([new_member(RECORD, build_source_ranges(table, 0)), new_member("version", b"3\n")])


def changed(second: Range) -> bytes:
    return made([ROWS[0], second, ROWS[2]])


def difference(before: bytes | Path, after: bytes) -> str:
    with archive.open(before) as one, archive.open(after, name="after") as other:
        same_facts(one, one)
        with pytest.raises(ArchiveError) as caught:
            same_facts(one, other)
        return str(caught.value)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (made(offsets=[0, 8, 90]), "row 1, field offset: expected 7, found 8"),
        (changed(Range(b"y = x\n", 1, 1)), "row 1, field start: expected 0, found 1"),
        (changed(Range(b"y = x\n", 0, 2)), "row 1, field end: expected 1, found 2"),
        (made(tag=9), "row 2, field tag: expected 3, found 9"),
        (made(layout=RangeLayout.PAIR), "row 0, field tag: expected 1, found -1"),
        (changed(Range(b"y = x\n", 0, 1, line=2)), "row 1, field starting_line: expected 1, found 2"),
        (changed(Range(b"y = x\n", 0, 1, b"n.py")), "row 1, field filename: expected 'm.py', found 'n.py'"),
        (changed(Range(b"y = x\n", 0, 1, None)), "row 1, field filename: expected 'm.py', found None"),
        (changed(Range(b"y = x", 0, 1)), "row 1, field text: expected 6 bytes, found 5 bytes"),
        (changed(Range(b"y = z\n", 0, 1)), "row 1, field text, byte 4: expected 'x\\n', found 'z\\n'"),
    ],
)
def test_other_rows_are_found(after: bytes, said: str) -> None:
    assert difference(made(), after) == f"after: {RECORD}, {said}"


def test_no_filename_is_not_an_empty_one() -> None:
    one, other = changed(Range(b"y = x\n", 0, 1, None)), changed(Range(b"y = x\n", 0, 1, b""))
    assert difference(one, other) == f"after: {RECORD}, row 1, field filename: expected None, found ''"


def test_fewer_rows_are_found() -> None:
    after = made(ROWS[:2], OFFSETS[:2])
    assert difference(made(), after) == f"after: {RECORD}: expected 3 rows, found 2 rows"


def test_records_of_one_archive_alone_are_found() -> None:
    more = tampered(made(), {OTHER: NO_ROWS})
    assert difference(made(), more) == f"after: {OTHER}: expected no record, found a record"
    assert difference(more, made()) == f"after: {OTHER}: expected a record, found no record"


def test_the_same_rows_in_another_layout_and_order_of_records_are_the_same() -> None:
    record = build_source_ranges(table_of(OFFSETS, ROWS, RangeLayout.STRING_TABLE), 0)
    turned = packed([new_member(OTHER, NO_ROWS), new_member(RECORD, record)])
    with archive.open(tampered(made(), {OTHER: NO_ROWS})) as one, archive.open(turned) as other:
        assert one.range_table.names != other.range_table.names
        assert one.range_table.layouts != other.range_table.layouts
        same_facts(one, other)


def test_long_texts_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.rewrite.compact.check.TEXT_CHUNK", 1)
    after = made([*ROWS[:2], ROWS[2]._replace(text=b"z = y\n")])
    assert (
        difference(made(), after)
        == f"after: {RECORD}, row 2, field text, byte 4: expected 'x\\n', found 'y\\n'"
    )


def test_texts_out_of_all_proportion_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.rewrite.compact.check.TEXT_RATIO", 0)
    with archive.open(made(), limits=Limits(compared_bytes=1)) as one, memory.charged(one.allowance):
        with pytest.raises(LimitError) as caught:
            same_facts(one, one)
        assert caught.value.resource == "compared_bytes"


def turned(table: HandleTable) -> HandleTable:
    return replace(table, **{name: getattr(table, name)[::-1] for name in ("handle", "tag", "op", "stack")})


def shorter(table: HandleTable) -> HandleTable:
    return replace(table, **{name: getattr(table, name)[1:] for name in ("handle", "tag", "op", "stack")})


def other_op(table: HandleTable) -> HandleTable:
    row = int(np.argmax(table.handle))
    return edited(table, op={row: int(table.op[table.op != table.op[row]][0])})


def other_class(table: HandleTable) -> HandleTable:
    return replace(table, module_type=table.module_instance)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shorter, r": expected 61 handles, found 60 handles"),
        (
            lambda table: replace(table, handle=table.handle + 1),
            r", row 0 by handle: expected \d+, found \d+",
        ),
        (lambda table: replace(table, tag=table.tag + 1), r", handle \d+, field tag: expected 0, found 1"),
        (other_op, r", handle \d+, field op: expected 'prim::\w+', found '\w+::\w+'"),
        (
            lambda table: replace(table, call_tag=table.call_tag + 1),
            r", handle \d+, frame 0: expected .*tag=3, .*, found .*tag=4, .*",
        ),
        (
            lambda table: replace(table, function=table.op[: len(table.function)]),
            r", handle \d+, frame 0: expected .*",
        ),
        (
            lambda table: replace(table, next=table.next * 0 - 1),
            r", handle \d+, frame 1: expected Inl.*, found None",
        ),
        (
            lambda table: replace(table, module=table.module * 0 - 1),
            r", handle \d+, frame 0: .*found .*module=None.*",
        ),
        (other_class, r", handle \d+, frame 0: expected .*"),
        (
            lambda table: replace(table, stack=table.stack * 0 - 1),
            r", handle \d+, frame 0: expected Inl.*, found None",
        ),
    ],
)
def test_other_handles_are_found(change: Callable[[HandleTable], HandleTable], said: str) -> None:
    found = difference(STACK, tampered(STACK, handles(STACK, change)))
    assert re.fullmatch(f"after: {CALLSTACKS}{said}", found), found


def test_handles_in_another_order_are_the_same() -> None:
    with archive.open(STACK) as one, archive.open(tampered(STACK, handles(STACK, turned))) as other:
        assert one.records[CALLSTACKS].view() != other.records[CALLSTACKS].view()
        same_facts(one, other)


def fewer_instructions(table: MethodTable) -> MethodTable:
    first = table.first.copy()
    first[-1] -= 1
    return replace(table, first=first, value=table.value[:-1])


def one_method_less(table: MethodTable) -> MethodTable:
    first = table.first[:-1]
    return replace(table, name=table.name[:-1], first=first, value=table.value[: int(first[-1])])


@pytest.mark.parametrize("path", [STACK, NESTED_1_8])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: replace(table, version=9), ", version: expected "),
        (one_method_less, ": expected "),
        (lambda table: replace(table, name=table.name * 0 + len(table.strings) - 1), ", method "),
        (fewer_instructions, ", method "),
        (
            lambda table: edited(table, value={1: int(table.value[0]) + 7}),
            ", method 0, instruction 1: expected ",
        ),
    ],
)
def test_other_methods_are_found(path: Path, change: Callable[[MethodTable], MethodTable], said: str) -> None:
    name = PATHS if path is NESTED_1_8 else HANDLES
    assert difference(path, tampered(path, methods(path, change))).startswith(f"after: {name}{said}")


@pytest.mark.parametrize("name", [CALLSTACKS, HANDLES])
def test_a_record_that_is_gone_is_found(name: str) -> None:
    assert (
        difference(STACK, tampered(STACK, {name: None}))
        == f"after: {name}: expected a record, found no record"
    )
    with (
        archive.open(tampered(STACK, {name: None})) as one,
        archive.open(STACK, name="after") as other,
        pytest.raises(ArchiveError, match=f"after: {name}: expected no record, found a record"),
    ):
        same_facts(one, other)
