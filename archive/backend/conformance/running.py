"""Rules about runs: ``interface``, ``results``, ``handles``, ``events``, ``gradients``."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.backend.conformance.findings import Differs, Unseen, of_error
from archive.backend.conformance.subject import differences, fresh, observed, of_model
from archive.backend.delegate import Delegate
from archive.backend.errors import NO_HANDLE
from archive.effects.nested import tensors_in, with_tensors
from archive.reader.opening import open as open_archive

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.conformance.findings import Said
    from archive.backend.conformance.subject import Observed, Subject
    from archive.backend.graph.graphs import Operation
    from archive.debuginfo.model import SourceRange
    from archive.reader.archive import Archive

    Gradients = dict[str, torch.Tensor | None]


# --- gradients


def gradients(subject: Subject) -> Said:
    """Check that inputs and parameters get the gradients that they get from the model."""
    if not subject.gradients:
        yield Unseen("the test says that the backend records none")
        return
    try:
        expected = _gradients(subject, getattr(subject.module, subject.method))
    except (RuntimeError, NotImplementedError) as error:
        yield Unseen(f"the model has none: {of_error(error)}")
        return
    if not any(gradient is not None for gradient in expected.values()):
        yield Unseen("the model's results have none")
        return
    module = subject.lowered.module
    ways = {
        "TorchScript": getattr(module, subject.method),
        "the runtime": partial(Delegate.of(module).run, subject.method),
    }
    for way, run in ways.items():
        try:
            actual = _gradients(subject, run)
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            yield Differs(f"{way} to run where gradients are recorded", of_error(error))
            continue
        for name, gradient in expected.items():
            if gradient is None:
                continue
            if (other := actual[name]) is None:
                yield Differs(f"{way}: a gradient of {name}", "none")
            else:
                yield from differences(f"{way}: the gradient of {name}", gradient, other, subject.tolerance)


def _gradients(subject: Subject, run: Callable[..., Any]) -> Gradients:
    """The gradients of inputs and parameters by name; None for those that no result depends on."""
    inputs = fresh(tuple(subject.good))
    leaves = {
        f"input {place}": tensor
        for place, tensor in enumerate(tensors_in(inputs))
        if tensor.is_floating_point()
    }
    for leaf in leaves.values():
        leaf.requires_grad_()
    leaves |= {
        name: parameter for name, parameter in subject.module.named_parameters() if parameter.requires_grad
    }
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        # A model may change its tensors in place, which PyTorch forbids for leaves.
        copied = with_tensors(inputs, torch.Tensor.clone)
        results = [result for result in tensors_in(run(*copied)) if result.requires_grad]
        if not results or not leaves:
            return dict.fromkeys(leaves)
        seeds = [
            torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).view_as(result) for result in results
        ]
        of_leaves = torch.autograd.grad(results, [*leaves.values()], seeds, allow_unused=True)
    return dict(zip(leaves, of_leaves, strict=True))


# --- running

CONSTANT_KIND = "prim::Constant"


def interface(subject: Subject) -> Said:
    """Check that the runtime has the methods and attributes of the registry's protocol."""
    runtime: Any = subject.backend.runtime()
    missing = [
        name for name in ("is_available", "compile", "execute") if not callable(getattr(runtime, name, None))
    ]
    for name in missing:
        yield Differs(f"a runtime with the method {name}", "none")
    if not isinstance(getattr(runtime, "last_handle", None), int):
        yield Differs("a runtime with an int as last_handle", repr(getattr(runtime, "last_handle", None)))
        return
    if missing:
        return
    delegate = Delegate.of(subject.lowered.module)
    uncompiled = subject.full_spec.keys() - delegate._compiled.keys()
    for method in sorted(uncompiled):
        yield Differs(f"compile to give something for method {method}", "nothing")
    if delegate._runtime.last_handle != NO_HANDLE:
        yield Differs("last_handle -1 before a run", repr(delegate._runtime.last_handle))
    if subject.method not in uncompiled:
        subject.delegated(delegate)
        if delegate._runtime.last_handle != NO_HANDLE:
            yield Differs("last_handle -1 after a run", repr(delegate._runtime.last_handle))


def results(subject: Subject) -> Said:
    """Check that TorchScript and the runtime give the model's results, twice."""
    module = subject.lowered.module
    delegate = Delegate.of(module)
    for time in ("first", "second"):
        yield from subject.compared(
            f"the result of TorchScript's {time} run", subject.called(getattr(module, subject.method))
        )
        yield from subject.compared(f"the result of the runtime's {time} run", subject.delegated(delegate))


