"""Makes ``fixtures/effects/*.pt`` again: models that change their state, lowered with their effects.

    python -m tools.make_effects

The same bytes each time. The models' sources are compiled under relative names, so that no path gets in.
"""

from __future__ import annotations

import linecache
import types
import warnings
from pathlib import Path
from typing import Any

import torch

from archive.backend import lower, lowered_archive

FOLDER = Path(__file__).parent.parent / "fixtures" / "effects"
NAMES = ("counting", "caching", "toggling", "windowed", "reporting", "recalling", "collecting")


def model(name: str) -> Any:  # noqa: ANN401 (a model whose class is made here)
    """A model, from its source in the fixtures."""
    path = f"models/{name}.py"
    source = (FOLDER / path).read_text("utf-8")
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    module = types.ModuleType(name)
    exec(compile(source, path, "exec"), vars(module))  # noqa: S102 (our own source)
    return getattr(module, name.capitalize())()


def made(name: str) -> bytes:
    """The archive of a model."""
    return lowered_archive(lower(model(name), "aten", effects=True, example_inputs=(torch.ones(2, 3),)))


def main() -> None:
    """Write them."""
    warnings.simplefilter("ignore")
    for name in NAMES:
        (FOLDER / f"{name}.pt").write_bytes(made(name))


if __name__ == "__main__":
    main()
