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
BATCHES = [path for path in PROGRAMS if "batch(" in path.read_text("utf-8")]
"""Those whose processes import the program by its path."""
WITHOUT_TORCH = """
import os, runpy, sys
sys.modules["torch"] = None
import archive, archive.cli.commands, archive.reader.opening
for program, out in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    if not (child := os.fork()):
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
        runpy.run_path(program, run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, program
"""
"""Each in a process of its own, forked from one that has imported this library."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """The file of what each program prints, which prints no errors."""
    folder = tmp_path_factory.mktemp("printed")
    outputs = {path: folder / f"{path.stem}.txt" for path in PROGRAMS}
    others = [str(one) for pair in outputs.items() if pair[0] not in BATCHES for one in pair]
    check(["-c", WITHOUT_TORCH, *others])
    for path in BATCHES:
        outputs[path].write_text(check([str(path)]), "utf-8")
    return outputs


def check(words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_prints_what_stands_beside_it(program: Path, printed: dict[Path, Path]) -> None:
    assert printed[program].read_text("utf-8") == (
        ROOT / "examples" / "outputs" / f"{program.stem}.txt"
    ).read_text("utf-8")


def test_the_page_of_examples_lists_each_with_its_own_words() -> None:
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    for program in PROGRAMS:
        says = str(ast.get_docstring(ast.parse(program.read_text("utf-8")))).partition("\n\n")[0]
        assert f"| [{program.name}]({program.name}) | {' '.join(says.split())} |" in page
    assert {path.stem for path in (ROOT / "examples/outputs").iterdir()} == {path.stem for path in PROGRAMS}
