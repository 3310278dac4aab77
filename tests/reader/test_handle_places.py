"""The places of debug handles, beside what one handle alone is symbolicated to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import LimitError
from archive.base.limits import Limits
from archive.debuginfo.profiles.places import place_of
from archive.reader.lookups.places import StockPlaces
from tests.support.corpus import RELEASES

if TYPE_CHECKING:
    from pathlib import Path

LITE = sorted(RELEASES.rglob("*.ptl"))


@pytest.mark.parametrize("path", LITE, ids=lambda path: "/".join(path.parts[-2:]))
def test_places_of_all_handles_are_those_of_each_alone(path: Path) -> None:
    """What handles share is found once, and is the same as if each was the only one."""
    opened = archive.open(path)
    places = StockPlaces(opened)
    for handle in [*opened.handles, *[-1, 10**9]]:
        place, alone = places.of_handle(handle), place_of(opened.symbolicate(handle))
        assert (place.hierarchy, place.op) == (alone.hierarchy, alone.op)
        assert (place.source, place.innermost) == (alone.source, alone.innermost)
        assert [(each.type, each.step.rpartition(".")[2]) for each in place.levels] == [
            (each.type, each.step) for each in alone.levels
        ]
        assert place == StockPlaces(opened).of_handle(handle)


@pytest.mark.parametrize("limit", ["output", "work"])
def test_places_are_bounded(limit: str) -> None:
    """Calls on the way to an operation count, whether they were met before or not."""
    path = RELEASES / "torch-2.13.0" / "nested.ptl"
    deepest = max(archive.open(path).handles.values(), key=lambda entry: len(entry.stack)).handle
    places = StockPlaces(archive.open(path, limits=Limits(**{limit: 16})))
    for _ in range(2):
        with pytest.raises(LimitError, match=f"debug handle {deepest}.*{limit}"):
            places.of_handle(deepest)
