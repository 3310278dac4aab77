"""Archives to migrate of layouts that are not known, or of parts that don't belong together."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import ArchiveError
from archive.formats.stale_methods import stale_methods
from archive.rewrite.migrate.migrate import check_migrated
from tests.support import slow_reader
from tests.support.corpus import CALLSTACKS, HANDLES, PATHS, RELEASES, raw
from tests.support.halves import rezipped
from tests.support.migrations import (
    EVERYWHERE,
    NESTED,
    PATHED,
    RANGES,
    SCRIPT,
    SCRIPT_1_8,
    SMALL,
    SMALL_1_9,
    STALE,
    STALE_1_8,
    done,
    migrated,
    places,
    records,
    refused,
)
from tests.support.sampling import sampled
from tests.support.tampering import handles, methods, ranges, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from tests.support.tampering import Change

# --- layouts that are not known


KEY = "field table, field entry, field key"
FUTURE: dict[str, tuple[dict[str, Change], str]] = {
    "rows of 4 elements": (
        {RANGES: pickle.dumps(((0, (("text", "m.py", 1), 0, 4), 1, 2),), 2)},
        f"{RANGES}, row 0: expected a tuple of 3, found a tuple of 4",
    ),
    "another marker": (
        {RANGES: lambda data: data.replace(b"WITH_STRING_TABLE", b"WITH_STRING_PAGES")},
        f"{RANGES}, field marker: expected 'FORMAT_WITH_STRING_TABLE', found 'FORMAT_WITH_STRING_PAGES'",
    ),
    "no tuple": (
        {RANGES: pickle.dumps({"version": 3}, 2)},
        f"{RANGES}, byte 2: expected a tuple, found a dict",
    ),
    "call stacks of 5 elements": (
        {CALLSTACKS: pickle.dumps(((0, 1, "aten::add", None, 5),), 2)},
        f"{CALLSTACKS}, row 0: expected a tuple of 4, found a tuple of 5",
    ),
    "handles of another name": (
        {HANDLES: lambda data: data.replace(b"function_debug_handles", b"function_debug_numbers")},
        f"{HANDLES}, row 0, {KEY}: expected 'function_debug_handles', found 'function_debug_numbers'",
    ),
    "bytecode that is no tuple": (
        {"bytecode.pkl": b"\x80\x02K\x09."},
        "bytecode.pkl, byte 2: expected a tuple of methods, found 9",
    ),
    "bytecode that is cut": (
        {"bytecode.pkl": lambda data: data[:-1]},
        "bytecode.pkl, byte 582: the pickle ends before its STOP",
    ),
}


@pytest.mark.parametrize("what", FUTURE)
def test_a_layout_that_is_not_known_is_named_and_left_alone(what: str, tmp_path: Path) -> None:
    changes, expected = FUTURE[what]
    data = tampered(SMALL, changes)
    for to in ("1.9", "2.0", "string-table") if RANGES not in changes else ("1.9", "2.13", "inline-rows"):
        assert refused(data, to, tmp_path) == expected


def test_operators_that_are_not_there_are_missed_where_they_are_asked_for(tmp_path: Path) -> None:
    name = slow_reader.load(raw(SMALL_1_9, "bytecode.pkl"))[1][0].decode()
    table = (("instructions", (("OP", 9, 0),)), ("operators", (("aten::add", ""),)))
    changes = {"bytecode.pkl": pickle.dumps((5, (name, table)), 2)}
    problem = refused(tampered(SMALL_1_9, changes), "2.13", tmp_path)
    assert problem.startswith("bytecode.pkl, byte ")
    assert problem.endswith(": expected one of 1 operators, found 9")
    done(tampered(SMALL_1_9, changes), "inline-rows", tmp_path)


# --- parts that don't belong together


def test_module_paths_beside_handles_go_or_stay_with_the_target(tmp_path: Path) -> None:
    both = tampered(SMALL_1_9, {PATHS: raw(RELEASES / "torch-1.8.0" / "unicode.ptl", PATHS)})
    new = records(done(both, "2.13", tmp_path))
    assert PATHS not in new
    assert {CALLSTACKS, HANDLES} <= new.keys()
    old = records(done(both, "1.8", tmp_path))
    assert not {CALLSTACKS, HANDLES} & old.keys()
    assert old[PATHS] == records(both)[PATHS]
    for to, what in (("2.13", "module paths of operators"), ("1.8", "call stacks of debug handles")):
        losses = archive.migrate(both, to=to, dry_run=True).plan.losses
        assert [step.what for step in losses if what in step.what]


@pytest.mark.parametrize("change", [1, -1, 40])
def test_as_many_or_more_or_fewer_module_paths_than_operators(change: int, tmp_path: Path) -> None:
    def other(table: MethodTable) -> MethodTable:
        value = np.append(table.value, [table.value[-1]] * change) if change > 0 else table.value[:change]
        return replace(table, value=value, first=np.append(table.first[:-1], len(value)))

    data = tampered(PATHED, methods(PATHED, other))
    made = records(done(data, "2.13", tmp_path, aside=False))
    assert (HANDLES in made) == (CALLSTACKS in made)
    assert done(done(data, "2.13", tmp_path), "1.8", tmp_path) == data


def test_handles_that_are_more_or_fewer_than_instructions_stay_as_they_are(tmp_path: Path) -> None:
    def longer(table: MethodTable) -> MethodTable:
        return replace(
            table, value=np.append(table.value, 7), first=np.append(table.first[:-1], len(table.value) + 1)
        )

    def shorter(table: MethodTable) -> MethodTable:
        return replace(table, value=table.value[:-1], first=np.append(table.first[:-1], len(table.value) - 1))

    for change in (longer, shorter):
        data = tampered(NESTED, methods(NESTED, change))
        for to in ("1.9", "2.0"):
            made = done(data, to, tmp_path)
            assert records(made)[HANDLES] == records(data)[HANDLES]
            assert done(made, "2.13", tmp_path) == data
        assert done(done(data, "1.8", tmp_path), "2.13", tmp_path) == data


def test_tags_and_handles_of_any_number_are_carried_over(tmp_path: Path) -> None:
    numbers = [1_000_000, 1 << 40, (1 << 63) - 1, -1, -7]

    def other(table: HandleTable) -> HandleTable:
        return replace(table, tag=np.array([*numbers, *table.tag[len(numbers) :]]))

    tagged = tampered(SMALL, ranges(SMALL, RANGES, tag=dict(enumerate(numbers))))
    data = tampered(tagged, handles(SMALL, other))
    with archive.open(done(data, "1.9", tmp_path)) as opened:
        assert opened.handle_table is not None
        assert opened.handle_table.tag[: len(numbers)].tolist() == numbers
        table = opened.range_table
        rows = table.rows(table.numbers[RANGES])
        assert [int(table.tag[row]) for row in rows[: len(numbers)]] == numbers
    for to in EVERYWHERE:
        assert done(done(data, to, tmp_path), "original", tmp_path) == data


def test_handles_without_a_map_stay_and_bytecode_is_not_needed(tmp_path: Path) -> None:
    alone = tampered(SMALL_1_9, {CALLSTACKS: None})
    made = records(done(alone, "2.13", tmp_path))
    assert made[HANDLES] == records(alone)[HANDLES]
    assert CALLSTACKS not in made
    for path, to in ((SMALL, "1.9"), (SMALL_1_9, "2.13"), (PATHED, "2.13"), (NESTED, "1.8")):
        bare = tampered(path, {"bytecode.pkl": None})
        made = records(done(bare, to, tmp_path))
        assert places(made[RANGES]) == places(records(bare)[RANGES])


CLASS, METHOD = b"class xLoweredModule(Module):\n", b"  def __preprocess(self: torch.jit.xLoweredModule,\n"
LOOKALIKES = {
    "a function": METHOD.strip() + b"\n    mod: Any) -> None:\n  return None\n",
    "another class": b"class Lowered(Module):\n" + METHOD + b"    return None\n",
    "a comment": CLASS + METHOD.replace(b"def", b"# def") + b"    return None\n",
    "no end": CLASS + METHOD + b"    x\n" * 50_000,
    "many": CLASS + METHOD * 20_000,
    "long": b"class " + b"xLoweredModule" * 30_000 + b"(Module):\n" + METHOD[:36] + b"L" * 200_000,
    "cut": raw(STALE_1_8, STALE)[:1_300],
    "nothing": b"",
}


@pytest.mark.parametrize("what", LOOKALIKES)
def test_what_only_looks_like_lowered_code_is_not_touched(what: str, tmp_path: Path) -> None:
    data = tampered(STALE_1_8, {STALE: LOOKALIKES[what]})
    assert archive.migrate(data, to="2.13", dry_run=True).plan.rescues == []
    assert records(done(data, "2.13", tmp_path))[STALE] == LOOKALIKES[what]


def test_code_of_that_name_of_an_archive_without_lowered_modules_is_not_touched(tmp_path: Path) -> None:
    data = tampered(SCRIPT_1_8, {STALE: LOOKALIKES["cut"]})
    assert records(done(data, "2.13", tmp_path))[STALE] == LOOKALIKES["cut"]


def test_lowered_code_without_source_ranges_or_of_any_length_is_rescued_in_time(tmp_path: Path) -> None:
    code = raw(STALE_1_8, STALE)
    bare = tampered(STALE_1_8, {f"{STALE}.debug_pkl": None})
    assert b"__preprocess(" not in records(done(bare, "2.13", tmp_path))[STALE]
    padded = tampered(STALE_1_8, {STALE: code + b"\n" * 1_000_000})
    assert len(records(done(padded, "2.13", tmp_path))[STALE]) < len(code) + 1_000_000


def test_a_rescue_that_tells_of_other_places_is_refused() -> None:
    code = raw(STALE_1_8, STALE)
    data = migrated(STALE_1_8, "2.13").data
    begin = code.index(b"  def __preprocess(")
    end = code.index(b"  def forward(")
    with archive.open(STALE_1_8) as before, archive.open(data) as after:
        check_migrated(before, after, {STALE: [(begin, end)]})
    name = f"{STALE}.debug_pkl"
    with archive.open(data) as opened:
        count = len(opened.range_table.rows(opened.range_table.numbers[name]))
    for row in sampled(range(count)):
        for field, value in (("offset", 1 << 20), ("start", 3), ("end", 7)):
            other = tampered(data, ranges(data, name, **{field: {row: value}}))
            with (
                archive.open(STALE_1_8) as before,
                archive.open(other) as after,
                pytest.raises(ArchiveError, match=r"torch/jit\.py"),
            ):
                check_migrated(before, after, {STALE: [(begin, end)]})


def test_rescued_code_whose_record_has_no_rows_keeps_none_and_may_get_none(tmp_path: Path) -> None:
    name, empty = f"{STALE}.debug_pkl", b"\x80\x02)."
    rowless = tampered(STALE_1_8, {name: empty})
    made = records(done(rowless, "2.13", tmp_path))
    assert places(made[name]) == ()
    assert b"__preprocess(" not in made[STALE]
    cuts = {STALE: stale_methods(raw(STALE_1_8, STALE))}
    some = migrated(STALE_1_8, "2.13").data
    for old, new in ((rowless, some), (STALE_1_8, tampered(some, {name: empty}))):
        with (
            archive.open(old) as before,
            archive.open(new) as after,
            pytest.raises(ArchiveError, match="expected a source range before and after, or none"),
        ):
            check_migrated(before, after, cuts)


# --- the records that tell how an archive is to be read


HIDDEN, PLAIN = ".data/version", "version"


def versions(data: bytes) -> dict[str, bytes]:
    return {name: found for name, found in records(data).items() if name in (HIDDEN, PLAIN)}


def test_a_version_from_6_on_stands_where_the_target_looks_for_it(tmp_path: Path) -> None:
    new = tampered(SCRIPT, {PLAIN: None, HIDDEN: b"10\n"})
    old = tampered(SCRIPT_1_8, {PLAIN: b"10\n"})
    for data, own in ((new, "2.13"), (old, "1.8")):
        at: bytes = data
        for to, name in (("1.8", PLAIN), ("2.13", HIDDEN), ("1.4", PLAIN), ("1.9", HIDDEN), ("2.13", HIDDEN)):
            at = done(at, to, tmp_path)
            assert versions(at) == {name: b"10\n"}, to
            bare = done(at, to, tmp_path, aside=False)
            assert versions(done(bare, own, tmp_path, aside=False)) == versions(data)
        assert done(at, own, tmp_path) == data


@pytest.mark.parametrize(
    ("version", "hidden"), [(b"5", False), (b"6\n", True), (b"999999999", True), (b"1000000000", False)]
)
def test_a_version_below_6_or_of_more_than_9_digits_stands_in_sight(
    version: bytes, tmp_path: Path, *, hidden: bool
) -> None:
    data = tampered(SCRIPT_1_8, {PLAIN: version})
    for to, since in (("1.8", False), ("1.9", True), ("2.13", True)):
        assert versions(done(data, to, tmp_path)) == {HIDDEN if hidden and since else PLAIN: version}


def test_records_that_stay_the_same_are_compressed_as_they_were(tmp_path: Path) -> None:
    data = rezipped(NESTED.read_bytes(), zipfile.ZIP_DEFLATED)
    made = done(data, "1.9", tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(io.BytesIO(made)) as after:
        sizes = [
            {name.partition("/")[2]: zipped.getinfo(name).compress_size for name in zipped.namelist()}
            for zipped in (before, after)
        ]
    same = {name for name, content in records(data).items() if records(made).get(name) == content}
    assert {HANDLES, "bytecode.pkl", "code/__torch__/models.py"} <= same
    assert {name: sizes[0][name] for name in same} == {name: sizes[1][name] for name in same}


def test_of_two_versions_the_one_that_pytorch_reads_is_carried_over(tmp_path: Path) -> None:
    both = {PLAIN: b"3\n", HIDDEN: b"10\n"}
    for path, own in ((SCRIPT_1_8, "1.8"), (SCRIPT, "2.13")):
        data = tampered(path, both)
        for to, name in (("1.4", PLAIN), ("2.0", HIDDEN), ("1.9", HIDDEN)):
            made = done(data, to, tmp_path)
            assert versions(made) == {name: b"10\n"}
            assert done(made, own, tmp_path) == data


@pytest.mark.parametrize(
    "version", [b"", b"x", b"-3", b"9" * 5000, "\u0663".encode(), b"\xff", b"3.5", b"3\n\n"]
)
def test_a_version_that_is_none_stays_as_it_is(version: bytes, tmp_path: Path) -> None:
    for path, own, to in ((SCRIPT_1_8, "1.8", "2.13"), (SCRIPT, "2.13", "1.8")):
        data = tampered(path, {PLAIN: version})
        made = done(data, to, tmp_path)
        assert versions(made) == {PLAIN: version}
        assert done(made, own, tmp_path) == data


def test_a_version_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    for path, to in ((SCRIPT_1_8, "2.13"), (SCRIPT, "1.8")):
        assert versions(done(tampered(path, {PLAIN: None}), to, tmp_path)) == {}


def test_other_records_beside_the_version_stay_as_they_are(tmp_path: Path) -> None:
    odd = {
        ".data/a\x1b": b"1",
        ".data/sub/x": b"2",
        ".data/\udcff": b"3",
        ".data/version.bak": b"",
        ".data/v": b"4",
    }
    for path, own in ((SCRIPT_1_8, "1.8"), (SCRIPT, "2.13")):
        data = tampered(path, odd)
        for to in sampled(EVERYWHERE, most=3):
            with archive.open(done(data, to, tmp_path)) as opened:
                assert {name: bytes(opened.records[name].view()) for name in odd} == odd
            assert done(done(data, to, tmp_path), own, tmp_path) == data


def test_other_records_of_the_format_are_carried_over_with_it(tmp_path: Path) -> None:
    later = {".format_version": b"1", ".storage_alignment": b"64"}
    for path, own, to in ((SCRIPT_1_8, "1.8", "2.13"), (SCRIPT, "2.13", "1.8")):
        data = tampered(path, later)
        made = done(data, to, tmp_path)
        assert {name: records(made)[name] for name in later} == later
        assert done(made, own, tmp_path) == data


def test_a_byte_order_is_kept_and_not_made_up_anew(tmp_path: Path) -> None:
    for order in (b"big", b"", b"little"):
        data = tampered(SCRIPT, {"byteorder": order})
        old = done(data, "1.8", tmp_path)
        assert "byteorder" not in records(old)
        assert done(old, "2.13", tmp_path) == data
        assert (
            records(done(tampered(SCRIPT_1_8, {"byteorder": order}), "2.13", tmp_path))["byteorder"] == order
        )
