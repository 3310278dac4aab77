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
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.build import build_companion
from archive.companion.layout import CompanionProfile
from archive.companion.parse import parse_companion
from archive.formats.record_kinds import EMBEDDED, MIGRATED
from archive.normalform.pool import table_of
from archive.reader.collect import collect
from archive.rewrite.join import with_digest
from tests.support.cost import affordable
from tests.support.halves import companion_of, halves, rezipped
from tests.support.hostile_companions import solid
from tests.support.hostile_migrations import (
    EVERYWHERE,
    MODELS,
    NESTED,
    SCRIPT_1_8,
    SMALL_1_9,
    done,
    refused,
    tried,
)
from tests.support.migrations import migrated, original, records
from tests.support.packed_companions import body, line
from tests.support.sampling import crossed, examples
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from archive.companion.contents import Contents
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns

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
    for at in chance.sample(range(len(data)), examples(250)):
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


def aside_of(facts: Contents, profile: CompanionProfile = CompanionProfile.PACKED) -> bytes:
    """A migrated archive with something else kept aside."""
    return tampered(migrated(SCRIPT_1_8, "2.13").data, {MIGRATED: build_companion(facts, profile)})


def kept_facts(names: Iterable[str] = ("version",)) -> Contents:
    with archive.open(SCRIPT_1_8) as opened:
        return with_digest(collect(opened, list(names)), opened.container)


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


@pytest.mark.parametrize("column", sorted(kept_facts().columns))
def test_facts_that_are_kept_aside_and_lie_end_in_one_error_or_a_result(
    column: ColumnName, tmp_path: Path
) -> None:
    facts = kept_facts()
    values = facts.columns[column]
    others = [values[:0], values + 1, -values - 5, np.full(len(values), 1 << 40), np.tile(values, 2)]
    for lie in (None, *others):
        columns: Columns = {name: had for name, had in facts.columns.items() if name != column}
        columns |= {} if lie is None else {column: lie}
        try:
            data = aside_of(facts.with_columns(columns), CompanionProfile.MAPPED)  # which models nothing
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
    split = parse_companion(memoryview(companion), DEFAULT_LIMITS.allowance(0))
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
    for kept in (build_companion(kept_facts(), CompanionProfile.MAPPED), build_companion(kept_facts(names))):
        data = tampered(migrated(SCRIPT_1_8, "2.13").data, {MIGRATED: kept})
        assert done(data, "1.8", tmp_path) == SCRIPT_1_8.read_bytes()


def test_a_migrated_archive_that_another_tool_packed_still_comes_back_to_the_byte(tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        again = rezipped(migrated(NESTED, "1.8").data, compression)
        assert done(again, "2.13", tmp_path) == NESTED.read_bytes()
        again = rezipped(migrated(SCRIPT_1_8, "2.13").data, compression)
        assert done(again, "1.8", tmp_path) == SCRIPT_1_8.read_bytes()
