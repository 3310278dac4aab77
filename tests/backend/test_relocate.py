"""Operations led to other source: what is shown then, and what stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import archive
from archive.backend.lower.relocate import Attachment
from archive.debuginfo.sites import CallStep, Span
from archive.normalform.builder import FormBuilder
from archive.normalform.records import DebugRecords
from tests.support.corpus import CALLSTACKS, DELEGATED, RELEASES
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from collections.abc import Callable

HANDLE = 1445
WITHOUT_HANDLES = RELEASES / "torch-1.8.0" / "nested.pt"
ELSEWHERE = Span(b"def f(x):\n    return g(x)\n", b"mine.py", 7, 21, 25)
CALL = Span(b"def top(x):\n    f(x)\n", b"mine.py", 3, 16, 20)


def attached(change: Callable[[Attachment, int, list[int]], None]) -> bytes:
    """An archive with something attached; ``change`` gets the handle's row, and all rows of its range."""
    with archive.open(STACK) as opened:
        assert opened.handle_table is not None
        form = FormBuilder.of(opened.range_table, opened.handle_table)
        rows = np.flatnonzero(opened.range_table.tag == opened.handles[HANDLE].tag).tolist()
    attachment = Attachment(form)
    change(attachment, form.columns["handle.handle"].tolist().index(HANDLE), rows)
    return tampered(STACK, dict(DebugRecords(attachment.form())))


def said(data: bytes, handle: int) -> str:
    with archive.open(data) as opened:
        return str(opened.symbolicate(handle))


def test_a_handle_leads_to_the_new_source_by_the_new_calls() -> None:
    step = CallStep("f", "__torch__.Mine", "inner", CALL)
    text = said(attached(lambda one, row, _: one.lead(row, ELSEWHERE, [step])), HANDLE)
    assert ".inner(Mine)::f.aten::linear" in text
    assert text.index('File "mine.py", line 4, in forward') < text.index('File "mine.py", line 8, in f')


def test_calls_behind_the_last_that_is_kept_are_those_of_made_code() -> None:
    step = CallStep("f", "__torch__.Mine", "inner", CALL)
    way = "top(Stack)::<unknown>.blocks(Sequential)::forward.0(Block)::forward.SELF(Block)::_inner"
    for last, kept in (("0", ".blocks(Sequential)::forward.0(Block)::forward"), ("no such", "")):

        def change(one: Attachment, row: int, _: list[int], last: str = last) -> None:
            one.lead(row, ELSEWHERE, [step], last=last, op="mine::op")

        assert f"{way}.fc(Linear)::forward.aten::linear" in said(STACK.read_bytes(), HANDLE)
        text = said(attached(change), HANDLE)
        assert text.splitlines()[0] == f"Module hierarchy:top(Stack)::<unknown>{kept}.inner(Mine)::f.mine::op"


def test_other_handles_say_what_they_said() -> None:
    data = attached(lambda one, row, _: one.lead(row, ELSEWHERE, [CallStep("f", None, None, CALL)]))
    with archive.open(STACK) as before, archive.open(data) as after:
        others = [handle for handle in before.handles if handle != HANDLE]
        assert [str(after.symbolicate(one)) for one in others] == [
            str(before.symbolicate(one)) for one in others
        ]
        assert list(after.handles) == list(before.handles)


def test_a_range_that_no_row_shows_any_more_is_kept_for_the_handles_that_need_it() -> None:
    relocated = []

    def relocate(one: Attachment, _: int, rows: list[int]) -> None:
        assert rows
        for row in rows:
            one.relocate(row, ELSEWHERE)
        relocated.extend(rows)

    data = attached(relocate)
    assert said(data, HANDLE) == said(STACK.read_bytes(), HANDLE)
    with archive.open(data) as opened:
        assert {opened.range_table.source_range(row).line for row in relocated} == {8}


def test_equal_ranges_are_added_once() -> None:
    def twice(one: Attachment, row: int, _: list[int]) -> None:
        assert one.tag_of(ELSEWHERE) == one.tag_of(
            Span(*[getattr(ELSEWHERE, name) for name in ELSEWHERE.__slots__])
        )
        one.lead(row, ELSEWHERE, [CallStep("f", None, None, ELSEWHERE)])

    with archive.open(attached(twice)) as opened:
        assert len(opened.ranges(DELEGATED)) == 1
        assert opened.generations[DELEGATED] == "string table"
        assert CALLSTACKS in opened.records


def test_handles_are_added_to_an_archive_that_has_none_and_no_record_of_lowered_modules() -> None:
    inner = CallStep("f", "__torch__.Mine", "inner", CALL)
    with archive.open(WITHOUT_HANDLES) as opened:
        assert opened.handle_table is None
        attachment = Attachment(FormBuilder.of(opened.range_table))
        before = set(opened.range_records)
    attachment.add(7, "mine::op", ELSEWHERE, [inner])
    attachment.add(9, "mine::op", ELSEWHERE, [CallStep("g", None, None, None), inner])
    attachment.add(11, "mine::other", None, [])
    with archive.open(tampered(WITHOUT_HANDLES, dict(DebugRecords(attachment.form())))) as opened:
        entries = [opened.handles[handle] for handle in (7, 9, 11)]
        told = [
            [(str(call.function), str(call.module.instance) if call.module else None) for call in one.stack]
            for one in entries
        ]
        assert told == [[("f", "inner")], [("g", None), ("f", "inner")], []]
        assert [str(one.op) for one in entries] == ["mine::op", "mine::op", "mine::other"]
        assert [one.tag < 0 for one in entries] == [False, False, True]
        assert 'File "mine.py", line 8, in f' in str(opened.symbolicate(7))
        assert set(opened.range_records) == before | {DELEGATED}
        assert opened.handle_table is not None
        assert len(opened.handle_table.next) == 2  # both stacks end with the call of f
