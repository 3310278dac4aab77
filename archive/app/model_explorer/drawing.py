"""An archive → the graphs of its methods or programs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from archive.app.model_explorer.code_flow import add_code
from archive.app.model_explorer.graph import OperatorGraph
from archive.app.model_explorer.lite_flow import add_lite
from archive.app.model_explorer.program_flow import program_graph
from archive.base.errors import ArchiveError
from archive.formats.record_kinds import BYTECODE, code_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.reader.archive import Archive

STATE = ("__getstate__", "__setstate__")
"""Methods by which a module is saved and loaded, which are no part of what it computes."""


def graphs_of(opened: Archive) -> list[OperatorGraph]:
    """A graph for each program, or for each method of the top module that calls operators.

    Raises:
        ArchiveError: there is none.
    """
    if opened.programs:
        made = [program_graph(opened.programs[name]) for name in opened.programs]
    elif BYTECODE in opened.records and opened.methods:
        begins = f"{opened.qualified_top}."
        made = []
        for name in opened.methods:
            if name.startswith(begins) and name.removeprefix(begins) not in STATE:
                made.append(OperatorGraph(name.removeprefix(begins)))
                add_lite(made[-1], opened, made[-1].name)
    else:
        made = []
        for method in _methods(opened):
            made.append(OperatorGraph(method))
            add_code(made[-1], opened, method)
    drawn = [graph for graph in made if graph.nodes]
    if not drawn:
        raise ArchiveError("has no program, and no method, of which a graph can be drawn", file=opened.file)
    return drawn


def _methods(opened: Archive) -> Iterator[str]:
    """The methods of the top module in generated code; ``forward`` first, if there is one."""
    record = code_record(opened.qualified_top.rpartition(".")[0])
    if record not in opened.records:
        return
    try:
        tree = ast.parse(bytes(opened.records[record].view()))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    name = opened.qualified_top.rpartition(".")[2]
    methods = [
        part.name
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name == name
        for part in each.body
        if isinstance(part, ast.FunctionDef) and part.name not in STATE
    ]
    yield from sorted(methods, key=lambda method: method != "forward")
