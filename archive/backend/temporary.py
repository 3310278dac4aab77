"""Archives that PyTorch writes for a moment. In memory, each would cost twice the model's size."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "archive"
"""The name that PyTorch gives to archives in memory; that of a file is part of its records' names."""


@contextmanager
def temporary_archive(module: torch.jit.ScriptModule, *, lite: bool = False) -> Iterator[Path]:
    """The archive of a module as PyTorch writes it, in the folder for temporary files.

    Args:
        module: the module.
        lite: write it for the lite interpreter.

    Raises:
        RuntimeError: PyTorch cannot write it.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        if lite:
            module._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
        else:
            torch.jit.save(module, path)
        yield path
