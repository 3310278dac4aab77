"""``debug-archive symbolicate``: nodes of programs, kernels of compiled models, instructions of ETRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING

import archive
from archive.base.errors import ArchiveError, shown
from archive.cli import printing
from archive.cli.status import Cause
from archive.io.urls import name_of
from archive.reader.lookups import kernels, nodes
from archive.reader.lookups.handles import why_untraced
from archive.reader.recognition import FileKind
from archive.render.symbolicate import instruction_facts, kernel_facts, node_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Archive
    from archive.cli.asked import Asked
    from archive.cli.status import ExitStatus
    from archive.reader.lookups.instructions import MethodInstruction
    from archive.reader.lookups.kernels import CalledKernel
    from archive.reader.lookups.nodes import ProgramNode
    from archive.reader.lookups.own_program import OwnProgram
    from archive.render.symbolicate import NamedSources


def print_nodes(asked: Asked) -> ExitStatus:
    """Print the source of nodes, kernels and instructions; the status says whether some have none."""
    with asked.opened() as opened:
        return print_nodes_of(opened, asked)


def print_nodes_of(opened: Archive, asked: Asked) -> ExitStatus:
    """The same of a file that is open, which may be one of several."""
    file, names = opened.file, asked.wanted
    own = None if asked.program is None else _own(opened, asked.program, asked)
    places = _places(opened, names)
    if own is not None:
        places = {name: [*map(own.narrowed, some)] for name, some in places.items()}
    sources = {name: _sources(opened, name, places) for name in names}
    every = [(name, source) for name, some in sources.items() for source in some]
    lost = [f"{file}: {_why_unknown(opened, name, places)}" for name in names if not sources[name]]
    lost += [f"{file}: {why}" for why in why_untraced(opened, (source for _, source in every))]
    if asked.as_json:
        facts: NamedSources = {
            "file": name_of(file),
            "symbolications": [
                node_facts(name, node) for name, node in every if isinstance(node, nodes.ProgramNode)
            ],
        }
        if opened.compiled:
            facts["kernels"] = [
                kernel_facts(name, kernel)
                for name, kernel in every
                if isinstance(kernel, kernels.CalledKernel)
            ]
        if places:
            facts["instructions"] = [
                instruction_facts(name, place) for name, some in places.items() for place in some
            ]
        printing.write_document(facts)
    else:
        for _, source in every:  # several get a title and a following empty line each
            is_titled = len(every) > 1 and isinstance(source, nodes.ProgramNode)
            title, end = f"node {source.label}:\n" * is_titled, "\n" * (len(every) > 1)
            text = f"{title}{source.text.removesuffix(chr(10))}\n{end}"
            printing.write(text.encode("utf-8", "surrogatepass"))
    for place in {
        instruction.label: instruction for some in places.values() for instruction in some
    }.values():
        if place.nodes and place.instruction.delegate:
            printing.note(f"{file}: {place.of_backend}")
    for note in lost:
        printing.note(note)
    return Cause.UNKNOWN.when(lost)


def _own(opened: Archive, path: str, asked: Asked) -> OwnProgram:
    """The program that an ETRecord was made with."""
    from archive.reader.lookups.own_program import check_own  # noqa: PLC0415 (only with a program)

    if not opened.instructions:
        raise ArchiveError("--program is for an ETRecord with debug handles", file=opened.file)
    with archive.open(path, limits=asked.limits, mapped=asked.mapped, kinds={FileKind.EXECUTORCH}) as program:
        return check_own(opened, program)


def _places(opened: Archive, names: Sequence[str]) -> dict[str, list[MethodInstruction]]:
    """The instructions that names stand for; other names are left out."""
    if not opened.instructions:
        return {}
    from archive.reader.lookups.instructions import InstructionNodes, is_instruction  # noqa: PLC0415 (few files have some)

    places = InstructionNodes(opened)
    return {name: places.named(name) for name in names if is_instruction(name)}


def _sources(
    opened: Archive, name: str, places: dict[str, list[MethodInstruction]]
) -> list[ProgramNode | CalledKernel]:
    if name in places:
        return list(dict.fromkeys(node for place in places[name] for node in place.nodes))
    if opened.instructions:
        from archive.reader.lookups.instructions import Regions  # noqa: PLC0415 (few files have some)

        return [*map(Regions(opened).sourced, nodes.found_nodes(opened.programs, name))]
    return [*nodes.found_nodes(opened.programs, name), *kernels.found_kernels(opened.compiled, name)]


def _why_unknown(opened: Archive, name: str, places: dict[str, list[MethodInstruction]]) -> str:
    """Words for a name that nothing has."""
    if name in places:
        from archive.reader.lookups.instructions import why_no_nodes  # noqa: PLC0415 (only then needed)

        return why_no_nodes(opened, name, places[name])
    from archive.reader.lookups.instructions import is_instruction  # noqa: PLC0415 (the same)

    if not opened.has_code and is_instruction(name):
        return f"instruction {shown(name)} is of an ETRecord; give that, and its companion with -c"
    words = [nodes.why_unknown(opened.programs, name)] if opened.programs or not opened.compiled else []
    return "; ".join(words + ([kernels.why_unknown(opened.compiled, name)] if opened.compiled else []))
