"""``callstack_debug_map.pkl``: the operation of each debug handle, and the calls that lead to it.

- Written by ``torch/csrc/jit/serialization/callstack_debug_info_serialization.cpp``,
  ``CallStackDebugInfoPickler::pickle`` and ``InlinedCallStackSerializer::serialize``.
- Read by ``CallStackDebugInfoUnpickler::unpickle`` in the same file, for ``MobileDebugTable``
  (``torch/csrc/jit/mobile/debug_info.cpp``). It refuses rows whose length is not its own release's, duplicate
  handles, and tags that no source range has.

Two layouts are on disk:

- 4 elements, PyTorch 1.10 on: ``((handle, tag, op name, stack or None), ...)``
- 3 elements, 1.9.0 only: ``((handle, tag, stack or None), ...)``

A stack is ``(module or None, tag, stack or None, function name)``, in 1.9.0 without the name. A module is
``(class, instance)``. Stacks go from the outermost call inwards: a stack's tag is that of the call's range in
the caller, its third element is one call deeper, and the row's tag is that of the operation's own range. Tag
-1 is legal inside stacks (frozen models). PyTorch writes ``FunctionName_UNKNOWN`` for a function name that it
does not know. Rows are in the order of PyTorch's hash map, which is kept.

Memo entries: each stack and each module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.debuginfo.handle_tables import HandleTable
from archive.debuginfo.model import Generation
from archive.formats.schema.pickled import (
    Chain,
    Indexed,
    Int,
    Links,
    NextInChain,
    Optional,
    Ragged,
    Sequence,
    Shared,
    String,
    Tuple,
    build,
    first_item,
    parse,
)
from archive.formats.schema.pickled.core import NUMBER_WIDTH

if TYPE_CHECKING:
    from archive.formats.schema.pickled import Declaration
    from archive.pickles.tree import Tree
    from archive.pickles.write import Receive

MODULE = Optional(Shared(Tuple(type=String() * "its class", instance=String() * "its name in its module")))
CALL = {
    "module": MODULE * "whose method is called (ModuleInstanceInfo)",
    "tag": Int(low=-1) * "of the call's range in the caller (source_range_tag); -1 in frozen models",
    "inner": NextInChain() * "one call deeper (callee)",
}
STACK_3 = Optional(Chain(Tuple(**CALL), link="inner"))
STACK_4 = Optional(Chain(Tuple(**CALL, function=String() * "the method's name"), link="inner"))
ROW = {
    "handle": Int() * "by which bytecode and backends name the operation (debug_handle)",
    "tag": Int() * "of the operation's own range (source_range_tag)",
}
STACK = "the calls that lead to the operation, from the outermost inwards (InlinedCallStack)"

CALLSTACK_SCHEMAS: dict[Generation, Declaration] = {
    Generation.CALLSTACK_3: Sequence(Tuple(**ROW, stack=STACK_3 * STACK)),
    Generation.CALLSTACK_4: Sequence(
        Tuple(**ROW, op=String() * "the operator, aten::mul (the node's name)", stack=STACK_4 * STACK)
    ),
}


def generation_of(tree: Tree, root: int) -> Generation:
    """The layout, by the first row's length; a map without rows counts as the newer one."""
    row = first_item(tree, root)
    three = row is not None and len(tree.parts(row)) == 3  # noqa: PLR2004 (elements)
    return Generation.CALLSTACK_3 if three else Generation.CALLSTACK_4


def generation(table: HandleTable) -> Generation:
    """The layout that a table was read from."""
    return Generation.CALLSTACK_3 if len(table) and (table.op < 0).all() else Generation.CALLSTACK_4


def parse_callstack_map(tree: Tree, pickle: int) -> HandleTable:
    """The handles of one record of a tree."""
    layout = CALLSTACK_SCHEMAS[generation_of(tree, int(tree.roots[pickle]))]
    fields = parse(layout, tree, np.array([pickle])).items
    stack: Links = fields["stack"]
    frames = stack.items
    memory.take(NUMBER_WIDTH * (len(stack.index) + len(stack.next)), "columns")
    nothing = np.full(len(stack.next), -1, np.int64)
    return HandleTable(
        tree.strings,
        fields["handle"],
        fields["tag"],
        fields.get("op", np.full(len(stack.index), -1, np.int64)),
        stack.index,
        stack.next,
        frames["module"].index,
        frames["tag"],
        frames.get("function", nothing),
        frames["module"].items["type"],
        frames["module"].items["instance"],
    )


def build_callstack_map(
    table: HandleTable,
    generation: Generation,
    *,
    receive: Receive | None = None,
) -> bytes:
    """The record as PyTorch writes it.

    Args:
        receive: takes the bytes, a part at a time; without it they are returned.
    """
    modules = {"type": table.module_type, "instance": table.module_instance}
    frames = {"module": Indexed(table.module, modules), "tag": table.call_tag, "function": table.function}
    columns: dict[str, Any] = {
        "handle": table.handle,
        "tag": table.tag,
        "op": table.op,
        "stack": Links(table.stack, table.next, frames),
    }
    rows = Ragged(np.array([0, len(table)]), columns)
    return build(CALLSTACK_SCHEMAS[generation], rows, table.strings, receive)
