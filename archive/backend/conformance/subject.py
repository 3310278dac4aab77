"""The subject of an examination: a backend and a model, which is lowered, run and compared for the rules.

:class:`Dispatches` watches the operators that PyTorch's dispatcher runs, and makes them fail.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from archive.backend.conformance.findings import Differs
from archive.backend.delegate import Delegate
from archive.backend.exported.program import exported
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from archive.backend.lower import codegen
from archive.backend.lower.handles import DebugHandles
from archive.backend.lower.links import TORCHSCRIPT_NAMES, resolved
from archive.backend.lower.lowering import lower, lower_to_torchscript
from archive.backend.lower.saving import lowered_archive
from archive.base.errors import LoweringError
from archive.effects.nested import with_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from archive.backend.graph.graphs import Graph, Operation
    from archive.backend.registry import Backend
    from archive.debuginfo.profiles.timeline import Recording

# --- subject

ENDINGS = {".pt": False, ".ptl": True}
"""The endings of archives; whether each is for the lite interpreter."""
PART = "part"
"""The attribute of a larger module that holds the lowered model."""
FIRST_HANDLE = 1000
"""The first handle to give out: a backend that counts from 0 by itself does not reach it by chance."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A lowered module."""

    module: Any
    operations: Mapping[int, Operation]
    recorder: DebugHandles


def in_torchscript(model: torch.nn.Module | torch.export.ExportedProgram, *how: Any, **named: Any) -> Any:  # noqa: ANN401
    """A model, lowered as a whole to a module of TorchScript; the other arguments are those of ``lower``."""
    is_program = isinstance(model, torch.export.ExportedProgram)
    return (lower_to_torchscript if is_program else lower)(model, *how, **named)


