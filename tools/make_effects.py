"""Makes ``fixtures/effects/counting.pt`` again: a model that changes its state, lowered with its effects.

    python -m tools.make_effects

The same bytes each time. The model's source is compiled under a relative name, so that no path gets in.
The first archive of each version of the effects is also frozen in a folder of that version, never made again.
"""

from __future__ import annotations

import linecache
import types
import warnings
from pathlib import Path
from typing import Any

import torch

from archive.backend import lower, lowered_archive
from archive.formats.effects.record import VERSIONS

FOLDER = Path(__file__).parent.parent / "fixtures" / "effects"
NAME = "models/counting.py"


def counting() -> Any:  # noqa: ANN401 (a model whose class is made here)
    """The model, from the source in the fixtures."""
    source = (FOLDER / NAME).read_text("utf-8")
    linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
    module = types.ModuleType("counting")
    exec(compile(source, NAME, "exec"), vars(module))  # noqa: S102 (our own source)
    return module.Counting()


def made() -> bytes:
    """The archive."""
    return lowered_archive(lower(counting(), "aten", effects=True, example_inputs=(torch.ones(2, 3),)))


def main() -> None:
    """Write it, and freeze it if it is the first of its version."""
    warnings.simplefilter("ignore")
    archive = made()
    (FOLDER / "counting.pt").write_bytes(archive)
    frozen = FOLDER / f"v{VERSIONS[-1]}"
    if not frozen.exists():
        frozen.mkdir()
        (frozen / "counting.pt").write_bytes(archive)


if __name__ == "__main__":
    main()
