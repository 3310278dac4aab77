"""The nodes of programs that a backend runs, by the debug handles that errors of its partitions name.

:mod:`archive.backend.programs` counts handles from 0 in each program: each node of a partition takes one, and
so does each result of a node that makes several. Without metadata, a file shows its partitions only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from archive.formats.exported.sites import named_values
from archive.reader.lookups.nodes import DELEGATE, ProgramNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.formats.exported.program import Program
    from archive.reader.archive import Archive


def lowered_nodes(opened: Archive) -> Mapping[str, Sequence[ProgramNode]]:
    """The nodes by handle, in decimal digits; none of an ETRecord, whose handles are ExecuTorch's."""
    found: defaultdict[str, list[ProgramNode]] = defaultdict(list)
    if not opened.instructions and opened.programs.may_call(DELEGATE):
        for program in opened.programs.values():
            for site in program.sites.values():
                if site.handle is not None:
                    found[site.handle].append(ProgramNode(program, site))
    return dict(found)


def possible_handles(opened: Archive) -> Iterable[int]:
    """The handles that errors of partitions may name: those of nodes; without metadata, any that they had."""
    known = lowered_nodes(opened)
    if known or opened.instructions or not opened.programs.may_call(DELEGATE):
        return map(int, known)
    return range(max(map(_most_handles, opened.programs.values())))


def _most_handles(program: Program) -> int:
    """How many handles the partitions of a program have at most."""
    sites = program.sites
    inside = (site for site in sites.values() if site.scopes and sites[site.holder].target == DELEGATE)
    return sum(1 + len(named_values((site.record or {}).get("outputs"))) for site in inside)
