"""The debug handle, or module path, of each bytecode instruction.

- ``mobile_debug_handles.pkl``, PyTorch 1.9 on:
  ``(bytecode version, (method, (("function_debug_handles", ([handle, ...],)),)), ...)``: one debug handle per
  instruction.
- ``mobile_debug.pkl``, 1.7 and 1.8: ``(4, (method, (("module_debug_info", (path, ...)),)), ...)``: one
  module path, ``top(Stack).gate(Gate).forward``, per OP or OPN instruction.

- Written by ``ScriptModuleSerializer::writeByteCode`` (``torch/csrc/jit/serialization/export_module.cpp``);
  the lists come from ``getFunctionTuple`` in the same file.
- Read by ``BytecodeDeserializer::parseMethods`` (``torch/csrc/jit/mobile/import.cpp``): since 1.9 only
  handles, as many as there are instructions; before that only paths, as many as there are operators.

Memo entries: only those of texts and names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.handle_tables import MethodTable
from archive.debuginfo.model import Generation
from archive.formats.record_kinds import METHOD_HANDLES, MODULE_PATHS
from archive.formats.schema.pickled import (
    Const,
    Documented,
    Int,
    IntList,
    Ragged,
    Sequence,
    String,
    Tuple,
    build,
    parse,
)

if TYPE_CHECKING:
    from archive.formats.schema.pickled import Declaration
    from archive.pickles.tree import Tree
    from archive.pickles.write import Receive

METHOD_RECORDS = {Generation.METHOD_HANDLES: METHOD_HANDLES, Generation.MODULE_PATHS: MODULE_PATHS}
"""The record of each layout."""


def _methods(key: str, values: Declaration | Documented) -> Sequence:
    table = Tuple(entry=Tuple(key=Const(key), value=values))
    method = Tuple(method=String() * "its qualified name", table=table * "pairs of key and value: only one")
    return Sequence(method, head=Int())


HANDLES = Tuple(handles=IntList() * "a debug handle for each instruction")
PATHS = Sequence(String())
METHOD_SCHEMAS: dict[Generation, Declaration] = {
    Generation.METHOD_HANDLES: _methods("function_debug_handles", HANDLES),
    Generation.MODULE_PATHS: _methods("module_debug_info", PATHS * "the path of each OP and OPN"),
}


def parse_methods(tree: Tree, pickle: int, generation: Generation) -> MethodTable:
    """The methods of one record of a tree."""
    columns = parse(METHOD_SCHEMAS[generation], tree, np.array([pickle]))
    value = columns.items["table"]["entry"]["value"]
    rows: Ragged = value["handles"] if generation is Generation.METHOD_HANDLES else value
    names = columns.items["method"]
    return MethodTable(generation, tree.strings, int(columns.head[0]), names, rows.first, rows.items)


def method_records(*tables: MethodTable | None) -> dict[str, MethodTable]:
    """The methods of the tables that exist, by the name of their record."""
    return {METHOD_RECORDS[table.generation]: table for table in tables if table is not None}


def build_methods(table: MethodTable, *, receive: Receive | None = None) -> bytes:
    """The record as PyTorch writes it.

    Args:
        receive: takes the bytes, a part at a time; without it they are returned.
    """
    rows = Ragged(table.first, table.value)
    value = {"handles": rows} if table.generation is Generation.METHOD_HANDLES else rows
    fields = {"method": table.name, "table": {"entry": {"key": None, "value": value}}}
    columns = Ragged(np.array([0, len(table)]), fields, np.array([table.version]))
    schema = METHOD_SCHEMAS[table.generation]
    return build(schema, columns, table.strings, receive)
