"""Runs an archive in stock PyTorch under its profiler, and shows the run at the model's source.

The events of ``torch.profiler`` are the operations that a model calls, and what PyTorch's allocator did. An
operation of PyTorch calls others: ``aten::linear`` calls ``aten::addmm``. Only the outermost ones are
kept; their times include those inside.

The profiler names the operations of a run in the lite interpreter in their order, and leaves their debug
handles out. The run is a path through the method's instructions, decided by jumps and loops; the names show
which path. Where several paths have the same names, an operation may have several handles. Opcodes:
``torch/csrc/jit/runtime/instruction.h``; jumps: ``torch/csrc/jit/mobile/interpreter.cpp``.
"""

from __future__ import annotations

import contextlib
import io
import os
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
import torch.jit.mobile
from torch.autograd.profiler import profile, record_function

from archive.backend.aten.machine import noted
from archive.backend.pytorch import AS_OPTION, message_of, not_loaded
from archive.base.errors import ArchiveError, one_line
from archive.debuginfo.profiles.places import UNKNOWN_PLACE, common_place
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import Recording
from archive.formats.record_kinds import BYTECODE
from archive.io.mapped import Mapped, placed
from archive.reader.lookups.places import StockPlaces
from archive.reader.opening import open as open_archive
from archive.reader.recognition import LOADED_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.debuginfo.model import Source as ModelSource
    from archive.debuginfo.profiles.places import OperationPlace
    from archive.io.mapped import Source
    from archive.reader.archive import Archive


# --- debug handles of a run in the lite interpreter

OPERATOR_OPCODES = ("OP", "OPN")
BRANCHES = ("JF", "LOOP")
"""Opcodes that go to the next instruction, or as far as their argument says."""
PLAIN = {"int": int, "float": float, "bool": bool, "str": str, "NoneType": type(None)}
"""Types of arguments, by their names in TorchScript."""
JUMP, RETURN = "JMP", "RET"
CALL_OPCODES = ("CALL", "INTERFACE_CALL")
"""Opcodes that run other methods: their operations are not among the method's own."""


