"""The programs of ``examples/`` run without PyTorch, and print what stands beside them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_prints_what_stands_beside_it(program: Path) -> None:
    words = [sys.executable, str(program)]
    if "batch(" not in program.read_text("utf-8"):  # whose processes import the program by its path
        words[1:1] = ["-c", WITHOUT_TORCH]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / "examples" / "outputs" / f"{program.stem}.txt").read_text("utf-8")


def test_the_page_of_examples_lists_each_with_its_own_words() -> None:
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    for program in PROGRAMS:
        says = str(ast.get_docstring(ast.parse(program.read_text("utf-8")))).partition("\n\n")[0]
        assert f"| [{program.name}]({program.name}) | {' '.join(says.split())} |" in page
    assert {path.stem for path in (ROOT / "examples/outputs").iterdir()} == {path.stem for path in PROGRAMS}
