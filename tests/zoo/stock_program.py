"""Runs saved modules in a process of stock PyTorch: it imports nothing of this project.

    python stock_program.py PACKAGE FOLDER…

PACKAGE registers operators: torch, or torchvision. A folder has ``inputs.pt``, arguments that work and
arguments to fail with, and ``expected.pt``, the results of the first ones. ``found.json`` then tells for each
file how its results differ from the expected ones, and what ``broken.*``, or the module with the failing
arguments, prints.
"""

from __future__ import annotations

import copy
import json
import sys
import warnings
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.jit.mobile

UNOPTIMIZED = partial(torch.jit.optimized_execution, should_optimize=False)
"""Lets PyTorch run graphs as they are: what it makes of ``addmm`` is its code, without the model's line."""


def plain(value: Any) -> Any:  # noqa: ANN401
    """A result with tuples for named ones, whose classes another process lacks, and lists for deques."""
    if isinstance(value, tuple | list | deque):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    return {key: plain(one) for key, one in value.items()} if isinstance(value, dict) else value


def difference(found: Any, expected: Any) -> str:  # noqa: ANN401
    """Why two results are not the same; "" if they are, to the bit."""
    try:
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    except (AssertionError, TypeError) as error:
        return str(error).splitlines()[0]
    return ""


def loaded(path: Path) -> Any:  # noqa: ANN401
    """A module, in the interpreter that its file is for."""
    if path.suffix == ".ptl":
        return torch.jit.mobile._load_for_lite_interpreter(str(path))
    return torch.jit.load(str(path))


def respond(folder: Path) -> None:
    """Run all files of a folder."""
    inputs, wrong = torch.load(folder / "inputs.pt")
    expected = torch.load(folder / "expected.pt")
    found: dict[str, str] = {}
    for ending in (".pt", ".ptl"):
        try:
            torch.manual_seed(0)
            results = loaded(folder / f"lowered{ending}")(*copy.deepcopy(inputs))
            found[ending] = difference(plain(results), expected)
        except Exception as error:  # noqa: BLE001 (PyTorch's errors have no class in common)
            found[ending] = str(error)
        broken = folder / f"broken{ending}"
        try:
            with UNOPTIMIZED():
                loaded(broken if broken.exists() else folder / f"lowered{ending}")(*wrong)
        except Exception as error:  # noqa: BLE001 (the same)
            found[f"failure{ending}"] = str(error)
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _, package, *folders = sys.argv
    __import__(package)
    with torch.no_grad():
        for one in folders:
            respond(Path(one))
