"""Facts about exported programs → text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.report.fitted_table import FittedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.verbs.programs import MethodFacts, ProgramFacts

NUMBERS = ("nodes", "subgraphs", "traced", "modules", "metadata bytes")


def programs_table(programs: Mapping[str, ProgramFacts]) -> FittedTable:
    """A table of programs, a row each."""
    table = FittedTable([("program", "name"), ("PyTorch", "text"), *((name, "number") for name in NUMBERS)])
    for name, one in programs.items():
        numbers = (one.nodes, one.graphs, one.traced, one.modules, one.metadata_bytes)
        table.add(one_line(name), one_line(one.release), *(f"{number:,}" for number in numbers))
    return table


def methods_table(methods: Mapping[str, MethodFacts]) -> FittedTable:
    """A table of an ETRecord's methods, a row each."""
    table = FittedTable(
        [("method", "name"), ("instructions", "number"), ("debug handles", "number"), ("backends", "text")]
    )
    for name, one in methods.items():
        backends = ", ".join(f"{one_line(backend)} {count:,}" for backend, count in one.backends.items())
        table.add(one_line(name), f"{one.instructions:,}", f"{one.handles:,}", backends)
    return table
