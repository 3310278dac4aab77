"""Call stacks, handles and module paths, as far as the target has a place for them.

Module paths (PyTorch 1.7 and 1.8) to handles and call stacks (1.9 and later), and back.

- *handles to paths*: each operator's path is that of its call stack. Source lines go.
- *paths to handles*: each path with its operator gets a handle, and the path's modules become its call
  stack. Source ranges are not known: all refer to the null range. Instructions that call no operator share a
  handle of which nothing is known, and so do those of methods that have more or fewer paths than operators.

Call-stack maps with more or fewer elements:

- *3 to 4 elements*: ``bytecode.pkl`` names the operators. The functions are unknown, and get the name that
  PyTorch gives to unknown ones.
- *4 to 3 elements*: the names of operators and functions go.

A module path of 1.8 is ``top(Stack).gate(Gate).forward.inner(Affine).forward``: instance and class of each
module, then the method that is called. The top module is named without its method; only where nothing else
is called, ``forward`` follows it, whatever the method was. PyTorch 1.7 names only the last method. Where a
method calls another one of the same object, call stacks have the instance ``SELF``, 1.8 has
``INSTANCE_NAME_UNKNOWN``, and 1.7 none.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.base.quick_dataclass import dataclass
from archive.container.names import as_bytes
from archive.debuginfo.model import NO_TAG, Generation, RangeLayout
from archive.debuginfo.symbolicate import UNKNOWN_FUNCTION
from archive.formats.record_kinds import DELEGATED
from archive.normalform.columns import CALLSTACK_LAYOUTS, NO_ROW
from archive.rewrite.migrate import ranges
from archive.rewrite.migrate.plan import PlanStep

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.columns import Ints
    from archive.formats.releases import Release
    from archive.normalform.builder import FormBuilder
    from archive.normalform.columns import Columns
    from archive.normalform.pool import Pool
    from archive.rewrite.migrate.plan import MigrationPlan

# --- elements


@dataclass(frozen=True, slots=True)
class KnownCode:
    """An archive's bytecode, as far as migrations need it.

    Attributes:
        operators: for each method the operator that each instruction calls; b"" where it calls none.
        version: of the bytecode.
        top: class of the top module.
        classes: qualified names of the classes in the module tree.
    """

    operators: Mapping[str, list[bytes]]
    version: int
    top: str
    classes: Collection[str]

    def operators_of(self, method: bytes) -> list[bytes]:
        """The operator of each instruction of a method; [] for a method that the bytecode lacks."""
        return self.operators.get(method.decode("utf-8", "backslashreplace"), [])


def to_four_elements(form: FormBuilder, code: KnownCode | None) -> None:
    """Complete a call-stack map of three elements with operators, as far as the bytecode names them."""
    rows, nothing = len(form.columns["handle.handle"]), form.pool.number(b"")
    ops = np.full(rows, nothing)
    if code is not None and "method.name" in form.columns:
        number = form.pool.numbers(instruction_operators(form, code))
        handle = form.columns["instruction.handle"]
        row = np.searchsorted(form.columns["handle.handle"], handle)
        row[row == rows] = 0
        known = (number != nothing) & (form.columns["handle.handle"][row] == handle)
        ops[row[known][::-1]] = number[known][::-1]  # the first one with a handle names it
    unknown = form.pool.number(UNKNOWN_FUNCTION)
    _set_names(form, Generation.CALLSTACK_4, ops, unknown)


def to_three_elements(form: FormBuilder) -> None:
    """Take the names of operators and functions out of a call-stack map of four elements."""
    _set_names(form, Generation.CALLSTACK_3, np.full(len(form.columns["handle.handle"]), NO_ROW), NO_ROW)


def _set_names(form: FormBuilder, generation: Generation, ops: Ints, function: int) -> None:
    form.columns |= {
        "file.callstacks": np.array([CALLSTACK_LAYOUTS.index(generation)]),
        "handle.op": ops,
        "frame.function": np.full(len(form.columns["frame.function"]), function),
    }


def instruction_operators(form: FormBuilder, code: KnownCode) -> list[bytes]:
    """The operator of each instruction, method by method.

    b"" where it calls none, and for all of a method that has more or fewer instructions in the bytecode.
    """
    columns, strings = form.columns, form.pool.strings()
    operators: list[bytes] = []
    for name, count in zip(
        columns["method.name"].tolist(), columns["method.instructions"].tolist(), strict=True
    ):
        known = code.operators_of(strings[name])
        operators += known if len(known) == count else [b""] * count
    return operators


# --- paths

FORWARD = b"forward"
SELF, UNKNOWN_INSTANCE = b"SELF", b"INSTANCE_NAME_UNKNOWN"
STEP = re.compile(rb"(?P<instance>[^.()]+)\((?P<type>[^()]*)\)|(?P<function>[^.()]+)")
OF_INSTRUCTIONS = (
    *("handle.", "frame.", "module.", "method.", "instruction.", "pathed.", "step."),
    *("file.callstacks", "file.method_version", "file.path_version"),
)
"""The columns of call-stack maps, of the handles of instructions, and of module paths."""


def to_paths(form: FormBuilder, code: KnownCode, *, functions: bool) -> None:
    """Replace handles and call stacks by module paths.

    Args:
        form: with the handles of each method's instructions.
        code: what is known of the bytecode.
        functions: whether the methods between are named, as in 1.8.
    """
    operators = instruction_operators(form, code)
    names, handles = form.columns["method.name"], form.columns["instruction.handle"].tolist()
    paths = _Paths(form, code.top, functions=functions)
    steps, counts = [], []
    for begin, end in pairwise(firsts(form.columns["method.instructions"]).tolist()):
        calling = [paths.of(handles[at]) for at in range(begin, end) if operators[at]]
        counts.append(len(calling))
        steps += calling
    form.drop(*OF_INSTRUCTIONS)
    form.columns |= {
        "pathed.name": names,
        "pathed.steps": np.array(counts, np.int64),
        "step.path": form.pool.numbers(steps),
        "file.path_version": np.array([code.version]),
    }


class _Paths:
    """The module paths of handles."""

    def __init__(self, form: FormBuilder, top: str, *, functions: bool) -> None:
        columns = form.columns
        self._strings = form.pool.strings()
        self._next = columns["frame.next"].tolist()
        self._module = columns["frame.module"].tolist()
        self._function = columns["frame.function"].tolist()
        self._type = columns["module.type"].tolist()
        self._instance = columns["module.instance"].tolist()
        self._stack = dict(
            zip(columns["handle.handle"].tolist(), columns["handle.stack"].tolist(), strict=True)
        )
        self._top = as_bytes(f"top({top})")
        self._functions = functions
        self._known: dict[int, bytes] = {}

    def of(self, handle: int) -> bytes:
        """The path of a handle's call stack; of an unknown handle, that of the top module."""
        if handle in self._known:
            return self._known[handle]
        frame, parts, last = self._stack.get(handle, NO_ROW), [self._top], FORWARD
        while frame >= 0:
            if len(parts) > 1 and self._functions and last:
                parts.append(last)
            module, function = self._module[frame], self._function[frame]
            # ``instance(Class)``; nothing for a function, nor, up to 1.7, for a method of the same object.
            instance = self._strings[self._instance[module]] if module >= 0 else b""
            if instance == SELF:
                instance = UNKNOWN_INSTANCE if self._functions else b""
            if instance:
                parts.append(instance + b"(" + self._strings[self._type[module]].rpartition(b".")[2] + b")")
            last = self._strings[function] if function >= 0 else b""
            last = b"" if last == UNKNOWN_FUNCTION else last
            frame = self._next[frame]
        self._known[handle] = b".".join([*parts, last] if last else parts)
        return self._known[handle]


