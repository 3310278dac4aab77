"""Digests and differences of side effects: what they do counts, where they come from does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import archive
from archive.compare.sameness import Level
from archive.formats.effects import EFFECTS
from archive.formats.effects.known_calls import PLACES
from archive.formats.effects.model import Constant, GlobalName
from archive.formats.effects.record import build_effects
from tests.support.corpus import FIXTURES
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.formats.effects.model import Effect, EffectTable, Guard

REPORTING = FIXTURES / "effects/reporting.pt"
CANARY = FIXTURES / "canaries/effects.pt"


def with_effects(
    change: Callable[[Effect], Effect], guard: Callable[[Guard], Guard] = lambda one: one
) -> bytes:
    """The fixture that logs and warns, with other effects and guards."""
    with archive.open(REPORTING) as opened:
        table = opened.effects
    assert table is not None
    methods = tuple(
        replace(one, effects=tuple(map(change, one.effects)), guards=tuple(map(guard, one.guards)))
        for one in table.methods
    )
    return with_table(replace(table, methods=methods))


def with_table(table: EffectTable) -> bytes:
    data = tampered(REPORTING, {EFFECTS: build_effects(table)})
    assert data != REPORTING.read_bytes()
    return data


def setting(at: int, value: str | int) -> Callable[[Effect], Effect]:
    """Puts another value in place of a setting of loggers and warnings: ``at`` from their filename."""

    def change(effect: Effect) -> Effect:
        if not isinstance(effect.source, GlobalName) or effect.source not in PLACES:
            return effect
        assert isinstance(effect.key, Constant)
        assert isinstance(effect.key.value, tuple)
        settings = list(effect.key.value)
        settings[PLACES[effect.source] + at] = value
        return replace(effect, key=Constant(tuple(settings)))

    return change


def effect_rows(data: bytes) -> list[archive.Change]:
    return [row for row in archive.diff(REPORTING, data).changes if row.name == EFFECTS]


def test_other_effects_are_another_model_and_one_row() -> None:
    with archive.open(REPORTING) as opened:
        table = opened.effects
    assert table is not None
    fewer = replace(table.methods[0], effects=table.methods[0].effects[1:])
    data = with_table(replace(table, methods=(fewer, *table.methods[1:])))
    one, other = archive.digest(REPORTING), archive.digest(data)
    assert {name for name in one.parts if one.parts[name] != other.parts[name]} == {f"effects/{EFFECTS}"}
    found = archive.diff(REPORTING, data)
    assert not found.same_model
    (row,) = [row for row in found.changes if row.level is Level.MODEL]
    assert (row.what, row.name, row.in_words) == ("effects", EFFECTS, "effects +0 −1")  # noqa: RUF001


def test_a_setting_that_no_text_shows_is_another_model() -> None:
    data = with_effects(setting(2, "another"))  # the function of a logger's call, the module of a warning
    assert archive.digest(data).value != archive.digest(REPORTING).value
    (row,) = effect_rows(data)
    assert row.level is Level.MODEL


@pytest.mark.parametrize(
    ("data", "level"),
    [
        (
            with_effects(lambda one: replace(one, handle=one.handle + 1), lambda one: replace(one, handle=7)),
            Level.IDS,
        ),
        (with_effects(setting(0, "elsewhere.py")), Level.DEBUG),
        (with_effects(setting(1, 77)), Level.DEBUG),
    ],
    ids=["handles", "file", "line"],
)
def test_places_and_handles_of_effects_are_not_the_model(data: bytes, level: Level) -> None:
    assert archive.digest(data).parts == archive.digest(REPORTING).parts
    (row,) = effect_rows(data)
    assert row.level is level


@pytest.mark.parametrize("path", [REPORTING, CANARY], ids=lambda path: path.name)
def test_a_redacted_model_has_the_same_effects(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    archive.redact(
        *(path, out, tmp_path / "half.ptdbg"),
        maps=["/=elsewhere/"],  # which leaves the user's name in what is below
        paths="basename",
        text="none",
        partial=True,
    )
    assert archive.digest(out).parts == archive.digest(path).parts
    assert archive.diff(path, out).same_model