class LiteMethod:
    """A method of the lite interpreter.

    Args:
        instructions: opcode and first argument of each.
        names: the operator that each instruction runs; "" for others.
        handles: the debug handle of each instruction.
        parameters: name, type and default of each, without ``self``; None where the archive has none.
    """

    def __init__(
        self,
        instructions: Sequence[tuple[str, int]],
        names: Sequence[str],
        handles: Sequence[int],
        parameters: Sequence[tuple[str, str, object]] | None = None,
    ) -> None:
        self.parameters = parameters
        self._instructions = instructions
        self._names = names
        self._handles = handles
        self._next = cache(self._next_operations)

    @classmethod
    def of(cls, opened: Archive, method: str) -> LiteMethod:
        """The method of an archive's top module."""
        wanted = f"{opened.qualified_top}.{method}"
        handles = opened.methods.get(wanted)
        if handles is None:
            known = ", ".join(opened.methods) or "none"
            raise ArchiveError(expected=f"debug handles of {wanted}", found=known, file=opened.file)
        record: Any = opened.value(BYTECODE)
        # The first archives have no version before their methods.
        methods = record[1:] if record and isinstance(record[0], int) else record
        _, rows, *schema = next(method_table for method_table in methods if method_table[0] == wanted)
        table = dict(rows)
        operators = [str(row[0]) for row in table["operators"]]
        instructions = [(str(row[0]), int(row[1])) for row in table["instructions"]]
        names = [operators[number] if code in OPERATOR_OPCODES else "" for code, number in instructions]
        parameters = (
            [tuple(dict(argument).values()) for argument in dict(schema[0])["arguments"]] if schema else None
        )
        return cls(instructions, names, list(handles), None if parameters is None else parameters[1:])

    def check(self, given: Sequence[object]) -> None:
        """Refuse arguments that the method does not take: the lite interpreter would end the process.

        Raises:
            TypeError: there are too many or too few, or one is of another type.
        """
        if self.parameters is None:
            return
        needed = [
            parameter
            for parameter in self.parameters
            if parameter[2] is None and not parameter[1].startswith("Optional[")
        ]
        if not len(needed) <= len(given) <= len(self.parameters):
            texts = ", ".join(f"{name}: {kind}" for name, kind, _ in self.parameters) or "no arguments"
            raise TypeError(f"expected {texts}; found {len(given)} arguments")
        for (name, kind, _), value in zip(self.parameters, given, strict=False):
            if not _fits(value, kind):
                raise TypeError(f"expected {name}: {kind}; found {type(value).__name__}")

    def handles_of(self, run: Sequence[str]) -> list[tuple[int, ...]]:
        """The debug handles that each operation of a run may have; none if the method has no such path."""
        if any(code in CALL_OPCODES for code, _ in self._instructions):
            return [()] * len(run)
        end = len(self._instructions)
        reached: list[set[int]] = []  # the instructions that may run each operation
        following = self._next(0)
        for name in run:
            reached.append({at for at in following if at < end and self._names[at] == name})
            following = frozenset[int]().union(*(self._next(at + 1) for at in reached[-1]))
        after = frozenset([end])  # those that may run the next operation on a path to the end
        handles: list[tuple[int, ...]] = []
        for places in reversed(reached):
            after = frozenset(at for at in places if after & self._next(at + 1))
            handles.append(tuple(sorted({self._handles[at] for at in after})))
        return handles[::-1]

    def _next_operations(self, start: int) -> frozenset[int]:
        """The operations that may run next from an instruction on; the number of instructions for the end."""
        left, seen, following = [start], set[int](), set[int]()
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            code, number = self._instructions[at] if at < len(self._instructions) else (RETURN, 0)
            if code == RETURN:
                following.add(len(self._instructions))
            elif code in OPERATOR_OPCODES:
                following.add(at)
            elif code == JUMP:
                left.append(at + number)
            else:
                left += [at + 1, at + number] if code in BRANCHES else [at + 1]
        return frozenset(following)


def _fits(value: object, kind: str) -> bool:
    """Whether a value is of a type, by TorchScript's name; of unknown types, any value is."""
    whole, _, inner = kind.removesuffix("]").partition("[")
    if whole == "Optional":
        return value is None or _fits(value, inner)
    if whole == "List":
        return isinstance(value, list) and all(_fits(item, inner) for item in value)
    if kind == "Tensor":
        return isinstance(value, torch.Tensor)
    return type(value) is PLAIN[kind] if kind in PLAIN else True


# --- events

FUNCTION_SCOPE, LITE_SCOPE = 0, 6
"""``at::RecordScope``: operators that the dispatcher runs, and those of the lite interpreter."""


@dataclass(frozen=True, slots=True)
class StockOperation:
    """An operation that ran in stock PyTorch.

    Attributes:
        start: when it began, in ns of PyTorch's clock.
        stack: its call stack in generated code, innermost first; () in the lite interpreter.
    """

    start: int
    end: int
    name: str
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """One run of a method.

    Attributes:
        memory: allocations and, with negative bytes, releases, in the order of time: the time, the bytes, the
            address, and the number of the operation that runs then or ran last.
    """

    operations: list[StockOperation]
    memory: list[tuple[int, int, int, int]]


def runs_of(results: Any, mark: str, scope: int) -> Iterator[ProfiledRun]:  # noqa: ANN401 (PyTorch's own)
    """The runs that a profiler has recorded."""
    events = [event for event in results.events() if not event.is_python_function()]
    _, changes = noted(results)
    for run in (event for event in events if event.name() == mark and event.is_user_annotation()):
        start, end = run.start_ns(), run.end_ns()
        inside = [
            event
            for event in events
            if event.scope() == scope and start <= event.start_ns() and event.end_ns() <= end
        ]
        operations = _outermost([item for item in inside if item is not run and item.name() != "[memory]"])
        starts = [operation.start for operation in operations]
        within = [change for change in changes if start <= change[0] <= end]
        yield ProfiledRun(
            operations, [(*change, max(0, bisect_right(starts, change[0]) - 1)) for change in within]
        )


