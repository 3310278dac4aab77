"""The README shows what its commands really print, and its Python runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.migration_table import TABLE, rewritten
from tools.readme import BLOCK, README, shown

if TYPE_CHECKING:
    import pytest

TEXT = README.read_text(encoding="utf-8")
BLOCKS = BLOCK.findall(TEXT)
BENCHMARKS = README.with_name("BENCHMARKS.md")


def test_the_console_blocks_show_what_their_commands_print_one_after_the_other() -> None:
    for block in BLOCKS:
        assert shown(block) == block


def test_there_are_blocks_to_compare() -> None:
    assert len(BLOCKS) == 17
    assert sum("~~~~ <--- HERE" in block for block in BLOCKS) == 5


def test_the_first_table_is_that_of_the_benchmarks() -> None:
    rows = re.findall(r"^\|.*\d.*\|$", TEXT.partition("- **Without PyTorch")[0], re.MULTILINE)
    assert len(rows) == 7
    assert [row for row in rows if row not in BENCHMARKS.read_text(encoding="utf-8")] == []


def test_the_table_of_migrations_is_true() -> None:
    assert TABLE.search(TEXT)
    assert rewritten(TEXT) == TEXT


def test_the_python_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(README.parent)
    failed, tried = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert (failed, tried > 0) == (0, True)


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (Path(README).parent / link).exists()] == []
