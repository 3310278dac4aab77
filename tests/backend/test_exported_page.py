"""The page about exported programs: its files, run one after the other, print what it shows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from tests.support.processes import run_fresh
from tools.pages import ROOT

pytestmark = pytest.mark.torch
PAGE = ROOT / "docs" / "how-to" / "programs.md"
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
TEXT = re.compile(r"(?<=```text\n)(.*?)(?=```)", re.DOTALL)
SITE = f"{Path(torch.__file__).parent.parent}{os.sep}"


def printed(folder: Path) -> str:
    """What the page's files print, with paths from the folder and from that of PyTorch on."""
    model, lowering, running = PYTHON.findall(PAGE.read_text("utf-8"))
    for name, text in (("model.py", model), ("lowering.py", lowering), ("running.py", running)):
        (folder / name).write_text(text, encoding="utf-8")
    for name, paths in (("lowering.py", [folder, ROOT]), ("running.py", [folder])):
        program = f"import runpy; runpy.run_path({name!r}, run_name='__main__')"
        done = run_fresh(program, folder=folder, paths=paths)
    shown = done.stdout.replace(f"{folder}{os.sep}", "").replace(SITE, "site-packages/")
    return "".join(f"{line.rstrip()}\n" for line in shown.rstrip().splitlines())


def test_the_page_shows_what_its_files_print(tmp_path: Path) -> None:
    (shown,) = TEXT.findall(PAGE.read_text("utf-8"))
    assert printed(tmp_path) == shown
