"""Facts about exported programs → text for a terminal."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.report.fitted_table import FittedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.rewrite.programs import MethodFacts, ProgramFacts

MOST_METHODS = 1000
"""Methods in a table."""
NUMBERS = ("nodes", "subgraphs", "traced", "modules", "metadata bytes")


def programs_table(programs: Mapping[str, ProgramFacts]) -> FittedTable:
    """A table of programs, a row each."""
    table = FittedTable([("program", "name"), ("PyTorch", "text"), *((name, "number") for name in NUMBERS)])
    for name, one in programs.items():
        numbers = (one.nodes, one.graphs, one.traced, one.modules, one.metadata_bytes)
        table.add(one_line(name), one_line(one.release), *(f"{number:,}" for number in numbers))
    return table


def methods_table(methods: Mapping[str, MethodFacts]) -> FittedTable:
    """A table of an ETRecord's methods, a row each; of many methods, the first."""
    table = FittedTable(
        [("method", "name"), ("instructions", "number"), ("debug handles", "number"), ("backends", "text")]
    )
    for name, one in islice(methods.items(), MOST_METHODS):
        backends = ", ".join(f"{one_line(backend)} {count:,}" for backend, count in one.backends.items())
        table.add(one_line(name), f"{one.instructions:,}", f"{one.handles:,}", backends)
    if len(methods) > MOST_METHODS:
        rest = [*methods.values()][MOST_METHODS:]
        sums = sum(one.instructions for one in rest), sum(one.handles for one in rest)
        table.add(f"[{len(rest):,} more methods]", *(f"{number:,}" for number in sums), "")
    return table
