"""The backend and the model that rules are tried on: lowered, run and compared."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.conformance.findings import Differs
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from archive.backend.lower.handles import DebugHandles
from archive.backend.lower.lowering import lower
from archive.backend.lower.saving import lowered_archive
from archive.backend.registry import Backend, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from archive.backend.delegate import Delegate
    from archive.backend.graph.graphs import Graph, Operation

FIRST_HANDLE = 1000
"""The first handle that is given out: none that a counter from 0 would reach by chance."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A lowered module, the operations whose handles were given out for it, and what gave them out."""

    module: Any
    operations: Mapping[int, Operation]
    recorder: DebugHandles


@dataclass(frozen=True)
class Subject:
    """What is examined.

    Attributes:
        backend: the backend.
        model: what is lowered to it.
        good: arguments that it takes.
        bad: arguments that it fails with, by the source text that errors shall lead to.
        method: the method that is run.
        spec: the compile spec.
        unsupported: models that cannot be lowered, by the source text that errors shall show.
        unavailable: makes the backend unavailable for as long as its context lasts.
        tolerance: relative and absolute, of results; None for PyTorch's own.
        elsewhere: whether a new process is started.
        available: whether the backend is to be available here.
        gradients: whether the backend is to record gradients.
    """

    backend: Backend
    model: torch.nn.Module
    good: Sequence[Any]
    bad: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    method: str = "forward"
    spec: Mapping[str, Any] | None = None
    unsupported: Mapping[str, torch.nn.Module] = field(default_factory=dict)
    unavailable: Callable[[], AbstractContextManager[object]] | None = None
    tolerance: float | None = None
    elsewhere: bool = True
    available: bool = True
    gradients: bool = True

    @property
    def full_spec(self) -> dict[str, Any]:
        """The compile spec as a backend gets it."""
        given = {self.method: {}} if self.spec is None else self.spec
        return {method: dict(options) or {"": ""} for method, options in given.items()}

    @property
    def endings(self) -> Mapping[str, bool]:
        """The kinds of archives that the link supports: whether each is for the lite interpreter."""
        return {".pt": False} if self.backend.link is Link.CLASS else {".pt": False, ".ptl": True}

    def lower(self, recorder: DebugHandles | None = None) -> Any:  # noqa: ANN401 (a ScriptModule)
        """The model, lowered once more."""
        spec = {self.method: {}} if self.spec is None else self.spec
        return lower(self.model, self.backend.name, spec, recorder=recorder)

    @cached_property
    def lowered(self) -> Lowered:
        """The model, lowered."""
        recorder = DebugHandles(FIRST_HANDLE)
        module = self.lower(recorder)
        return Lowered(module, dict(recorder.operations), recorder)

    @cached_property
    def archives(self) -> Mapping[str, bytes]:
        """Its archives by their endings."""
        return {
            ending: lowered_archive(self.lowered.module, lite=lite) for ending, lite in self.endings.items()
        }

    @cached_property
    def graphs(self) -> Mapping[str, Graph]:
        """The model's own graphs, as a backend is given them."""
        known = isinstance(self.model, torch.jit.ScriptModule)
        scripted = self.model if known else torch.jit.script(self.model)
        places = RangeFinder.of(scripted._c)
        return {method: inlined(scripted._c, method, places) for method in self.full_spec}

    @cached_property
    def expected(self) -> Any:  # noqa: ANN401
        """What the model gives for the good inputs."""
        return self.called(getattr(self.model, self.method))

    def called(
        self,
        run: Callable[..., Any],
        inputs: Sequence[Any] | None = None,
        within: AbstractContextManager[object] | None = None,
    ) -> Any:  # noqa: ANN401
        """What something gives, run in a context. Random numbers are the same each time.

        Args:
            run: it.
            inputs: it gets copies of these; by default of the good ones.
            within: the context.
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
        """What the backend's runtime gives, as :meth:`called`; nothing but its run is within the context."""
        own: Any = delegate._runtime
        delegate._runtime = _Executing(own, within or nullcontext())
        try:
            return self.called(partial(delegate.run, self.method), inputs)
        finally:
            delegate._runtime = own

    def compared(self, what: str, found: object) -> Iterable[Differs]:
        """Whether a result is what the model gives."""
        yield from differences(what, self.expected, found, self.tolerance)


class _Executing:
    """A runtime that executes within a context, and is another one's in all else."""

    def __init__(self, runtime: Any, context: AbstractContextManager[object]) -> None:  # noqa: ANN401
        vars(self).update(_runtime=runtime, _context=context)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(vars(self)["_runtime"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["_runtime"], name, value)

    def execute(self, handle: object, inputs: list[Any]) -> list[Any]:
        """Run a method."""
        with vars(self)["_context"]:
            results: list[Any] = vars(self)["_runtime"].execute(handle, inputs)
            return results


def fresh(value: Any) -> Any:  # noqa: ANN401
    """A copy of a value with containers and tensors of its own."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: fresh(one) for key, one in value.items()}
    if isinstance(value, list):
        return [fresh(one) for one in value]
    if isinstance(value, tuple):
        made = [fresh(one) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value


def differences(
    what: str, expected: object, found: object, tolerance: float | None = None
) -> Iterable[Differs]:
    """Where two values differ: tensors and numbers beyond a tolerance, all else at all.

    Args:
        what: names the value.
        expected: the value as it should be.
        found: as it is.
        tolerance: relative and absolute; None for that of the element type.
    """
    numbers = (torch.Tensor, float, complex)
    if isinstance(expected, numbers) and isinstance(found, numbers):
        try:
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            yield Differs(f"{what} to be equal", " ".join(str(error).split()))
    elif isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key, one in expected.items():
            yield from differences(f"{what}[{key!r}]", one, found[key], tolerance)
    elif _alike(expected, found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):  # type: ignore[call-overload]
            yield from differences(f"{what}[{number}]", one, other, tolerance)
    elif type(expected) is not type(found) or expected != found:
        yield Differs(f"{what} to be {_shown(expected)}", _shown(found))


def _alike(expected: object, found: object) -> bool:
    """Whether both are lists, or both tuples, named or not, of the same length."""
    return any(
        isinstance(expected, kind) and isinstance(found, kind) and len(expected) == len(found)
        for kind in (list, tuple)
    )


def _shown(value: object, width: int = 100) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= width else f"{text[:width]}…"
