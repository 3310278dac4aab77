"""The pages about exported programs: their files, run one after the other, print what they show."""

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
EXAMPLES = ROOT / "examples" / "backends"
PAGES = {"programs": [], "partitions": [ROOT, EXAMPLES]}
"""What each page needs to run what it has saved, besides PyTorch."""
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
TEXT = re.compile(r"(?<=```text\n)(.*?)(?=```)", re.DOTALL)
SITE = f"{Path(torch.__file__).parent.parent}{os.sep}"


def printed(page: str, folder: Path, needed: list[Path]) -> str:
    """What a page's files print, with paths from the folder and from that of PyTorch on."""
    model, lowering, running = PYTHON.findall(page)
    for name, text in (("model.py", model), ("lowering.py", lowering), ("running.py", running)):
        (folder / name).write_text(text, encoding="utf-8")
    for name, paths in (("lowering.py", [folder, ROOT, EXAMPLES]), ("running.py", [folder, *needed])):
        program = f"import runpy; runpy.run_path({name!r}, run_name='__main__')"
        done = run_fresh(program, folder=folder, paths=paths)
    shown = done.stdout.replace(f"{folder}{os.sep}", "").replace(SITE, "site-packages/")
    return "".join(f"{line.rstrip()}\n" for line in shown.rstrip().splitlines())


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_its_files_print(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / f"{name}.md").read_text("utf-8")
    (shown,) = TEXT.findall(page)
    assert printed(page, tmp_path, PAGES[name]) == shown
