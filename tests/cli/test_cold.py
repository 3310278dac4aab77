"""A short command imports what it needs, and nothing besides that takes time."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.formatting import HelpFormatter

from archive.cli.commands import help_width
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from pathlib import Path

MODEL = str(ORACLES / "plain_stack.ptl")
PROGRAM = """
import atexit, os, sys
atexit.register(lambda: open(os.environ["IMPORTED"], "w").write(" ".join(sys.modules)))
from debug_archive import main
main()
"""
FOR_NONE = {"torch", "rich", "numpy.ma", "numpy.random", "shutil", "secrets", "archive.failures.log"}
FOR_NONE |= {"construct", "pdb", "traceback", "logging", "csv", "archive.formats.etdump"}
"""What no command about a single archive needs whose output no terminal shows."""
FOR_SEVERAL = {"archive.batches", "pathlib", "tempfile", "urllib.parse", "queue"}
"""What is for files in folders, at URLs, and for processes."""
FOR_WRITERS = {"archive.rewrite", "archive.normalform", "archive.io.drafts", "archive.container.write"}
READERS = FOR_NONE | FOR_SEVERAL | FOR_WRITERS | {"archive.companion.parse"}
WITHOUT = {
    ("--help",): READERS | {"numpy", "dataclasses", "archive.reader", "archive.io.mapped", "signal", "json"},
    ("symbolicate", MODEL, "1445"): READERS | {"hashlib", "json", "archive.check", "archive.privacy"},
    ("inspect", MODEL): READERS | {"archive.check", "archive.privacy", "archive.compare"},
    ("verify", MODEL): READERS | {"json", "archive.privacy", "archive.describe"},
    ("leaks", MODEL): READERS | {"hashlib", "archive.check", "archive.describe"},
    ("digest", MODEL): FOR_NONE - {"shutil"} | {"archive.check", "archive.privacy", "archive.describe"},
}
"""Commands, and modules and packages of which they import nothing."""


def imported(words: tuple[str, ...], folder: Path) -> set[str]:
    """The modules that a command imports, and the packages that they lie in."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    modules = folder / "imported"
    program = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(program, env=env | {"IMPORTED": str(modules)}, capture_output=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    names = set(modules.read_text().split())
    assert names > {"click", "archive.cli.commands"}
    return names


@pytest.mark.parametrize("words", WITHOUT, ids=lambda words: words[0])
def test_a_command_imports_nothing_that_it_does_not_need(words: tuple[str, ...], tmp_path: Path) -> None:
    assert not imported(words, tmp_path) & WITHOUT[words]


@pytest.mark.parametrize(
    "columns", [None, "", "x", "-3", "0", "20", "51", "52", "53", "79", "80", "81", "200"]
)
def test_help_is_as_wide_as_click_makes_it(columns: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert help_width() == HelpFormatter().width
