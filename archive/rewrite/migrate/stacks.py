"""Call stacks, handles and module paths, as far as the target has a place for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.model import Generation, Layout
from archive.formats.source_ranges import DELEGATED
from archive.normalform.columns import CALLSTACK_LAYOUTS
from archive.rewrite.migrate import ranges
from archive.rewrite.migrate.instructions import UNKNOWN_FUNCTION, to_four_elements, to_three_elements
from archive.rewrite.migrate.paths import to_handles, to_paths
from archive.rewrite.migrate.plan import PlanStep

if TYPE_CHECKING:
    from archive.formats.releases import Release
    from archive.normalform.builder import FormBuilder
    from archive.rewrite.migrate.instructions import KnownCode
    from archive.rewrite.migrate.plan import MigrationPlan

PATHS_NAME_FUNCTIONS = (1, 8)
"""The first release whose module paths name the functions between modules."""

MAP = ("handle.", "frame.", "module.", "file.callstacks")
HANDLES = ("method.", "instruction.", "file.method_version")
PATHS = ("pathed.", "step.", "file.path_version")
"""The columns of the call-stack map, of the handles of instructions, and of module paths."""


def carry_over(form: FormBuilder, code: KnownCode | None, plan: MigrationPlan, release: Release) -> None:
    """Bring call stacks, handles and module paths into the form that a release writes.

    Args:
        form: the archive's debug information, which changes.
        code: what is known of the bytecode, if there is any.
        plan: with the release as its target; steps and losses are added to it.
        release: the target.
    """
    if release.callstacks is None:
        _drop_handles(form, code, plan, release)
        return
    recorded = "handle.op" in form.columns
    if "pathed.name" in form.columns:
        _paths_to_handles(form, code, plan)
    if "handle.handle" in form.columns:
        _change_elements(form, code, plan, release, recorded=recorded)
    if "method.name" in form.columns and release.delegated:
        ranges.add_delegated(form)
        if release.ranges is Layout.STRING_TABLE:
            form.columns = ranges.relaid(form.columns, release.ranges)


def _drop_handles(form: FormBuilder, code: KnownCode | None, plan: MigrationPlan, release: Release) -> None:
    """Drop the call-stack map and the handles of instructions; a release up to 1.8 may have paths instead."""
    _drop_delegated(form, plan)
    columns = form.columns
    if "handle.handle" in columns:
        what = "source ranges and call stacks of debug handles"
        plan.losses.append(PlanStep(what, len(columns["handle.handle"])))
    elif "method.name" in columns:
        plan.losses.append(PlanStep("debug handles of instructions", len(columns["instruction.handle"])))
    if release.instructions is Generation.MODULE_PATHS:
        _handles_to_paths(form, code, plan)
    elif "pathed.name" in columns:
        _drop_paths(form, plan)
    form.drop(*MAP, *HANDLES)


def _drop_delegated(form: FormBuilder, plan: MigrationPlan) -> None:
    at = np.flatnonzero(form.columns["record.name"] == form.pool.number(DELEGATED.encode()))
    if not len(at):
        return
    number = int(at[0])
    rows = int(form.columns["record.rows"][number])
    if rows:
        plan.losses.append(PlanStep("source ranges of lowered modules", rows))
    form.columns = ranges.without_record(form.columns, number)


def _drop_paths(form: FormBuilder, plan: MigrationPlan) -> None:
    plan.losses.append(PlanStep("module paths of operators", len(form.columns["step.path"])))
    form.drop(*PATHS)


def _handles_to_paths(form: FormBuilder, code: KnownCode | None, plan: MigrationPlan) -> None:
    """Make module paths of call stacks, unless there are paths, or not all that they are made of."""
    columns, number = form.columns, plan.target.number
    both = "method.name" in columns and "handle.handle" in columns
    if not both or "pathed.name" in columns or code is None:
        return
    to_paths(form, code, functions=number is not None and number >= PATHS_NAME_FUNCTIONS)
    plan.changes.append(PlanStep("module paths from call stacks", len(form.columns["step.path"])))


def _paths_to_handles(form: FormBuilder, code: KnownCode | None, plan: MigrationPlan) -> None:
    """Make handles and call stacks of module paths; drop the paths if there are handles, or no bytecode."""
    columns, tag = form.columns, ranges.null_tag(form.columns)
    if code is None or tag is None or "method.name" in columns or "handle.handle" in columns:
        _drop_paths(form, plan)
        return
    to_handles(form, code, tag)
    rows = len(form.columns["handle.handle"])
    plan.changes.append(PlanStep("handles and call stacks from module paths", rows))
    plan.remarks.append(
        "module paths tell no source lines, and not every function's name: failures will name modules and "
        "operators alone"
    )


def _change_elements(
    form: FormBuilder, code: KnownCode | None, plan: MigrationPlan, release: Release, *, recorded: bool
) -> None:
    """Give the rows of the call-stack map as many elements as the release writes.

    Operators that were not ``recorded`` in the map are still told by the bytecode, and so are no loss.
    """
    rows = len(form.columns["handle.handle"])
    three = CALLSTACK_LAYOUTS[int(form.columns["file.callstacks"][0])] is Generation.CALLSTACK_3
    if three and release.callstacks is Generation.CALLSTACK_4:
        plan.rescues.append(PlanStep("call-stack map completed, 3 to 4 elements, rows", rows))
        to_four_elements(form, code)
    elif not three and release.callstacks is Generation.CALLSTACK_3:
        _tell_lost_names(form, plan, recorded=recorded)
        if recorded:
            plan.changes.append(PlanStep("call-stack map, 4 to 3 elements, rows", rows))
        to_three_elements(form)


def _tell_lost_names(form: FormBuilder, plan: MigrationPlan, *, recorded: bool) -> None:
    strings = np.array(form.pool.strings(), dtype=object)
    operators = int((strings[form.columns["handle.op"]] != b"").sum())
    functions = int((strings[form.columns["frame.function"]] != UNKNOWN_FUNCTION).sum())
    if operators and recorded:
        plan.losses.append(PlanStep("names of operators", operators))
    if functions:
        plan.losses.append(PlanStep("names of functions", functions))
