"""Columns that contradict one another in companions whose checksums are right: one error with its place."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError, LimitError, Limits
from archive.base.columns import table_of
from archive.debuginfo.model import RangeLayout
from archive.normalform.columns import BY_NAME, RANGE_LAYOUTS
from archive.rewrite.join import join
from tests.support.companion_questions import PATHS, RAW, SMALL, asked, refused
from tests.support.halves import LAYOUTS, facts_of, halves, parsed
from tests.support.hostile_companions import all_of, hostile, mapped_of, set_to
from tests.support.sampling import examples, sampled
from tests.support.strategies import EDGES, patient
from tests.support.tampering import LOWERED, NESTED_1_9

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.companion.contents import Contents
    from archive.companion.layout import CompanionLayout
    from archive.normalform.columns import Columns


LEAST, MOST = -(1 << 63), (1 << 63) - 1
WHERE: dict[str, Path] = {name: path for path in (RAW, PATHS, SMALL) for name in facts_of(path).columns}
WHERE |= {name: NESTED_1_9 for name in facts_of(NESTED_1_9).columns if name.startswith(("frame.", "module."))}
"""For each column an archive whose companion has it."""
OPTIONAL = {"module.known", "member.kind", "member.modified", "file.digest", "file.ordered"}
"""Columns that may be missing."""


def outcomes(layout: CompanionLayout, changes: dict[str, Callable[[Columns], object]]) -> dict[str, str]:
    """What comes of changes, by the column that each is about: "refused", "read", or what went wrong."""
    found = {}
    for name, change in changes.items():
        answers = asked(hostile(WHERE[BY_NAME[name.partition(",")[0]].name], layout, change))
        well = "refused" if "facts" in answers.errors else "read"
        found[name] = ", ".join(sorted(set(answers.broken.values()))) or well
    return found


# --- tables


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_that_are_missing_are_missed(layout: CompanionLayout) -> None:
    found = outcomes(layout, {name: partial(removed, [name]) for name in WHERE})
    expected = {name: "read" if name in OPTIONAL else "refused" for name in WHERE}
    assert found == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_of_a_table_are_equally_long(layout: CompanionLayout) -> None:
    tables = [name.partition(".")[0] for name in WHERE]
    several = [name for name in WHERE if tables.count(name.partition(".")[0]) > 1]
    several.remove("member.kind")  # how many records stayed in the archive is what a join finds out
    changes: dict[str, Callable[[Columns], object]] = {}
    for name in sampled(several, most=24, by=[lambda name: name.partition(".")[0]]):
        changes |= {
            f"{name}, shorter": partial(shortened, name),
            f"{name}, longer": partial(lengthened, name),
        }
    assert outcomes(layout, changes) == dict.fromkeys(changes, "refused")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_without_rows_hold_nothing_or_are_refused(layout: CompanionLayout) -> None:
    changes: dict[str, Callable[[Columns], object]] = {}
    for name in WHERE:
        own = [one for one in WHERE if one.partition(".")[0] == name.partition(".")[0]]
        if name == own[0]:
            changes[f"{name}, empty"] = partial(emptied, own)
            changes[f"{name}, without"] = partial(removed, own)
    found = outcomes(layout, changes)
    assert {what: outcome for what, outcome in found.items() if outcome not in ("read", "refused")} == {}


def shortened(name: str, columns: Columns) -> None:
    columns[name] = columns[name][:-1]


def lengthened(name: str, columns: Columns) -> None:
    columns[name] = np.append(columns[name], columns[name][:1])


def emptied(names: list[str], columns: Columns) -> None:
    columns.update({name: columns[name][:0] for name in names if name in columns})


def removed(names: list[str], columns: Columns) -> None:
    for name in names:
        columns.pop(name, None)


# --- values


@pytest.mark.parametrize("layout", LAYOUTS)
def test_references_outside_of_their_table_are_refused_with_their_place(layout: CompanionLayout) -> None:
    names = sorted(WHERE.keys() - {"source.filename"})  # of which packed companions keep another number
    referring = [name for name in names if BY_NAME[name].refers and BY_NAME[name].low is not None]
    for name in sampled(referring, most=12, by=[lambda name: name.partition(".")[0]]):
        refers, least = BY_NAME[name].refers, BY_NAME[name].low
        assert least is not None
        facts = facts_of(WHERE[name])
        rows = [len(values) for one, values in facts.columns.items() if one.startswith(f"{refers}.")]
        row = len(facts.columns[name]) - 1
        for value in (least - 1, LEAST, MOST, (rows or [len(facts.strings)])[0]):
            change = partial(
                set_to, name=name, row=row, value=value, places=facts.columns.get("handle.place")
            )
            assert refused(hostile(WHERE[name], layout, change)).place == f"{name}, row {row}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("record.rows", -1), ("record.rows", MOST), ("record.layout", 99), ("record.layout", -1)),
        *(("method.instructions", -1), ("method.instructions", MOST), ("file.callstacks", 2)),
        *(("range.start", -1), ("pathed.steps", -1), ("pathed.steps", 1 << 40)),
        *(("raw.length", -1), ("raw.length", MOST), ("raw.length", 1)),
    ],
)
def test_numbers_that_cannot_be_are_refused(name: str, value: int, layout: CompanionLayout) -> None:
    answers = asked(hostile(WHERE[name], layout, lambda columns: set_to(columns, name, 0, value)))
    assert answers.broken == {}
    assert name.partition(".")[0] in str(answers.errors["records"])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["record.rows", "method.instructions", "raw.length"])
def test_parts_that_only_together_are_right_are_refused(name: str, layout: CompanionLayout) -> None:
    path = LOWERED if name == "method.instructions" else WHERE[name]
    counts = facts_of(path).columns[name].tolist()
    made = [sum(counts) + 1, -1, *[0] * (len(counts) - 2)]
    assert len(counts) > 1
    answers = asked(hostile(path, layout, lambda columns: all_of(columns, name, made)))
    assert (answers.broken, "records" in answers.errors) == ({}, True)


# --- references that lead nowhere


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("turn", ["itself", "in a circle", "a long way round"])
def test_call_stacks_that_come_back_to_themselves_are_refused(turn: str, layout: CompanionLayout) -> None:
    count = len(facts_of(LOWERED).columns["frame.next"])
    turns = {
        "itself": [*[-1] * (count - 1), count - 1],
        "in a circle": [1, 0, *[-1] * (count - 2)],
        "a long way round": [*range(1, count), 0],
    }
    assert count > 3
    data = hostile(LOWERED, layout, lambda columns: all_of(columns, "frame.next", turns[turn]))
    error = refused(data)
    assert isinstance(error, LimitError)
    assert error.place == "frame.next"
    assert error.actual > error.limit
    assert asked(data).broken == {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_call_stacks_longer_than_allowed_are_refused(layout: CompanionLayout) -> None:
    count = len(facts_of(LOWERED).columns["frame.next"])
    chain = [*range(1, count), -1]
    data = hostile(LOWERED, layout, lambda columns: all_of(columns, "frame.next", chain))
    assert not {"facts", "handles"} & asked(data, Limits(frames=count)).errors.keys()
    error = refused(data, Limits(frames=count - 1))
    assert isinstance(error, LimitError)
    assert error.limit == count - 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("parent", [0, 1, 2])
def test_texts_go_on_in_rows_before(parent: int, layout: CompanionLayout) -> None:
    data = hostile(SMALL, layout, lambda columns: set_to(columns, "node.parent", 0, parent))
    assert refused(data).place == "node.parent, row 0"
    assert asked(data).broken == {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_row_of_a_call_stack_map_stands_somewhere_else(layout: CompanionLayout) -> None:
    places = facts_of(SMALL).columns["handle.place"]
    change = partial(set_to, name="handle.place", row=0, value=int(places[1]), places=places)
    assert refused(hostile(SMALL, layout, change)).place == "handle.place"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["record.name", "raw.name"])
def test_two_records_of_one_name_are_refused(name: str, layout: CompanionLayout) -> None:
    data = hostile(WHERE[name], layout, lambda columns: set_to(columns, name, 0, int(columns[name][1])))
    answers = asked(data)
    assert (answers.broken, "records" in answers.errors) == ({}, True)


# --- columns of which look-ups, tables and records would make different answers


def _columns(path: Path) -> tuple[Contents, Columns]:
    facts = facts_of(path)
    return facts, dict(facts.columns)


def test_handles_are_in_order_for_they_are_bisected() -> None:
    facts, columns = _columns(SMALL)
    set_to(columns, "handle.handle", 3, int(columns["handle.handle"][1]))
    assert refused(mapped_of(facts, columns)).place == "handle.handle, row 3"


def test_tags_are_in_order_if_the_companion_says_so() -> None:
    facts, columns = _columns(SMALL)
    columns["range.tag"] = columns["range.tag"][::-1]
    assert refused(mapped_of(facts, columns)).place == "range.tag, row 1"
    set_to(columns, "file.ordered", 0, 0)
    assert parsed(mapped_of(facts, columns)).columns["range.tag"].tolist() == [4, 3, 2, 1, 0]


def test_each_range_belongs_to_a_row() -> None:
    facts, columns = _columns(SMALL)
    set_to(columns, "row.range", 1, int(columns["row.range"][0]))
    assert refused(mapped_of(facts, columns)).place == "range.tag, row 1"


def test_a_layout_without_rows_has_none_and_one_without_tags_has_none() -> None:
    facts, columns = _columns(SMALL)
    set_to(columns, "record.layout", 0, RANGE_LAYOUTS.index(RangeLayout.EMPTY))
    assert refused(mapped_of(facts, columns)).place == "record.rows, row 0"
    set_to(columns, "record.layout", 0, RANGE_LAYOUTS.index(RangeLayout.PAIR))
    assert refused(mapped_of(facts, columns)).expected == "no tag"


@pytest.mark.parametrize(("name", "value"), [("source.text", 0), ("source.line", 1), ("source.filename", 1)])
def test_a_null_source_is_empty(name: str, value: int) -> None:
    facts, columns = _columns(SMALL)
    null = int(np.flatnonzero(columns["source.null"])[0])
    set_to(columns, name, null, value)
    assert refused(mapped_of(facts, columns)).place == f"source.null, row {null}"


def test_rows_of_three_elements_name_no_operators_or_functions() -> None:
    facts, columns = _columns(SMALL)
    set_to(columns, "file.callstacks", 0, 0)
    assert refused(mapped_of(facts, columns)).place == "handle.op, row 0"


def test_one_of_the_strings_is_empty() -> None:
    facts = facts_of(SMALL)
    strings = [bytes(facts.strings.data(string)) or b"x" for string in range(len(facts.strings))]
    form = replace(facts.form, strings=table_of(strings))
    with pytest.raises(ArchiveError, match='expected one that is ""'):
        _ = parsed(mapped_of(replace(facts, form=form))).form.range_table


# --- anything


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_error_about_a_record_with_an_unprintable_name_is_printable(layout: CompanionLayout) -> None:
    """String 1 is a line of source text, with its end."""

    def change(columns: Columns) -> None:
        for row in (0, 1):
            set_to(columns, "record.name", row, 1)

    answers = asked(hostile(WHERE["record.name"], layout, change))
    found = r"'        return d * d + torch.sum(x)\n'"
    assert {str(error) for error in answers.errors.values()} == {
        f"m.ptdbg: record.name, row 0: expected the name of a record of source ranges, found {found}"
    }


@settings(patient, max_examples=examples(60))
@given(
    st.sampled_from(sorted(WHERE)),
    st.sampled_from(LAYOUTS),
    st.lists(st.tuples(st.integers(0), st.sampled_from(EDGES) | st.integers(-3, 40)), min_size=1, max_size=3),
)
def test_any_values_of_a_column_end_in_answers_or_errors_of_one_kind(
    name: str, layout: CompanionLayout, cells: list[tuple[int, int]]
) -> None:
    def change(columns: Columns) -> None:
        for row, value in cells:
            if len(columns[name]):
                set_to(columns, name, row % len(columns[name]), value)

    answers = asked(hostile(WHERE[name], layout, change))
    assert answers.broken == {}
    assert all(str(error).isprintable() for error in answers.errors.values())


# --- joining

KINDS = {
    "of no kind": [7] * 12,
    "more than the model has": [0] * 40,
    "fewer than the model has": [0],
    "none": [],
    "all of one kind": [4] * 12,
    "of huge kinds": [MOST] * 12,
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=list(KINDS))
def test_a_join_of_made_up_members_is_refused(kinds: list[int], tmp_path: Path) -> None:
    columns = dict(facts_of(SMALL).columns)
    all_of(columns, "member.kind", kinds)
    with pytest.raises(ArchiveError):
        join(halves(SMALL).out, mapped_of(facts_of(SMALL), columns), tmp_path / "joined.ptl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("time", [1 << 32, 1 << 62, -1])
def test_a_join_of_made_up_times_is_refused(time: int, tmp_path: Path) -> None:
    columns = dict(facts_of(SMALL).columns)
    all_of(columns, "member.modified", [time] * len(columns["member.kind"]))
    with pytest.raises(ArchiveError):
        join(halves(SMALL).out, mapped_of(facts_of(SMALL), columns), tmp_path / "joined.ptl")
    assert list(tmp_path.iterdir()) == []


def test_with_the_digest_of_another_file_a_join_is_not_called_exact(tmp_path: Path) -> None:
    columns = dict(facts_of(SMALL).columns)
    all_of(columns, "file.digest", [12345])
    assert not join(halves(SMALL).out, mapped_of(facts_of(SMALL), columns), tmp_path / "m.ptl").exact
    with archive.open(tmp_path / "m.ptl") as joined, archive.open(SMALL) as before:
        assert list(joined.records) == list(before.records)
