"""Runs saved modules with state, whose graphs run in stock PyTorch's interpreters, in a process of their own.

    python -m tests.zoo.state_program FOLDER…

A folder has ``inputs.pt``, the arguments of several calls and arguments to fail with, and ``expected.pt``,
the results of the calls and what is in the state then. ``found.json`` is as in ``stock_program``.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import torch

from archive.backend import Effectful
from tests.zoo.stock_program import difference, plain


def respond(folder: Path) -> None:
    """Run all files of a folder."""
    calls, wrong = torch.load(folder / "inputs.pt")
    expected = torch.load(folder / "expected.pt")
    found: dict[str, str] = {}
    for ending in (".pt", ".ptl"):
        model = Effectful.load(folder / f"lowered{ending}", stock=True)
        try:
            results = [model(*call) for call in calls]
            state = {name: getattr(model.state.module, name) for name in expected[1]}
            found[ending] = difference((results, plain(state)), expected)
            found[f"failure{ending}"] = ""
            model(*wrong)
        except Exception as error:  # noqa: BLE001 (whatever a model raises)
            found[f"failure{ending}" if ending in found else ending] = str(error)
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with torch.no_grad():
        for one in sys.argv[1:]:
            respond(Path(one))
