"""The debug handles of one failure → their source in a model, or the reason why there is none.

A handle is TorchScript's, or that of a node in a program which was lowered in parts. The command and the
server both ask here, so that they say the same of every file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import several
from archive.reader.lacking import why_no_handles, why_no_traces
from archive.reader.lookups.nodes import ProgramNode, why_unknown
from archive.render.symbolicate import node_facts, symbolication_facts
from archive.render.texts import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.debuginfo.symbolicate import Style
    from archive.reader.archive import Archive
    from archive.reader.lookups.kernels import CalledKernel
    from archive.render.symbolicate import HandlesAnswer


def handle_facts(opened: Archive, handles: Sequence[int], style: Style, name: str) -> HandlesAnswer:
    """The source of the handles of one failure, inner ones first; notes call the model by a name."""
    lowered = lowered_sources(opened, [handles])
    if lowered is None:
        symbolication = opened.symbolicate(handles, style)
        missing = symbolication.missing
        notes = [f"{name} {why_missing(opened, missing)}"] if missing else []
        return {**symbolication_facts(symbolication), "notes": notes}
    word, (nodes,) = ",".join(map(str, handles)), lowered
    lost = why_untraced(opened, nodes) if nodes else [why_unknown(opened.programs, word)]
    return {
        "handles": handles,
        "found": bool(nodes) and not lost,
        "text": "\n".join(node.text for node in nodes),
        "symbolications": [node_facts(word, node) for node in nodes],
        "notes": [f"{name}: {why}" for why in lost],
    }


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


def why_missing(opened: Archive, missing: Sequence[int]) -> str:
    """The reason why handles of TorchScript are unknown, which goes after the file's name."""
    if opened.handles:
        named = (opened.handle_form.foreign(str(handle)) for handle in missing)
        has = next(filter(None, named), "") or f"it has {runs(list(opened.handles))}"
        return f"has no debug handle {', '.join(map(str, missing))}; {has}"
    return (
        _of_instructions(opened, missing[0])
        if opened.instructions
        else f"has no debug handles: {why_no_handles(opened)}"
    )


def _of_instructions(opened: Archive, handle: int) -> str:
    """The debug handles of an ETRecord's instructions, in words, and which instructions have one of them."""
    every = {
        f"{method}/0:{number}": instruction
        for method, instructions in opened.instructions.items()
        for number, instruction in instructions.items()
    }
    own = [
        name
        for name, instruction in every.items()
        if handle in instruction.handles
        or (instruction.delegate and str(handle) in instruction.delegate.events)
    ]
    handles = runs([handle for instruction in every.values() for handle in instruction.handles])
    if own:
        return f"has the debug handle {handle} in {several(own)}: give an instruction in its place"
    example = next(iter(every))
    return (
        f"has no debug handle {handle}: its instructions have {handles or 'none'}; give one, like {example}"
    )
