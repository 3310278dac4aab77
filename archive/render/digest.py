"""Digests of the parts of a file → a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.render.fitted_table import FittedTable

if TYPE_CHECKING:
    from collections.abc import Mapping


def parts_table(parts: Mapping[str, str]) -> FittedTable:
    """The digest of each part, whole at any width."""
    table = FittedTable.of("part", "digest")
    for part, digest in parts.items():
        table.add(part, digest)
    return table
