"""The debug handles of one failure → the nodes that they stand for, and why some have no source.

A handle is TorchScript's, or that of a node in a program which was lowered in parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.reader.lacking import why_no_traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.reader.archive import Archive
    from archive.reader.lookups.kernels import CalledKernel
    from archive.reader.lookups.nodes import ProgramNode


def lowered_sources(opened: Archive, chains: Iterable[Sequence[int]]) -> list[list[ProgramNode]] | None:
    """The nodes of each failure's handles; None of an archive whose handles aren't nodes'."""
    if not opened.programs:
        return None
    from archive.reader.lookups.lowered import lowered_nodes  # noqa: PLC0415 (not for TorchScript)

    known = lowered_nodes(opened)
    return [list(known.get(",".join(map(str, chain)), ())) for chain in chains] if known else None


def why_untraced(opened: Archive, sources: Iterable[ProgramNode | CalledKernel]) -> list[str]:
    """Words for each node and kernel without source."""
    untraced = [source.label for source in sources if not source.is_traced]
    why = why_no_traces(opened) if untraced else ""
    return [f"no source is recorded for {label}{why and f': {why}'}" for label in untraced]
