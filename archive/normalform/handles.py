"""Call-stack maps, and the handles or module paths of instructions, to columns and back.

Handles are sorted. PyTorch writes their rows in hash order, so ``handle.place`` keeps the record's order.
Frames and modules are numbered by the first handle that leads to them, outermost frame first. Frames that
were one object in the pickle stay one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered
from archive.debuginfo.handle_tables import HandleTable, MethodTable
from archive.debuginfo.model import Generation
from archive.formats import callstack_map
from archive.normalform.columns import CALLSTACK_LAYOUTS

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns
    from archive.normalform.pool import Pool


def pack_handles(table: HandleTable, pool: Pool) -> Columns:
    """The columns of a call-stack map."""
    order = np.argsort(table.handle, kind="stable")
    stack = table.stack[order]
    frames = _visited(stack, table.next)
    rank = np.full(len(table.next) + 1, -1, np.int64)
    rank[frames] = np.arange(len(frames))
    module = table.module[frames]
    there = np.flatnonzero(module >= 0)
    number, at = numbered(module[there])
    modules = module[there][at]
    module = np.full(len(frames), -1, np.int64)
    module[there] = number
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return {
        "handle.handle": table.handle[order],
        "handle.tag": table.tag[order],
        "handle.op": pool.add(table.strings, table.op[order]),
        "handle.stack": rank[stack],
        "handle.place": place,
        "frame.next": rank[table.next[frames]],
        "frame.module": module,
        "frame.tag": table.call_tag[frames],
        "frame.function": pool.add(table.strings, table.function[frames]),
        "module.type": pool.add(table.strings, table.module_type[modules]),
        "module.instance": pool.add(table.strings, table.module_instance[modules]),
        "file.callstacks": np.array([CALLSTACK_LAYOUTS.index(callstack_map.generation(table))]),
    }


def _visited(stack: Ints, following: Ints) -> Ints:
    """All frames, in the order in which stacks lead to them.

    Args:
        stack: the first frame of each stack (h).
        following: the frame after each frame (f).

    Returns:
        Frames of any stack, ordered by the first such stack, and within it by depth.
    """
    step = np.append(following, -1)
    never = np.iinfo(np.int64).max
    seen = np.full(len(step), never)
    at, visit, depth = stack, np.arange(len(stack)), 0
    deepest = len(step)  # more than the depth of any frame
    while len(at := at[going := at >= 0]):
        visit = visit[going]
        np.minimum.at(seen, at, visit * deepest + depth)
        at, depth = step[at], depth + 1
    order = np.argsort(seen, kind="stable")
    return order[seen[order] < never]


def unpack_handles(columns: Columns, strings: StringTable) -> HandleTable:
    """The call-stack map from some columns, rows in the record's order."""
    order = columns["handle.place"]
    return HandleTable(
        strings,
        columns["handle.handle"][order],
        columns["handle.tag"][order],
        columns["handle.op"][order],
        columns["handle.stack"][order],
        columns["frame.next"],
        columns["frame.module"],
        columns["frame.tag"],
        columns["frame.function"],
        columns["module.type"],
        columns["module.instance"],
    )


def pack_methods(table: MethodTable, pool: Pool) -> Columns:
    """The columns of the handles of each method's instructions."""
    return {
        "method.name": pool.add(table.strings, table.name),
        "method.instructions": np.diff(table.first),
        "instruction.handle": table.value,
        "file.method_version": np.array([table.version]),
    }


def unpack_methods(columns: Columns, strings: StringTable) -> MethodTable:
    """The handles of each method's instructions, from columns."""
    version, first = int(columns["file.method_version"][0]), firsts(columns["method.instructions"])
    names, handles = columns["method.name"], columns["instruction.handle"]
    return MethodTable(Generation.METHOD_HANDLES, strings, version, names, first, handles)


def pack_paths(table: MethodTable, pool: Pool) -> Columns:
    """The columns of the module paths of each method's operators."""
    return {
        "pathed.name": pool.add(table.strings, table.name),
        "pathed.steps": np.diff(table.first),
        "step.path": pool.add(table.strings, table.value),
        "file.path_version": np.array([table.version]),
    }


def unpack_paths(columns: Columns, strings: StringTable) -> MethodTable:
    """The module paths of each method's operators, from columns."""
    version, first = int(columns["file.path_version"][0]), firsts(columns["pathed.steps"])
    names, paths = columns["pathed.name"], columns["step.path"]
    return MethodTable(Generation.MODULE_PATHS, strings, version, names, first, paths)
