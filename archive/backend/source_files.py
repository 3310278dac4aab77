"""Whose source a line of code is: the model's own, PyTorch's, or generated."""

from __future__ import annotations

import re

GENERATED_FILE = "<string>"
"""The filename that PyTorch records for source that was compiled from a string."""
PYTORCH_FILE = re.compile(r"(?:^|[/\\])torch[/\\](?:nn|ao|jit|functional|_)")
"""Matches inside filenames of PyTorch's own Python code: ``…/torch/nn/functional.py``."""


def is_pytorchs(filename: str) -> bool:
    """Whether a source file is part of PyTorch."""
    return PYTORCH_FILE.search(filename) is not None
