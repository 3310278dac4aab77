"""Makes ``fixtures/refused/naming.ptl`` again: an archive that PyTorch 2.13 writes, and then refuses to load.

    python -m tools.make_refused

The same bytes each time. The model's source is compiled under a relative name, so that no path gets in.
"""

from __future__ import annotations

import linecache
import types
import warnings
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent.parent / "fixtures" / "refused"
NAME = "models/naming.py"


def naming() -> Any:  # noqa: ANN401 (a model whose class is made here)
    """The model, from the source in the fixtures."""
    source = (FOLDER / NAME).read_text("utf-8")
    linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
    module = types.ModuleType("naming")
    exec(compile(source, NAME, "exec"), vars(module))  # noqa: S102 (our own source)
    return module.Naming()


def main() -> None:
    """Write it."""
    warnings.simplefilter("ignore")
    scripted = torch.jit.script(naming())
    scripted._save_for_lite_interpreter(str(FOLDER / "naming.ptl"), _save_mobile_debug_info=True)


if __name__ == "__main__":
    main()