def to_handles(form: FormBuilder, code: KnownCode, null_tag: int) -> None:
    """Replace module paths by handles and call stacks.

    Args:
        form: with the module paths of each method's operators.
        code: what is known of the bytecode.
        null_tag: tag of the null range.
    """
    strings, names = form.pool.strings(), form.columns["pathed.name"]
    paths = form.columns["step.path"].tolist()
    bounds = pairwise(firsts(form.columns["pathed.steps"]).tolist())
    known: dict[tuple[int, bytes], int] = {}
    nowhere = form.pool.number(b""), b""
    counts, handles = [], []
    for name, (begin, end) in zip(names.tolist(), bounds, strict=True):
        operators = code.operators_of(strings[name])
        rest = iter(paths[begin:end])
        fits = sum(map(bool, operators)) == end - begin
        for operator in operators:
            key = (next(rest), operator) if operator and fits else nowhere
            handles.append(known.setdefault(key, len(known)))
        counts.append(len(operators))
    stacks = _Stacks(strings, form.pool, code)
    rows = len(known)
    stack = [stacks.of(path) for path, _ in known]
    form.drop(*OF_INSTRUCTIONS)
    form.columns |= {
        "handle.handle": np.arange(rows),
        "handle.tag": np.full(rows, null_tag),
        "handle.op": form.pool.numbers(operator for _, operator in known),
        "handle.stack": np.array(stack, np.int64),
        "handle.place": np.arange(rows),
        **stacks.columns(),
        "method.name": names,
        "method.instructions": np.array(counts, np.int64),
        "instruction.handle": np.array(handles, np.int64),
        "file.callstacks": np.array([CALLSTACK_LAYOUTS.index(Generation.CALLSTACK_4)]),
        "file.method_version": np.array([code.version]),
    }


