"""Every planted word is on the list: no detector has to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from tests.privacy.review.planting import ALL
from tests.support.canaries import FILES, planted_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.privacy.review.planting import Planted

FEWEST = 100


def listed(source: bytes | Path) -> str:
    """All texts of the list."""
    return "\n".join(row.text for row in archive.review(source).rows)


def test_there_are_many() -> None:
    assert sum(len(one.words) for one in ALL) >= FEWEST


@pytest.mark.parametrize("planted", ALL, ids=lambda planted: planted.name)
def test_each_word_is_listed(planted: Planted) -> None:
    texts = listed(planted.data)
    assert {place: word for place, word in planted.words.items() if word not in texts} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_so_is_each_token_of_the_fixtures(path: Path) -> None:
    texts = listed(path)
    assert [one for one in planted_in(path) if one.token not in texts] == []
