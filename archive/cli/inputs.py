"""What ``--input`` gives a model that a command runs."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from archive.cli import options

TENSOR = re.compile(r"(?P<sizes>\d+(?:x\d+)*)?:(?P<type>\w+)|(?P<floats>\d+(?:x\d+)+)")
"""A tensor by its sizes and type: ``1x3x32x32``, ``16:int64``, ``:float32`` for a single number."""


def input_value(text: str) -> Any:  # noqa: ANN401 (any argument)
    """An argument: a tensor by sizes and type, or a value as JSON."""
    match = TENSOR.fullmatch(text)
    if match:
        with options.importing_pytorch("--input"):
            from archive.backend.stock.running import example_tensor  # noqa: PLC0415 (imports PyTorch)
        sizes = [int(size) for size in (match["sizes"] or match["floats"] or "").split("x") if size]
        try:
            return example_tensor(sizes, match["type"] or "float32")
        except (ValueError, RuntimeError) as error:
            raise click.BadParameter(f"--input {text}: {error}") from None
    try:
        return json.loads(text)
    except ValueError:
        raise click.BadParameter(
            f"--input {text}: expected sizes like 1x3x32x32, sizes and type like 16:int64, or JSON"
        ) from None
