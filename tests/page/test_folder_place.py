"""Where the pages of several files go: into a folder, and never into one that is named like a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.page.test_failures import FLEET
from tests.support.commands import called, well

if TYPE_CHECKING:
    from pathlib import Path


def test_several_files_have_no_single_page(tmp_path: Path) -> None:
    refused = called("report", FLEET, "-o", tmp_path / "pages.html")
    assert refused.exit_code == 2
    assert f"several files get a page each, in a folder: -o {tmp_path / 'pages'}/" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "pages.html").mkdir()
    well("report", FLEET / "Ranker.ptdbg", FLEET / "Encoder.ptdbg", "-o", tmp_path / "pages.html")
    assert (tmp_path / "pages.html" / "index.html").is_file()
