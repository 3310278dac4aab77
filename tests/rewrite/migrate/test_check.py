"""The check of a migrated archive before it is written: another model, or other facts, are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import ArchiveError
from archive.rewrite.migrate.migrate import check_migrated
from tests.support.corpus import CALLSTACKS, DELEGATED
from tests.support.hostile_migrations import NESTED, RANGES, SCRIPT, SCRIPT_1_8
from tests.support.migrations import migrated
from tests.support.tampering import NESTED_1_9, edited, handles, ranges, tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from archive.debuginfo.handle_tables import HandleTable
    from tests.support.tampering import Change


def checked(path: Path, data: bytes) -> ArchiveError | None:
    """What the check says of a file that shall be another one, migrated."""
    with archive.open(path) as before, archive.open(data) as after:
        try:
            check_migrated(before, after, {})
        except ArchiveError as error:
            return error
    return None


@pytest.mark.parametrize(
    ("record", "change"),
    [
        ("data.pkl", lambda data: data[:-1] + b"0"),
        ("data/0", None),
        ("code/__torch__/models.py", lambda data: data + b"\n"),
        ("extra/notes", None),
    ],
)
def test_another_model_is_refused(record: str, change: Change) -> None:
    path = SCRIPT_1_8
    result = archive.migrate(tampered(path, {"extra/notes": b"1"}), to="2.13").data
    assert checked(path, result) is None
    with archive.open(tampered(path, {"extra/notes": b"1"})) as before:
        changed = tampered(result, {record: change})
        with archive.open(changed) as after, pytest.raises(ArchiveError) as refusal:
            check_migrated(before, after, {})
    assert refusal.value.record == record
    assert refusal.value.expected == "the record as it was"
    assert refusal.value.file == "archive in memory"


def test_a_record_of_source_ranges_that_only_one_has_is_refused_but_for_that_of_lowered_modules() -> None:
    result = migrated(SCRIPT_1_8, "2.13").data
    fewer, more = tampered(result, {RANGES: None}), tampered(result, {"code/x.py.debug_pkl": b"\x80\x02)."})
    for data, record in ((fewer, RANGES), (more, "code/x.py.debug_pkl")):
        problem = checked(SCRIPT_1_8, data)
        assert problem is not None
        assert (problem.record, problem.found) == (record, "one of them")
    assert checked(NESTED, tampered(migrated(NESTED, "1.9").data, {DELEGATED: None})) is None
    assert checked(NESTED, tampered(migrated(NESTED, "2.0").data, {DELEGATED: None})) is None


@pytest.mark.parametrize(
    ("path", "to", "tags"),
    [(SCRIPT, "1.9", True), (SCRIPT, "1.8", False), (SCRIPT_1_8, "2.13", False)],
)
def test_rows_are_compared_and_their_tags_where_both_have_them(path: Path, to: str, *, tags: bool) -> None:
    result = migrated(path, to).data
    for field, value in (("offset", 1), ("start", 1), ("end", 3)):
        problem = checked(path, tampered(result, ranges(result, RANGES, **{field: {2: value}})))
        assert problem is not None
        assert (problem.record, problem.place) == (RANGES, f"row 2, field {field}")
    if to != "1.8":
        problem = checked(path, tampered(result, ranges(result, RANGES, tag={2: 999})))
        assert (problem is not None) == tags


def last_call(table: HandleTable) -> tuple[int, int]:
    """A row of the map with a call stack, and its innermost frame."""
    row = int(np.flatnonzero(table.stack >= 0)[0])
    return row, table.frames(row)[-1]


STACKED: Mapping[str, Callable[[HandleTable], HandleTable]] = {
    "handle": lambda table: edited(table, handle={0: 987_654}),
    "tag": lambda table: edited(table, tag={0: 987_654}),
    "no call stack": lambda table: edited(table, stack={last_call(table)[0]: -1}),
    "tag of a call": lambda table: edited(table, call_tag={last_call(table)[1]: 987_654}),
    "no module": lambda table: edited(table, module={last_call(table)[1]: -1}),
    "a row less": lambda table: replace(
        table,
        **{field: getattr(table, field)[:-1] for field in ("handle", "tag", "op", "stack")},
    ),
}


@pytest.mark.parametrize("what", STACKED)
@pytest.mark.parametrize(("path", "to"), [(NESTED_1_9, "2.13"), (NESTED, "1.9"), (NESTED, "2.0")])
def test_handles_tags_and_call_stacks_are_compared_whether_or_not_names_are_lost(
    path: Path, to: str, what: str
) -> None:
    result = migrated(path, to).data
    assert checked(path, result) is None
    problem = checked(path, tampered(result, handles(result, STACKED[what])))
    assert problem is not None
    assert problem.record == CALLSTACKS


def test_names_are_compared_where_both_maps_have_them() -> None:
    result = migrated(NESTED, "2.0").data
    for field in ("op", "function"):
        other = tampered(result, handles(result, lambda table, field=field: renamed(table, field)))  # type: ignore[misc]
        problem = checked(NESTED, other)
        assert problem is not None
        assert problem.record == CALLSTACKS


def renamed(table: HandleTable, field: str) -> HandleTable:
    """The map with another name in the last row or frame."""
    column = getattr(table, field)
    return edited(table, **{field: {len(column) - 1: int(column[column != column[-1]][0])}})
