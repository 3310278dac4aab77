"""Each command has a manual page, made of its help, which man shows without a complaint."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from archive.cli.commands import COMMANDS
from tests.cli.test_lost_output import commands
from tools.man import escaped, pages

if TYPE_CHECKING:
    from pathlib import Path


def test_every_command_has_a_page() -> None:
    names = {"", "store", *commands()}
    assert {name for name, _ in pages()} == {
        f"debug-archive {name}".strip().replace(" ", "-") for name in names
    }


def test_a_page_says_what_help_says() -> None:
    page = dict(pages())["debug-archive-sizes"]
    assert escaped(COMMANDS["sizes"].summary.rstrip(".")) in page
    assert escaped("debug-archive sizes new.ptl --base old.ptl --by part") in page
    assert escaped("--human") in page
    assert "\\-\\-no\\-pager" not in page, "options of every command stand on the first page"
    assert "\\-\\-no\\-pager" in dict(pages())["debug-archive"]


def test_roff_obeys_no_text() -> None:
    assert escaped(r".so '\\-x") == r"\&.so '\e\e\-x".replace(r"\e\e", r"\e\e")


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not there")
@pytest.mark.parametrize("name", ["debug-archive", "debug-archive-sizes", "debug-archive-store-add"])
def test_man_shows_a_page(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.1"
    path.write_text(dict(pages())[name])
    env = os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "MANROFFOPT": "-c"}
    done = subprocess.run(
        ["man", "--warnings", "-l", str(path)], capture_output=True, text=True, env=env, check=True
    )
    assert not done.stderr
    shown = done.stdout
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"):
        assert f"{heading}\n" in shown
    assert name.replace("debug-archive-", "debug-archive ").replace("store-add", "store add") in shown
    examples = [line for line in shown.splitlines() if line.strip().startswith("debug-archive ")]
    assert len(examples) > 2, "examples keep their lines"
