"""PyTorch 2.13, asked whether it loads an archive."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile


def loads(data: bytes) -> list[str]:
    """What TorchScript and, of archives for it, the lite interpreter fail with."""
    loaders = [torch.jit.load]
    if b"/bytecode.pkl" in data:
        loaders.append(torch.jit.mobile._load_for_lite_interpreter)
    errors = []
    for load in loaders:
        try:
            load(io.BytesIO(data))
        except (RuntimeError, torch.jit.Error) as error:
            errors.append(str(error))
        except UnicodeDecodeError as error:  # the message quotes one byte of a character
            errors.append(error.object.decode(errors="replace"))
    return errors
