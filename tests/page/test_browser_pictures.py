"""The pictures of the pages can be taken again, of the size that they have in the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.page.browser import in_browser
from tools.pictures import IMAGES, take

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = in_browser()
LEAST = 10_000
"""Bytes of a picture that shows more than an empty page."""


def sizes(folder: Path) -> dict[str, bytes]:
    """Width and height of each picture, as its header has them."""
    return {path.name: path.read_bytes()[16:24] for path in folder.glob("*.png")}


def test_pictures_are_taken_of_real_archives(tmp_path: Path) -> None:
    take(tmp_path)
    assert sizes(tmp_path) == sizes(IMAGES)
    assert all(path.stat().st_size > LEAST for path in tmp_path.iterdir())
