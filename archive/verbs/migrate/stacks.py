"""Call stacks, handles and module paths, carried over as far as a release has a place for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.model import Generation, Layout
from archive.formats.source_ranges import DELEGATED
from archive.normalform.records import GENERATIONS
from archive.verbs.migrate import ranges
from archive.verbs.migrate.instructions import (
    UNKNOWN,
    completed,
    reduced,
    with_handles,
    with_paths,
    without,
)
from archive.verbs.migrate.plan import Step

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.formats.releases import Release
    from archive.normalform.pool import Pool
    from archive.verbs.migrate.instructions import Code
    from archive.verbs.migrate.plan import Plan

    Columns = dict[str, Ints]

PATHS_NAME_FUNCTIONS = (1, 8)
MAPS = ("handle.", "frame.", "module.", "file.callstacks")
HANDLES = ("method.", "instruction.", "file.method_version")
PATHS = ("pathed.", "step.", "file.path_version")


def carried_over(columns: Columns, pool: Pool, code: Code | None, plan: Plan, release: Release) -> Columns:
    """The columns as a release has them; what is done is added to the plan.

    Args:
        columns: of :mod:`archive.companion`.
        pool: the strings.
        code: what is known of the bytecode, if there is any.
        plan: with the release as its target.
        release: what the target writes.
    """
    if release.callstacks is None:
        columns = _without_delegated(columns, pool, plan)
        if "handle.handle" in columns:
            what = "source ranges and call stacks of debug handles"
            plan.losses.append(Step(what, len(columns["handle.handle"])))
        elif "method.name" in columns:
            plan.losses.append(Step("debug handles of instructions", len(columns["instruction.handle"])))
        if release.instructions is Generation.MODULE_PATHS:
            columns = _pathed(columns, pool, code, plan)
        elif "pathed.name" in columns:
            columns = _without_paths(columns, plan)
        return without(columns, *MAPS, *HANDLES)
    recorded = "handle.op" in columns
    if "pathed.name" in columns:
        columns = _handled(columns, pool, code, plan)
    if "handle.handle" in columns:
        columns = _with_elements(columns, pool, code, plan, release, recorded=recorded)
    if "method.name" in columns and release.delegated:
        columns = ranges.with_delegated(columns, pool)
        if release.ranges is Layout.STRING_TABLE:
            columns = ranges.relaid(columns, release.ranges)
    return columns


def _without_delegated(columns: Columns, pool: Pool, plan: Plan) -> Columns:
    at = np.flatnonzero(columns["record.name"] == pool.number(DELEGATED.encode()))
    if not len(at):
        return columns
    number = int(at[0])
    rows = int(columns["record.rows"][number])
    if rows:
        plan.losses.append(Step("source ranges of lowered modules", rows))
    return ranges.without_record(columns, number)


def _without_paths(columns: Columns, plan: Plan) -> Columns:
    plan.losses.append(Step("module paths of operators", len(columns["step.path"])))
    return without(columns, *PATHS)


def _pathed(columns: Columns, pool: Pool, code: Code | None, plan: Plan) -> Columns:
    """Module paths, made from call stacks where there are none."""
    both = "method.name" in columns and "handle.handle" in columns
    if not both or "pathed.name" in columns or code is None:
        return columns
    number = plan.target.number
    columns = with_paths(columns, pool, code, functions=number is not None and number >= PATHS_NAME_FUNCTIONS)
    plan.changes.append(Step("module paths from call stacks", len(columns["step.path"])))
    return columns


def _handled(columns: Columns, pool: Pool, code: Code | None, plan: Plan) -> Columns:
    """Handles and call stacks, made from module paths where there are none."""
    tag = ranges.null_tag(columns)
    if code is None or tag is None or "method.name" in columns or "handle.handle" in columns:
        return _without_paths(columns, plan)
    columns = with_handles(columns, pool, code, tag)
    plan.changes.append(Step("handles and call stacks from module paths", len(columns["handle.handle"])))
    plan.remarks.append(
        "module paths tell no source lines, and not every function's name: failures will name modules and "
        "operators alone"
    )
    return columns


def _with_elements(
    columns: Columns, pool: Pool, code: Code | None, plan: Plan, release: Release, *, recorded: bool
) -> Columns:
    """A call-stack map with as many elements as the release has.

    Operators that were not ``recorded`` in it are still told by the bytecode, and not lost.
    """
    rows = len(columns["handle.handle"])
    three = GENERATIONS[int(columns["file.callstacks"][0])] is Generation.CALLSTACK_3
    if three and release.callstacks is Generation.CALLSTACK_4:
        plan.rescues.append(Step("call-stack map completed, 3 to 4 elements, rows", rows))
        return completed(columns, pool, code)
    if three or release.callstacks is Generation.CALLSTACK_4:
        return columns
    strings = np.array(pool.strings(), dtype=object)
    for name, unknown, what in (
        ("handle.op", b"", "names of operators"),
        ("frame.function", UNKNOWN, "names of functions"),
    ):
        count = int((strings[columns[name]] != unknown).sum())
        if count and (recorded or name != "handle.op"):
            plan.losses.append(Step(what, count))
    if recorded:
        plan.changes.append(Step("call-stack map, 4 to 3 elements, rows", rows))
    return reduced(columns)
