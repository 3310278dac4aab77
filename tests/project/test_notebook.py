"""The notebook of the docs shows what its cells show when they are run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.sampling import whole_suite
from tools import notebook

ROOT = Path(__file__).resolve().parents[2]


def written() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.FILE.read_text("utf-8"))["cells"]
    return cells


@whole_suite
def test_the_notebook_is_as_its_cells_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.notebook", "--check"],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_it_is_small_and_all_of_it_was_run() -> None:
    assert notebook.FILE.stat().st_size < 60_000
    assert [cell["cell_type"] for cell in written()] == [
        "code" if text.startswith(notebook.PROMPT) else "markdown" for text in notebook.CELLS
    ]
    code = [cell for cell in written() if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])


def test_five_classes_show_themselves_as_tables() -> None:
    shown = [output["data"] for cell in written() for output in cell.get("outputs", ()) if "data" in output]
    tables = ["".join(data["text/html"]) for data in shown]
    assert len(tables) == 5
    assert all("<table" in table and "<script" not in table for table in tables)