def _outermost(events: Sequence[Any]) -> list[StockOperation]:
    """The events that are not within another one of their thread."""
    ends: dict[int, int] = {}
    outermost = []
    for event in sorted(events, key=lambda event: (event.start_ns(), -event.end_ns())):
        thread = event.start_thread_id()
        if event.end_ns() > ends.get(thread, -1):
            ends[thread] = event.end_ns()
            outermost.append(
                StockOperation(event.start_ns(), event.end_ns(), one_line(event.name()), tuple(event.stack()))
            )
    return outermost


# --- running

RUN_MARK = "debug-archive: a run"
LITE, TORCHSCRIPT = "lite interpreter", "TorchScript"
UNKNOWN_KEY = -1


def profile_archive(
    source: Source,
    *inputs: object,
    companion: Source | None = None,
    method: str = "forward",
    lite: bool | None = None,
    runs: int = 1,
    warmup: int = 2,
) -> Profile:
    """Profile runs of an archive in stock PyTorch, without gradients.

    PyTorch loads the archive, so its code must be trusted as with ``torch.jit.load``. Times are those that
    ``torch.profiler`` measures: its own work is part of them, some µs an operation. Memory is that of
    PyTorch's allocator, inside operators too; what libraries such as oneDNN allocate by themselves is not
    seen.

    Args:
        source: the archive: a path, a bytes-like object, or a binary file.
        inputs: arguments of the method.
        companion: its debug info, if that was split off.
        method: the method to run.
        lite: whether the lite interpreter runs it; by default, if the archive has bytecode and debug handles.
        runs: how often it runs; times add up.
        warmup: how often it runs before, unobserved: TorchScript optimises in its first runs.
    """
    if torch._C._autograd._profiler_enabled():
        raise ArchiveError("PyTorch's profiler runs already, and there is one in a process")
    opened = open_archive(source, companion=companion, kinds=LOADED_KINDS)
    if opened.recognised.kind is FileKind.COMPANION:
        raise opened.recognised.refusal(opened.file)
    on_lite = BYTECODE in opened.records and bool(opened.methods) if lite is None else lite
    lite_method = LiteMethod.of(opened, method) if on_lite else None
    run = partial(
        method_of(loaded_module(source, opened.file, lite=on_lite), opened.file, method, lite=on_lite),
        *inputs,
    )
    with torch.no_grad():
        try:
            if lite_method is not None:
                lite_method.check(inputs)
            for _ in range(warmup):
                run()
            with profile(profile_memory=True, with_stack=not on_lite) as observed:
                run()  # without a mark: it fills the profiler's buffers
                for _ in range(runs):
                    with record_function(RUN_MARK):
                        run()
        except (RuntimeError, TypeError, ValueError) as error:
            given = (
                "with these inputs"
                if inputs
                else "without inputs (give some: --input 1x3x32x32, or profile_archive(file, x))"
            )
            numbers = inputs and not all(isinstance(each, torch.Tensor) for each in inputs)
            hint = AS_OPTION if numbers else ""
            raise ArchiveError(
                f"{method} fails {given}: {one_line(message_of(error))}{hint}", file=opened.file
            ) from error
    profiled = [*runs_of(observed.kineto_results, RUN_MARK, LITE_SCOPE if on_lite else FUNCTION_SCOPE)]
    if lite_method is not None:
        return _lite_profile(profiled, opened, lite_method)
    return _torchscript_profile(profiled, opened)


