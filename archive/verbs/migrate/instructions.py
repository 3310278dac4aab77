"""What is recorded of bytecode instructions, from one release's form to another's.

Columns are those of :mod:`archive.companion`, strings numbers of their pool.

- *3 to 4 elements*: operators are named as ``bytecode.pkl`` names them; functions are unknown, and get the
  name that PyTorch gives to unknown ones.
- *4 to 3 elements*: the names of operators and functions go.
- *handles to module paths*: each operator's path is that of its call stack. Source lines go.
- *module paths to handles*: each path with its operator gets a handle, and the path's modules become its call
  stack. Source ranges are not known: all refer to the null range. Instructions that call no operator share a
  handle of which nothing is known, and so do those of methods that have more or fewer paths than operators.

A module path, 1.8: ``top(Stack).gate(Gate).forward.inner(Affine).forward``: instance and class of each
module, and behind it the method that was called. Of ``top`` it is only said where nothing was called, and
then ``forward``, whatever it was. PyTorch 1.7 names the last method alone. For a method of the same object,
``SELF`` in call stacks, 1.8 has the instance ``INSTANCE_NAME_UNKNOWN``, and 1.7 none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.debuginfo.model import Generation
from archive.normalform.records import GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.columns import Ints
    from archive.normalform.pool import Pool

    Columns = dict[str, Ints]

UNKNOWN = b"FunctionName_UNKNOWN"
"""What PyTorch writes where it knows no function's name."""
FORWARD = b"forward"
SELF, UNKNOWN_INSTANCE = b"SELF", b"INSTANCE_NAME_UNKNOWN"
STEP = re.compile(rb"(?P<instance>[^.()]+)\((?P<type>[^()]*)\)|(?P<function>[^.()]+)")
TABLES = ("handle.", "frame.", "module.", "method.", "instruction.", "pathed.", "step.")
ONES = ("file.callstacks", "file.method_version", "file.path_version")
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Code:
    """What an archive says of its bytecode.

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


def without(columns: Columns, *tables: str) -> Columns:
    """The columns without those of some tables (``handle.``) or facts (``file.callstacks``)."""
    return {name: values for name, values in columns.items() if not name.startswith(tables)}


def completed(columns: Columns, pool: Pool, code: Code | None) -> Columns:
    """A call-stack map of three elements as one of four."""
    ops = np.full(len(columns["handle.handle"]), pool.number(b""))
    if code is not None and "method.name" in columns:
        operators = _of_instructions(columns["method.name"], columns["method.instructions"], pool, code)
        number = pool.numbers(operators)
        handle = columns["instruction.handle"]
        row = np.searchsorted(columns["handle.handle"], handle)
        row[row == len(ops)] = 0
        known = (number != pool.number(b"")) & (columns["handle.handle"][row] == handle)
        ops[row[known][::-1]] = number[known][::-1]
    functions = np.full(len(columns["frame.function"]), pool.number(UNKNOWN))
    return columns | {
        "file.callstacks": np.array([GENERATIONS.index(Generation.CALLSTACK_4)]),
        "handle.op": ops,
        "frame.function": functions,
    }


def reduced(columns: Columns) -> Columns:
    """A call-stack map of four elements as one of three."""
    return columns | {
        "file.callstacks": np.array([GENERATIONS.index(Generation.CALLSTACK_3)]),
        "handle.op": np.full(len(columns["handle.handle"]), NOWHERE),
        "frame.function": np.full(len(columns["frame.function"]), NOWHERE),
    }


def _of_instructions(name: Ints, counts: Ints, pool: Pool, code: Code) -> list[bytes]:
    """The operators of the instructions of some methods, one behind the other; b"" for those not known."""
    strings = pool.strings()
    operators: list[bytes] = []
    for method, count in zip(name.tolist(), counts.tolist(), strict=True):
        known = code.operators.get(strings[method].decode("utf-8", "backslashreplace"), [])
        operators += known if len(known) == count else [b""] * count
    return operators


def with_paths(columns: Columns, pool: Pool, code: Code, *, functions: bool) -> Columns:
    """Module paths in the place of handles and call stacks.

    Args:
        columns: with the handles of each method's instructions.
        pool: the strings.
        code: what is known of the bytecode.
        functions: whether the methods between are named, as in 1.8.
    """
    operators = _of_instructions(columns["method.name"], columns["method.instructions"], pool, code)
    strings = pool.strings()
    frames = {name: columns[f"frame.{name}"].tolist() for name in ("next", "module", "function")}
    types, instances = (columns[f"module.{name}"].tolist() for name in ("type", "instance"))
    stack_of = dict(zip(columns["handle.handle"].tolist(), columns["handle.stack"].tolist(), strict=True))
    top = f"top({code.top})".encode("utf-8", "surrogateescape")

    def path(handle: int) -> bytes:
        parts, last = [top], FORWARD
        frame = stack_of.get(handle, -1)
        while frame >= 0:
            module = frames["module"][frame]
            if len(parts) > 1 and functions and last:
                parts.append(last)
            instance = strings[instances[module]] if module >= 0 else b""
            if instance == SELF:
                instance = UNKNOWN_INSTANCE if functions else b""
            if instance:
                parts.append(instance + b"(" + strings[types[module]].rpartition(b".")[2] + b")")
            function = frames["function"][frame]
            last = b"" if function < 0 or strings[function] == UNKNOWN else strings[function]
            frame = frames["next"][frame]
        return b".".join([*parts, last] if last else parts)

    known: dict[int, bytes] = {}
    steps, counts = [], []
    bounds = firsts(columns["method.instructions"]).tolist()
    handles = columns["instruction.handle"].tolist()
    for begin, end in pairwise(bounds):
        calling = [at for at in range(begin, end) if operators[at]]
        counts.append(len(calling))
        for at in calling:
            if handles[at] not in known:
                known[handles[at]] = path(handles[at])
            steps.append(known[handles[at]])
    return without(columns, *TABLES, *ONES) | {
        "pathed.name": columns["method.name"],
        "pathed.steps": np.array(counts, np.int64),
        "step.path": pool.numbers(steps),
        "file.path_version": np.array([code.version]),
    }


def with_handles(columns: Columns, pool: Pool, code: Code, null_tag: int) -> Columns:
    """Handles and call stacks in the place of module paths.

    Args:
        columns: with the module paths of each method's operators.
        pool: the strings.
        code: what is known of the bytecode.
        null_tag: tag of the null range.
    """
    strings = pool.strings()
    names = columns["pathed.name"].tolist()
    bounds = firsts(columns["pathed.steps"]).tolist()
    paths = columns["step.path"].tolist()
    known: dict[tuple[int, bytes], int] = {}
    nowhere = pool.number(b"")
    counts, handles = [], []
    for name, begin, end in zip(names, bounds[:-1], bounds[1:], strict=True):
        operators = code.operators.get(strings[name].decode("utf-8", "backslashreplace"), [])
        rest = iter(paths[begin:end])
        known_to_fit = sum(map(bool, operators)) == end - begin
        for operator in operators:
            step = next(rest) if operator and known_to_fit else None
            key = (nowhere, b"") if step is None else (step, operator)
            handles.append(known.setdefault(key, len(known)))
        counts.append(len(operators))
    stacks = _Stacks(strings, pool, code)
    stack = np.array([stacks.of(path) for path, _ in known], np.int64)
    rows = len(known)
    return without(columns, *TABLES, *ONES) | {
        "handle.handle": np.arange(rows),
        "handle.tag": np.full(rows, null_tag),
        "handle.op": pool.numbers(operator for _, operator in known),
        "handle.stack": stack,
        "handle.place": np.arange(rows),
        **stacks.columns(),
        "method.name": columns["pathed.name"],
        "method.instructions": np.array(counts, np.int64),
        "instruction.handle": np.array(handles, np.int64),
        "file.callstacks": np.array([GENERATIONS.index(Generation.CALLSTACK_4)]),
        "file.method_version": np.array([code.version]),
    }


class _Stacks:
    """Call stacks of module paths: each path's own frames, each module once."""

    def __init__(self, strings: list[bytes], pool: Pool, code: Code) -> None:
        self._strings = strings
        self._pool = pool
        self._first: dict[int, int] = {}
        self._frames: list[tuple[int, int, int]] = []
        self._modules: dict[tuple[int, int], int] = {}
        self._types: dict[bytes, list[str]] = {}
        for name in sorted(code.classes):
            self._types.setdefault(name.rpartition(".")[2].encode("utf-8", "surrogateescape"), []).append(
                name
            )

    def of(self, path: int) -> int:
        """The first frame of a path, -1 where it names the top module alone."""
        if path not in self._first:
            calls = self._calls(self._strings[path])
            begin = len(self._frames)
            for number, (module, function) in enumerate(calls, 1):
                following = begin + number if number < len(calls) else -1
                self._frames.append((following, module, self._pool.number(function)))
            self._first[path] = begin if calls else -1
        return self._first[path]

    def _calls(self, path: bytes) -> list[tuple[int, bytes]]:
        """The modules of a path and the functions that are called, outermost first."""
        calls: list[tuple[int, bytes]] = []
        for step in STEP.finditer(path.partition(b".")[2]):
            if step["instance"] is not None:
                instance = SELF if step["instance"] == UNKNOWN_INSTANCE else step["instance"]
                calls.append((self._module(step["type"], instance), UNKNOWN))
            elif calls and calls[-1][1] == UNKNOWN:
                calls[-1] = (calls[-1][0], step["function"])
        return calls

    def _module(self, type_name: bytes, instance: bytes) -> int:
        qualified = self._types.get(type_name, [])
        if len(qualified) == 1:
            type_name = qualified[0].encode("utf-8", "surrogateescape")
        module = self._pool.number(type_name), self._pool.number(instance)
        return self._modules.setdefault(module, len(self._modules))

    def columns(self) -> Columns:
        """Frames and modules."""
        following, module, function = (
            np.array(column, np.int64)
            for column in (zip(*self._frames, strict=True) if self._frames else ([], [], []))
        )
        modules = np.array(list(self._modules), np.int64).reshape(-1, 2)
        return {
            "frame.next": following,
            "frame.module": module,
            "frame.tag": np.full(len(module), NOWHERE),
            "frame.function": function,
            "module.type": modules[:, 0].copy(),
            "module.instance": modules[:, 1].copy(),
        }
