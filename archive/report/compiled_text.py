"""Facts about compiled models → text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.report.fitted_table import FittedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.rewrite.compiled import CompiledFacts

NUMBERS = ("kernels", "traced", "C++ code", "shared object", "mapped")


def compiled_table(models: Mapping[str, CompiledFacts]) -> FittedTable:
    """A table of compiled models, a row each; the last three columns are bytes."""
    table = FittedTable(
        [("compiled model", "name"), ("for", "text"), *((name, "number") for name in NUMBERS)]
    )
    for name, one in models.items():
        counts = (one.kernels, one.traced) if one.has_kernels else (None, None)
        numbers = (*counts, one.code_bytes, one.object_bytes, one.mapped_bytes)
        texts = ("" if number is None else f"{number:,}" for number in numbers)
        table.add(one_line(name), one_line(one.target), *texts)
    return table