def example_tensor(sizes: Sequence[int], name: str) -> torch.Tensor:
    """A tensor to run a model with: random floats, the same in each process; zeros of other types."""
    types = {key: kind for key, kind in vars(torch).items() if isinstance(kind, torch.dtype)}
    if name not in types:
        raise ValueError(f"no type {name!r} of tensors; available: {', '.join(sorted(types))}")
    kind = types[name]
    if not kind.is_floating_point:
        return torch.zeros(tuple(sizes), dtype=kind)
    return torch.rand(tuple(sizes), generator=torch.Generator().manual_seed(0)).to(kind)


def loaded_module(source: Source, name: str, *, lite: bool) -> Any:  # noqa: ANN401 (of two classes)
    """An archive's module as PyTorch loads it: of a file on disk by its path, in a fifth of the time."""
    load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
    source, place = placed(source)
    with contextlib.ExitStack() as stack:
        loadable: Any = source
        if place is not None or not isinstance(source, (str, os.PathLike)):
            loadable = io.BytesIO(stack.enter_context(contextlib.closing(Mapped(source))).data)
        try:
            return load(loadable)
        except Exception as error:  # broken archives make PyTorch raise errors of any kind
            raise not_loaded(error, name) from error


def method_of(module: Any, name: str, method: str, *, lite: bool) -> Callable[..., Any]:  # noqa: ANN401
    """A method of a loaded module."""
    if lite:
        return partial(module.run_method, method) if method != "forward" else module
    if method not in module._c._method_names():
        raise ArchiveError(
            expected=f"a method {method}", found=", ".join(module._c._method_names()), file=name
        )
    run: Callable[..., Any] = getattr(module, method)
    return run


def _lite_profile(runs: Sequence[ProfiledRun], opened: Archive, method: LiteMethod) -> Profile:
    """A profile by debug handles. Operations that may have several have numbers below ``UNKNOWN_KEY``."""
    several: dict[tuple[int, ...], int] = {(): UNKNOWN_KEY}
    keys = [
        [
            handles[0] if len(handles) == 1 else several.setdefault(handles, UNKNOWN_KEY - len(several))
            for handles in method.handles_of([operation.name for operation in run.operations])
        ]
        for run in runs
    ]
    known = {number: handles for handles, number in several.items()}
    places = StockPlaces(opened)

    def place(key: int) -> OperationPlace:
        return common_place([places.of_handle(handle) for handle in known.get(key, (key,))])

    return Profile(_recording(LITE, runs, keys), place, _sources(opened))


def _torchscript_profile(runs: Sequence[ProfiledRun], opened: Archive) -> Profile:
    """A profile whose operations have numbers below ``UNKNOWN_KEY``: TorchScript knows no debug handles."""
    numbers: dict[tuple[tuple[str, ...], str], int] = {}
    keys = [
        [
            numbers.setdefault((operation.stack, operation.name), UNKNOWN_KEY - 1 - len(numbers))
            for operation in run.operations
        ]
        for run in runs
    ]
    known = {number: stack_and_name for stack_and_name, number in numbers.items()}
    places = StockPlaces(opened)

    def place(key: int) -> OperationPlace:
        return UNKNOWN_PLACE if key == UNKNOWN_KEY else places.of_stack(*known[key])

    return Profile(_recording(TORCHSCRIPT, runs, keys), place, _sources(opened))


def _recording(name: str, runs: Sequence[ProfiledRun], keys: Sequence[Sequence[int]]) -> Recording:
    made = Recording(name, of_allocator=True)
    for run, numbers in zip(runs, keys, strict=True):
        made.operations += (
            (operation.start, operation.end, number, operation.name)
            for operation, number in zip(run.operations, numbers, strict=True)
        )
        total = 0
        for time, size, address, at in run.memory:
            total += size
            made.memory.append((time, numbers[at] if numbers else UNKNOWN_KEY, size, total, address))
    return made


def _sources(opened: Archive) -> list[ModelSource]:
    """The texts in an archive's debug info."""
    sources = opened.range_table.sources
    return [sources[number] for number in range(len(sources))]
