"""Nodes of exported programs, for ``debug-archive symbolicate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import archive
from archive.cli import printing
from archive.cli.status import Status
from archive.verbs.nodes import found_nodes, why_unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Limits
    from archive.verbs.nodes import Node


def print_nodes(
    file: str, companion: str | None, names: Sequence[str], limits: Limits, *, mapped: bool, as_json: bool
) -> Status:
    """Print the source of nodes; the status says whether some have none.

    Args:
        file: the exported program, or its companion.
        companion: its companion, if its metadata was split off.
        names: of nodes.
        limits: what the file may cost.
        mapped: whether it is mapped.
        as_json: print facts.
    """
    with archive.open(file, companion=companion, limits=limits, mapped=mapped) as opened:
        found = {name: found_nodes(opened.programs, name) for name in names}
        lost = [f"{file}: {why_unknown(opened.programs, name)}" for name, nodes in found.items() if not nodes]
    if as_json:
        printing.write_json(
            {"nodes": [_facts(name, node) for name, nodes in found.items() for node in nodes]}
        )
    else:
        _print_text(found)
    lost += [
        f"{file}: no source is recorded for {node.label}"
        for nodes in found.values()
        for node in nodes
        if node.site.trace is None
    ]
    for note in lost:
        printing.note(note)
    return Status.FINDINGS if lost else Status.WELL


def _facts(name: str, node: Node) -> dict[str, object]:
    site = node.site
    return {
        "asked": name,
        "program": node.program.name,
        "node": site.key,
        "target": site.target,
        "hierarchy": node.hierarchy,
        "modules": [{"path": one.path, "class": one.class_name} for one in site.modules],
        "frames": [frame._asdict() for frame in site.frames.frames] if site.frames else [],
        "trace": site.trace,
    }


def _print_text(found: dict[str, list[Node]]) -> None:
    """Print each source; below a title, and with an empty line behind it, if there are several."""
    nodes = [node for some in found.values() for node in some]
    for node in nodes:
        title = f"node {node.label}:\n" if len(nodes) > 1 else ""
        end = "\n" * (len(nodes) > 1)
        printing.write(f"{title}{node.text.removesuffix(chr(10))}\n{end}".encode("utf-8", "surrogatepass"))
