"""The README shows what its commands really print, and its Python runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tools.readme import BLOCK, README, shown

BLOCKS = BLOCK.findall(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1][:20])
def test_a_console_block_shows_what_its_commands_print(block: str) -> None:
    assert shown(block) == block


def test_there_are_blocks_to_compare() -> None:
    assert len(BLOCKS) == 6
    assert all("~~~~ <--- HERE" in block for block in (BLOCKS[0], BLOCKS[2], BLOCKS[3]))


def test_the_python_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(README.parent)
    failed, tried = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert (failed, tried > 0) == (0, True)


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (Path(README).parent / link).exists()] == []
