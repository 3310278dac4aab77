"""Rules for ETRecords of ExecuTorch.

- Each program can be read, and each of its nodes be named; texts of metadata are laid out as PyTorch writes
  them: notes.
- Maps of instructions can be read, and each handle in them is that of a node of the method's program: else a
  failing instruction leads to nothing.

What ExecuTorch checks when it reads a program is not checked: it has a schema of its own, and operators.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from archive.base.errors import shown
from archive.check.programs import note_layouts
from archive.formats.etrecord import DELEGATES, HANDLES, OUTPUTS, edge_program, node_handles

if TYPE_CHECKING:
    from archive.check.diagnostic import Diagnostics
    from archive.formats.exported.sites import NodeSite
    from archive.reader.archive import Archive


def check_etrecord(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check an ETRecord.

    Args:
        archive: the archive.
        readable: the records that can be read.
        report: takes the diagnostics.
    """
    sites = {}
    for name, record in archive.programs.records.items():
        found = report.attempt(record, partial(_sites, archive, name)) if record in readable else None
        if found is not None:
            sites[name] = found
            note_layouts(record, [(site.key, site.metadata) for site in found], report)
    broken = {HANDLES, DELEGATES, OUTPUTS} & (archive.records.keys() - readable)
    methods = None if broken else report.attempt("", lambda: archive.instructions)
    for method, instructions in (methods or {}).items():
        program = edge_program(method, sites)
        if program is None:
            report.add("warning", HANDLES, method, "no program that can be read has the nodes of its handles")
            continue
        known = {handle for site in sites[program] for handle in node_handles(site.metadata)}
        lost = [number for number, one in instructions.items() if not known.issuperset(one.handles)]
        report.add_each(
            "warning",
            HANDLES,
            "handles of no node",
            lost,
            partial(_lost, method, {number: instructions[number].handles for number in lost}, program),
        )


def _sites(archive: Archive, name: str) -> list[NodeSite]:
    return list(archive.programs[name].sites.values())


def _lost(method: str, handles: dict[int, tuple[int, ...]], program: str, number: int) -> tuple[str, str]:
    return f"{method}.{number}", f"expected handles of nodes of {program}, found {shown(handles[number])}"
