"""Texts of a normal form as records have them: what they cost meanwhile, and which strings they are of."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import LimitError, Limits
from archive.base import memory
from archive.base.columns import table_of
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from archive.normalform.builder import FormBuilder
from archive.normalform.columns import BY_NAME
from archive.normalform.form import NormalForm
from archive.normalform.records import DebugRecords
from tests.support.companion_questions import PATHS, SMALL
from tests.support.halves import facts_of
from tests.support.strategies import Range
from tests.support.strategies import table_of as ranges_of
from tests.support.tampering import STACK

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def test_records_that_nobody_holds_are_gone_without_a_garbage_collection() -> None:
    with archive.open(STACK) as opened:
        form = FormBuilder.of(opened.range_table, opened.handle_table, opened.method_table).form()
        gc.disable()
        try:
            records = DebugRecords(form)
            assert len(dict(records)) == len(records)
            held = weakref.ref(records)
            del records
            assert held() is None
        finally:
            gc.enable()


def test_a_text_is_there_twice_while_it_is_put_together_of_its_lines() -> None:
    table = ranges_of([0], [Range(b"x" * MIB, 0, 1)], RangeLayout.INLINE)
    form = FormBuilder.of(table).form()
    for most in (MIB // 2, MIB + MIB // 2):
        with pytest.raises(LimitError), memory.charged(Limits(memory=most).allowance(0)):
            _ = replace(form).range_table
    with memory.charged(Limits(memory=2 * MIB + MIB // 2).allowance(0)):
        enough = replace(form).range_table
    assert enough.sources.lengths.tolist() == [MIB]


def test_a_text_of_short_lines_costs_64_bytes_a_line_while_it_is_put_together() -> None:
    lines = MIB // 16
    form = FormBuilder.of(ranges_of([0], [Range(b"\n" * lines, 0, 1)], RangeLayout.INLINE)).form()
    with pytest.raises(LimitError), memory.charged(Limits(memory=64 * lines).allowance(0)):
        _ = replace(form).range_table
    with memory.charged(Limits(memory=110 * lines).allowance(0)):
        enough = replace(form).range_table
    assert enough.sources.lengths.tolist() == [lines]


def test_a_string_table_without_rows_is_written_again() -> None:
    table = ranges_of([], [], RangeLayout.STRING_TABLE)
    record = build_source_ranges(table, 0)
    form = FormBuilder.of(replace(table, names=("code/m.py.debug_pkl",))).form()
    assert dict(DebugRecords(form)) == {"code/m.py.debug_pkl": record}


@pytest.mark.parametrize("path", [SMALL, PATHS], ids=lambda path: path.parent.name)
def test_records_do_not_depend_on_the_numbers_of_strings(path: Path) -> None:
    form = facts_of(path).form
    strings = [bytes(form.strings.data(string)) for string in range(len(form.strings))]
    columns = dict(form.columns)
    first = int(columns["source.filename"].max())
    for name, values in form.columns.items():
        if BY_NAME[name].refers == "string":
            columns[name] = np.where(values < 0, values, (values - first) % len(strings))
    turned = NormalForm(columns, table_of(strings[first:] + strings[:first]))
    assert first > 0
    assert dict(DebugRecords(turned)) == dict(DebugRecords(form))
