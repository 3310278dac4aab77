"""Releases by their names, and ranges of them as text."""

from __future__ import annotations

import pytest

from archive import ArchiveError
from archive.formats.releases import LATEST, RELEASE_NUMBERS, number_of, release, shown, spanned


@pytest.mark.parametrize(
    ("name", "number"),
    [("1.9", (1, 9)), ("1.9.0", (1, 9)), ("v2.1.2+cu118", (2, 1)), ("latest", LATEST), ("1.13", (1, 13))],
)
def test_a_release_has_names(name: str, number: tuple[int, int]) -> None:
    assert number_of(name) == number


@pytest.mark.parametrize("name", ["", "1", "1.14", "3.0", "1.9.0.0", "1.9-rc1", "Latest", "1.٩", "0.4"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match=r"expected a release from 1\.0 to 2\.13, or latest, found"):
        number_of(name)


def test_every_release_has_one_row() -> None:
    for number in RELEASE_NUMBERS:
        row = release(number)
        assert row.first <= number <= row.last
        assert number_of(shown(number)) == number


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [((1, 9), (1, 9), "1.9"), ((1, 10), (1, 11), "1.10 to 1.11"), ((2, 1), LATEST, "2.1 or later")],
)
def test_a_range_of_releases_is_told(first: tuple[int, int], last: tuple[int, int], text: str) -> None:
    assert spanned(first, last) == text
