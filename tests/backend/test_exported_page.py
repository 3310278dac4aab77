"""The page about exported programs: its files, run one after the other, print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

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
    for name, path in (("lowering.py", str(ROOT)), ("running.py", "")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
        )
    shown = done.stdout.replace(f"{folder}{os.sep}", "").replace(SITE, "site-packages/")
    return "".join(f"{line.rstrip()}\n" for line in shown.rstrip().splitlines())


def test_the_page_shows_what_its_files_print(tmp_path: Path) -> None:
    (shown,) = TEXT.findall(PAGE.read_text("utf-8"))
    assert printed(tmp_path) == shown
