"""Archives to migrate that were cut or changed, or keep something else aside than what they were."""

from __future__ import annotations

import random
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import ArchiveError, LimitError
from archive.base.columns import table_of
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.companion.parse import parse_companion
from archive.formats.record_kinds import EMBEDDED, MIGRATED
from archive.reader.collect import collect
from archive.reader.halves.joined import with_digest
from archive.rewrite.migrate.migrate import check_migrated
from tests.support.corpus import CALLSTACKS, DELEGATED
from tests.support.cost import affordable
from tests.support.halves import companion_of, halves, rezipped
from tests.support.hostile_companions import body, line, solid
from tests.support.migrations import (
    EVERYWHERE,
    MODELS,
    NESTED,
    RANGES,
    SCRIPT,
    SCRIPT_1_8,
    SMALL_1_9,
    done,
    migrated,
    original,
    records,
    refused,
    tried,
)
from tests.support.sampling import crossed, examples, sampled
from tests.support.tampering import NESTED_1_9, edited, handles, ranges, tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from archive.companion.contents import Contents
    from archive.debuginfo.handle_tables import HandleTable
    from archive.normalform.columns import Columns
    from tests.support.tampering import Change


# --- cut and changed


WHOLE: dict[str, Callable[[], bytes]] = {
    "1.8": SCRIPT_1_8.read_bytes,
    "1.9": SMALL_1_9.read_bytes,
    "migrated": lambda: migrated(SMALL_1_9, "2.13").data,
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_cut_archive_is_refused(name: str, tmp_path: Path) -> None:
    data = WHOLE[name]()
    for step, to in crossed(range(60), ("1.8", "2.13"), most=30):
        refused(data[: len(data) * step // 60], to, tmp_path)


@pytest.mark.parametrize("name", WHOLE)
def test_a_changed_byte_ends_in_a_result_or_one_error(name: str, tmp_path: Path) -> None:
    data = WHOLE[name]()
    chance = random.Random(name)  # noqa: S311 (the same changes each time)
    ends = set()
    for at in chance.sample(range(len(data)), examples(150)):
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(8)
        ends.add(type(tried(bytes(changed), chance.choice(EVERYWHERE), tmp_path)))
    assert ArchiveError in ends


def test_a_changed_byte_of_what_is_kept_aside_is_noticed(tmp_path: Path) -> None:
    data = migrated(SMALL_1_9, "2.13").data
    kept = records(data)[MIGRATED]
    for at in range(0, len(kept), 7):
        changed = kept[:at] + bytes([kept[at] ^ 1 << at % 8]) + kept[at + 1 :]
        assert refused(tampered(data, {MIGRATED: changed}), "1.9", tmp_path).startswith(MIGRATED)


# --- what is kept aside


def aside_of(facts: Contents, layout: CompanionLayout = CompanionLayout.PACKED) -> bytes:
    """A migrated archive with something else kept aside."""
    return tampered(migrated(SCRIPT_1_8, "2.13").data, {MIGRATED: build_companion(facts, layout)})


def kept_facts(names: Iterable[str] = ("version",)) -> Contents:
    with archive.open(SCRIPT_1_8) as opened:
        return with_digest(collect(opened, list(names)), opened)


ODD_ASIDES: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "garbage": lambda: b"garbage" * 100,
    "an archive": SCRIPT_1_8.read_bytes,
    "cut short": lambda: records(migrated(SCRIPT_1_8, "2.13").data)[MIGRATED][:-1],
    "of another model": lambda: records(migrated(SMALL_1_9, "2.13").data)[MIGRATED],
    "a companion of the original": lambda: companion_of(SCRIPT_1_8),
    "a companion of a split": lambda: halves(SCRIPT_1_8).companion,
    "without all records": lambda: build_companion(kept_facts([])),
}


@pytest.mark.parametrize("what", ODD_ASIDES)
def test_what_is_kept_aside_but_is_not_the_original_is_refused(what: str, tmp_path: Path) -> None:
    data = tampered(migrated(SCRIPT_1_8, "2.13").data, {MIGRATED: ODD_ASIDES[what]()})
    for to in ("1.8", "2.13"):
        problem = refused(data, to, tmp_path)
        assert MIGRATED in problem
        assert problem.startswith(MIGRATED) or "pass --no-aside" in problem
    left = done(data, "1.8", tmp_path, aside=False)
    assert records(left) == original(SCRIPT_1_8)


def test_a_bomb_that_is_kept_aside_costs_nothing(tmp_path: Path) -> None:
    data = migrated(SCRIPT_1_8, "2.13").data
    for name in ("row.offset", "string.template", "number.value"):
        bomb = tampered(data, {MIGRATED: solid(body(line(name, 1 << 40)))})
        with affordable():
            error = tried(bomb, "1.8", tmp_path)
        assert isinstance(error, LimitError)
        assert error.record == MIGRATED


@pytest.mark.parametrize(
    "name",
    [
        "none",
        "data.pkl",
        MODELS,
        ".data/version",
        EMBEDDED,
        MIGRATED,
        "model.json",
        "",
        "../../x",
        "\udcff",
        "x/",
    ],
)
def test_what_is_kept_aside_under_another_name_is_refused(name: str, tmp_path: Path) -> None:
    facts = kept_facts()
    strings = [bytes(facts.strings.data(one)) for one in range(len(facts.strings))]
    other = [name.encode("utf-8", "surrogateescape") if one == b"version" else one for one in strings]
    assert other != strings
    problem = refused(
        aside_of(replace(facts, form=replace(facts.form, strings=table_of(other)))), "1.8", tmp_path
    )
    assert MIGRATED in problem


@pytest.mark.parametrize("column", sampled(sorted(kept_facts().columns), most=12))
def test_facts_that_are_kept_aside_and_lie_end_in_one_error_or_a_result(column: str, tmp_path: Path) -> None:
    facts = kept_facts()
    values = facts.columns[column]
    others = [values[:0], values + 1, -values - 5, np.full(len(values), 1 << 40), np.tile(values, 2)]
    for lie in (None, *others):
        columns: Columns = {name: had for name, had in facts.columns.items() if name != column}
        columns |= {} if lie is None else {column: lie}
        try:
            data = aside_of(facts.with_columns(columns), CompanionLayout.MAPPED)  # which models nothing
        except (ArchiveError, ValueError, OverflowError, IndexError, KeyError):
            continue  # no companion says that
        for to in ("1.8", "2.13"):
            tried(data, to, tmp_path)


def test_a_companion_that_does_not_tell_of_the_records_is_refused(tmp_path: Path) -> None:
    facts = kept_facts()
    columns: Columns = {name: values for name, values in facts.columns.items() if name != "member.kind"}
    problem = refused(aside_of(facts.with_columns(columns)), "1.8", tmp_path)
    assert MIGRATED in problem
    assert "pass --no-aside" in problem
    out, companion, _ = halves(SCRIPT_1_8)
    split = parse_companion(memoryview(companion))
    columns = {name: values for name, values in split.columns.items() if name != "member.kind"}
    with pytest.raises(ArchiveError, match=r"member\.kind: no join gives an archive by this companion"):
        archive.join(out, build_companion(split.with_columns(columns)), tmp_path / "joined")
    assert list(tmp_path.iterdir()) == []


def test_an_original_that_would_not_be_the_one_of_before_is_refused(tmp_path: Path) -> None:
    facts = kept_facts()
    other: Columns = {"file.digest": facts.columns["file.digest"] ^ 1}
    assert "pass --no-aside" in refused(aside_of(facts.with_columns(facts.columns | other)), "1.8", tmp_path)
    columns: Columns = {name: values for name, values in facts.columns.items() if name != "file.digest"}
    unknown = aside_of(facts.with_columns(columns))
    assert done(unknown, "1.8", tmp_path) == SCRIPT_1_8.read_bytes()
    changed = tampered(unknown, {"data/0": lambda data: b"\1" + data[1:]})
    assert "pass --no-aside" in refused(changed, "1.8", tmp_path)


def test_what_is_kept_aside_may_be_mapped_and_may_hold_every_record(tmp_path: Path) -> None:
    names = list(original(SCRIPT_1_8))
    for kept in (build_companion(kept_facts(), CompanionLayout.MAPPED), build_companion(kept_facts(names))):
        data = tampered(migrated(SCRIPT_1_8, "2.13").data, {MIGRATED: kept})
        assert done(data, "1.8", tmp_path) == SCRIPT_1_8.read_bytes()


def test_a_migrated_archive_that_another_tool_packed_still_comes_back_to_the_byte(tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        again = rezipped(migrated(NESTED, "1.8").data, compression)
        assert done(again, "2.13", tmp_path) == NESTED.read_bytes()
        again = rezipped(migrated(SCRIPT_1_8, "2.13").data, compression)
        assert done(again, "1.8", tmp_path) == SCRIPT_1_8.read_bytes()


# --- The check of a migrated archive before it is written: another model, or other facts, are refused


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