def handles(subject: Subject) -> Said:
    """Check that each handle of the saved archive leads to the model's source."""
    given = subject.lowered.operations
    own = _own(subject)
    saved: set[int] = set()
    if not given:
        yield Differs("debug handles to be given out", "none")
    for ending, data in subject.archives.items():
        with open_archive(data, name=f"{subject.backend.name}{ending}") as opened:
            saved |= {int(handle) for state in opened.lowered.values() for handle in state.handles}
            for handle in sorted(saved - given.keys()):
                yield Differs(f"{ending}: handles in the state that were given out", str(handle))
            for handle in sorted(saved | given.keys()):
                yield from _resolved(ending, opened, handle, given.get(handle), own)
    if not saved:
        yield Unseen("the state has no <debug_handle>N; its handles are seen only in events and errors")


class _Own(NamedTuple):
    """The model's own operations.

    Attributes:
        lost: the kinds of those without a source range.
        places: the source ranges of operations and calls, as :func:`_key` gives them.
    """

    kinds: set[str]
    lost: set[str]
    places: set[object]


def _own(subject: Subject) -> _Own:
    operations = [operation for graph in subject.graphs.values() for operation in graph.operations()]
    kinds = {CONSTANT_KIND, *(operation.kind for operation in operations)}
    lost = {operation.kind for operation in operations if _key(operation.range) is None}
    spans = [operation.range for operation in operations] + [
        call.range for operation in operations for call in operation.stack
    ]
    return _Own(kinds, lost, {*map(_key, spans)})


def _resolved(ending: str, opened: Archive, handle: int, operation: Operation | None, own: _Own) -> Said:
    """Check that a handle leads to the model's source; without an operation, it was not given out."""
    if handle not in opened.handles:
        if operation is not None and operation.kind in own.lost:
            yield Unseen(f"{ending}: handle {handle}: PyTorch gives no place for this {operation.kind}")
        else:
            what = "" if operation is None else f" ({operation.kind})"
            yield Differs(f"{ending}: handle {handle}{what} in the archive", "none")
        return
    explained = opened.symbolicate(handle)
    name = str(explained.entries[0].op)
    if operation is not None and name != operation.kind:
        yield Differs(f"{ending}: handle {handle} to be {operation.kind}", name)
    if name not in own.kinds:
        yield Differs(f"{ending}: handle {handle} to be an operator of the model", name)
    spans = [frame.range for frame in explained.frames if frame.range is not None]
    places = ["none"] if explained.frames[-1].range is None else []
    places += [f"{span.source.filename}:{span.line}" for span in spans if _key(span) not in own.places]
    for place in places:
        yield Differs(f"{ending}: handle {handle} ({name}) at a place in the model's source", place)


def _key(span: SourceRange | None) -> tuple[bytes, bytes, int, int] | None:
    """A source range as a value that can be compared; None for a range without text."""
    if span is None or not len(span.source.text):
        return None
    return bytes(span.source.text), bytes(span.source.filename or b""), span.start, span.end


def events(subject: Subject) -> Said:
    """Check that events have handles that were given out, and the operators of these handles."""
    run = observed(subject)
    if run is None:
        yield Unseen("the runtime has no `profiling`, and records no events")
        return
    given = subject.lowered.operations
    for event in run.events:
        if event.handle not in given:
            yield Differs(f"the event {event.name} with a handle that was given out", str(event.handle))
        elif event.name != given[event.handle].kind:
            yield Differs(f"the event of handle {event.handle} to be {given[event.handle].kind}", event.name)
        if event.start > event.end:
            yield Differs(f"the event {event} to end after its start", f"{event.start - event.end} ns before")
    for _, handle, *_ in run.recording.memory:
        if handle not in given and handle != NO_HANDLE:
            yield Differs("memory events with a handle that was given out", str(handle))
    yield from _covered(subject, run)


def _covered(subject: Subject, run: Observed) -> Said:
    """Check that the operators that PyTorch runs for the model run within events."""
    names = of_model(subject)
    if not names or not run.seen:
        yield Unseen("PyTorch's dispatcher runs nothing; events that are missing are not seen")
        return
    if not run.same_clock:
        yield Unseen("events don't have the times of time.perf_counter_ns; missing ones are not seen")
        return
    everywhere = Counter(name for _, name in run.seen)
    inside = Counter(name for time, name in run.seen if run.around(time) is not None)
    for name, count in Counter(names).items():
        asked = min(count, everywhere[name])
        if inside[name] < asked:
            yield Differs(f"{asked} times {name} within events", str(inside[name]))