class _Stacks:
    """Call stacks of module paths: each path has frames of its own, each module is there once."""

    def __init__(self, strings: list[bytes], pool: Pool, code: KnownCode) -> None:
        self._strings = strings
        self._pool = pool
        self._first: dict[int, int] = {}
        self._frames: list[tuple[int, int, int]] = []
        self._modules: dict[tuple[int, int], int] = {}
        self._qualified: dict[bytes, list[bytes]] = {}
        for name in map(as_bytes, sorted(code.classes)):
            self._qualified.setdefault(name.rpartition(b".")[2], []).append(name)

    def of(self, path: int) -> int:
        """The first frame of a path, NO_ROW where it names only the top module."""
        if path not in self._first:
            calls: list[tuple[int, bytes]] = []  # modules and the functions that are called, outermost first
            for step in STEP.finditer(self._strings[path].partition(b".")[2]):
                if step["instance"] is not None:
                    instance = SELF if step["instance"] == UNKNOWN_INSTANCE else step["instance"]
                    # The module's class is qualified if the archive has one class of that name.
                    qualified = self._qualified.get(step["type"], [])
                    type_name = qualified[0] if len(qualified) == 1 else step["type"]
                    key = self._pool.number(type_name), self._pool.number(instance)
                    calls.append((self._modules.setdefault(key, len(self._modules)), UNKNOWN_FUNCTION))
                elif calls and calls[-1][1] == UNKNOWN_FUNCTION:
                    calls[-1] = (calls[-1][0], step["function"])
            begin = len(self._frames)
            for number, (module, function) in enumerate(calls, 1):
                following = begin + number if number < len(calls) else NO_ROW
                self._frames.append((following, module, self._pool.number(function)))
            self._first[path] = begin if calls else NO_ROW
        return self._first[path]

    def columns(self) -> Columns:
        """Frames and modules."""
        frames = np.array(self._frames, np.int64).reshape(-1, 3)
        modules = np.array(list(self._modules), np.int64).reshape(-1, 2)
        return {
            "frame.next": frames[:, 0].copy(),
            "frame.module": frames[:, 1].copy(),
            "frame.tag": np.full(len(frames), NO_TAG),
            "frame.function": frames[:, 2].copy(),
            "module.type": modules[:, 0].copy(),
            "module.instance": modules[:, 1].copy(),
        }


# --- stacks

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
        if release.ranges is RangeLayout.STRING_TABLE:
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
        "module paths have no source lines, and not every function's name: failures will name only modules "
        "and operators"
    )


def _change_elements(
    form: FormBuilder, code: KnownCode | None, plan: MigrationPlan, release: Release, *, recorded: bool
) -> None:
    """Give the rows of the call-stack map as many elements as the release writes.

    Operators that were not ``recorded`` in the map are still in the bytecode, so they aren't lost.
    """
    rows = len(form.columns["handle.handle"])
    three = CALLSTACK_LAYOUTS[int(form.columns["file.callstacks"][0])] is Generation.CALLSTACK_3
    if three and release.callstacks is Generation.CALLSTACK_4:
        plan.rescues.append(PlanStep("call-stack map completed, 3 to 4 elements, rows", rows))
        to_four_elements(form, code)
    elif not three and release.callstacks is Generation.CALLSTACK_3:
        _note_lost_names(form, plan, recorded=recorded)
        if recorded:
            plan.changes.append(PlanStep("call-stack map, 4 to 3 elements, rows", rows))
        to_three_elements(form)


def _note_lost_names(form: FormBuilder, plan: MigrationPlan, *, recorded: bool) -> None:
    strings = np.array(form.pool.strings(), dtype=object)
    operators = int((strings[form.columns["handle.op"]] != b"").sum())
    functions = int((strings[form.columns["frame.function"]] != UNKNOWN_FUNCTION).sum())
    if operators and recorded:
        plan.losses.append(PlanStep("names of operators", operators))
    if functions:
        plan.losses.append(PlanStep("names of functions", functions))