@dataclass(frozen=True)
class Subject:
    """A backend, and a model to try rules with, as ``checking.examine`` gets them.

    Lowering and saving are done once, when first needed.
    """

    backend: Backend
    model: torch.nn.Module | torch.export.ExportedProgram
    good: Sequence[Any]
    bad: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    method: str = "forward"
    spec: Mapping[str, Any] | None = None
    unsupported: Mapping[str, torch.nn.Module | torch.export.ExportedProgram] = field(default_factory=dict)
    unavailable: Callable[[], AbstractContextManager[object]] | None = None
    tolerance: float | None = None
    elsewhere: bool = True
    available: bool = True
    gradients: bool = True

    @property
    def full_spec(self) -> dict[str, Any]:
        """The compile spec as backends get it."""
        given = {self.method: {}} if self.spec is None else self.spec
        return {method: dict(options) or {"": ""} for method, options in given.items()}

    @cached_property
    def module(self) -> torch.nn.Module:
        """The model, as a module that runs."""
        return self.model.module() if isinstance(self.model, torch.export.ExportedProgram) else self.model

    def lower(self, recorder: DebugHandles | None = None) -> Any:  # noqa: ANN401 (a ScriptModule)
        """Lower the model again."""
        spec = {self.method: {}} if self.spec is None else self.spec
        return in_torchscript(self.model, self.backend.name, spec, recorder=recorder)

    @cached_property
    def lowered(self) -> Lowered:
        """The lowered model."""
        recorder = DebugHandles(FIRST_HANDLE)
        module = self.lower(recorder)
        return Lowered(module, dict(recorder.operations), recorder)

    @cached_property
    def archives(self) -> Mapping[str, bytes]:
        """The archives of the lowered model, by their endings."""
        return {ending: lowered_archive(self.lowered.module, lite=lite) for ending, lite in ENDINGS.items()}

    @cached_property
    def larger(self) -> bytes:
        """The archive, for the lite interpreter, of a module that calls the lowered model as its part."""
        part = self.lowered.module._c
        module = torch._C.ScriptModule("Larger", torch._C.CompilationUnit(), True)
        module._register_attribute(PART, part._type(), part)
        source = codegen.forwarding(self.method, part._get_method(self.method).schema, PART)
        resolve = partial(resolved, names=TORCHSCRIPT_NAMES)
        module._define(torch._C.ConcreteModuleType.from_jit_type(module._type()), source, resolve)
        return lowered_archive(torch.jit._recursive.wrap_cpp_module(module), lite=True)

    @cached_property
    def graphs(self) -> Mapping[str, Graph]:
        """The model's own graphs, as backends get them."""
        if isinstance(self.model, torch.export.ExportedProgram):
            original, _ = exported(self.model)
            return original.graphs
        known = isinstance(self.model, torch.jit.ScriptModule)
        scripted = self.model if known else torch.jit.script(self.model)
        places = RangeFinder.of(scripted._c)
        return {method: inlined(scripted._c, method, places) for method in self.full_spec}

    @cached_property
    def expected(self) -> Any:  # noqa: ANN401
        """The model's result for the good inputs."""
        return self.called(getattr(self.module, self.method))

    def called(
        self,
        run: Callable[..., Any],
        inputs: Sequence[Any] | None = None,
        within: AbstractContextManager[object] | None = None,
    ) -> Any:  # noqa: ANN401
        """Call a function without gradients, with the same random numbers each time.

        Args:
            inputs: its arguments, which are copied; by default the good inputs.
            within: a context to call it in.
        """
        given = fresh(tuple(self.good if inputs is None else inputs))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            with within or nullcontext():
                return run(*given)

    def delegated(
        self,
        delegate: Delegate,
        inputs: Sequence[Any] | None = None,
        within: AbstractContextManager[object] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run a delegate, as :meth:`called` does; only the runtime's ``execute`` is within the context."""
        own: Any = delegate._runtime
        delegate._runtime = _Executing(own, within or nullcontext())
        try:
            return self.called(partial(delegate.run, self.method), inputs)
        finally:
            delegate._runtime = own

    def compared(self, what: str, found: object) -> Iterable[Differs]:
        """The differences between a result and the model's."""
        yield from differences(what, self.expected, found, self.tolerance)


class _Executing:
    """A runtime that executes in a context, and passes everything else on to another runtime."""

    def __init__(self, runtime: Any, context: AbstractContextManager[object]) -> None:  # noqa: ANN401
        vars(self).update(_runtime=runtime, _context=context)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(vars(self)["_runtime"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["_runtime"], name, value)

    def execute(self, handle: object, inputs: list[Any]) -> list[Any]:
        """Run a method in the context."""
        with vars(self)["_context"]:
            results: list[Any] = vars(self)["_runtime"].execute(handle, inputs)
            return results


def fresh(value: Any) -> Any:  # noqa: ANN401
    """A copy of a value with new containers and tensors."""
    return with_tensors(value, lambda tensor: tensor.detach().clone())


def differences(
    what: str, expected: object, found: object, tolerance: float | None = None
) -> Iterable[Differs]:
    """The differences between two values; a tolerance holds for tensors and numbers."""
    numbers = (torch.Tensor, float, complex)
    if isinstance(expected, numbers) and isinstance(found, numbers):
        try:
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            yield Differs(f"{what} to be equal", " ".join(str(error).split()))
    elif isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key, item in expected.items():
            yield from differences(f"{what}[{key!r}]", item, found[key], tolerance)
    elif any(
        isinstance(expected, kind) and isinstance(found, kind) and len(expected) == len(found)
        for kind in (list, tuple)  # named tuples count as tuples
    ):
        for number, (item, other) in enumerate(zip(expected, found, strict=True)):  # type: ignore[call-overload]
            yield from differences(f"{what}[{number}]", item, other, tolerance)
    elif type(expected) is not type(found) or expected != found:
        yield Differs(f"{what} to be {_shown(expected)}", _shown(found))


def _shown(value: object, width: int = 100) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= width else f"{text[:width]}…"


# --- operators that PyTorch's dispatcher runs


class InjectedError(RuntimeError):
    """The error of an operator that is made to fail."""


class Dispatches(TorchDispatchMode):  # type: ignore[misc]
    """Notes each operator that PyTorch's dispatcher runs.

    Args:
        failing: the number, from 1, of the operator to make fail; None for none.

    Attributes:
        seen: start, by ``time.perf_counter_ns``, and name with overload of each operator.
    """

    def __init__(self, failing: int | None = None) -> None:
        super().__init__()
        self.failing = failing
        self.seen: list[tuple[int, str]] = []

    def __torch_dispatch__(
        self,
        function: Any,  # noqa: ANN401
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run an operator."""
        self.seen.append((perf_counter_ns(), function.name()))
        if len(self.seen) == self.failing:
            raise InjectedError(f"operator {self.failing}, {function.name()}, was made to fail")
        return function(*args, **(kwargs or {}))

    @property
    def names(self) -> list[str]:
        """The operators' names, with overloads."""
        return [name for _, name in self.seen]


class Event(NamedTuple):
    """An operation in a recording: start and end (ns), debug handle, operator's name."""

    start: int
    end: int
    handle: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} of handle {self.handle}"


class Observed(NamedTuple):
    """A run that was recorded.

    Attributes:
        seen: start (ns) and name of each operator that PyTorch's dispatcher ran.
    """

    recording: Recording
    seen: Sequence[tuple[int, str]]
    start: int
    end: int

    @property
    def events(self) -> list[Event]:
        """The operations in the recording."""
        return [Event(*operation) for operation in self.recording.operations]

    @property
    def same_clock(self) -> bool:
        """Whether the events' times can be those of ``time.perf_counter_ns``: all lie within the run."""
        return all(self.start <= event.start <= event.end <= self.end for event in self.events)

    def around(self, time: int) -> Event | None:
        """The shortest event that a time lies in."""
        running = [event for event in self.events if event.start <= time <= event.end]
        return min(running, key=lambda event: event.end - event.start, default=None)


def observed(subject: Subject) -> Observed | None:
    """A recorded run with the good inputs; None if the backend records nothing."""
    delegate = Delegate.of(subject.lowered.module)
    mode = Dispatches()
    subject.delegated(delegate)  # warms up: operators that only the first run has aren't noted
    try:
        with delegate.recording() as recording:
            start = perf_counter_ns()
            subject.delegated(delegate, within=mode)
            end = perf_counter_ns()
    except LoweringError:
        return None
    return Observed(recording, mode.seen, start, end)


def of_model(subject: Subject) -> list[str]:
    """The operators that PyTorch's dispatcher runs for the model itself."""
    mode = Dispatches()
    subject.called(getattr(subject.module, subject.method), within=mode)
    return mode.names
