"""Rules about failures: ``errors``, ``failures``, ``unsupported``."""

from __future__ import annotations

import io
import re
from contextlib import nullcontext
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

import torch
import torch.jit.mobile

from archive.backend.conformance.findings import Differs, Unseen, of_error
from archive.backend.conformance.subject import PART, Dispatches, in_torchscript, observed, of_model
from archive.backend.delegate import Delegate
from archive.backend.errors import NO_HANDLE, BackendError
from archive.base.errors import LoweringError
from archive.debuginfo.frames import FILE, LINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.conformance.findings import Said
    from archive.backend.conformance.subject import Event, Subject

MAX_FAILURES = 128
"""Most operators that are made to fail; if there are more, every n-th one is."""
REPORTED_HANDLE = re.compile(r"Debug info for handle\(s\): (?:debug_handles:\{)?(-?\d+)")
MODULE_PATH = re.compile(r"Module hierarchy:.*")
FILE_AND_LINE = re.compile(FILE + LINE)


def raised(run: Callable[[], object]) -> Exception | None:
    """The exception that a call raises; None if it raises none."""
    try:
        run()
    except Exception as error:  # noqa: BLE001 (which one is what rules ask)
        return error
    return None


def errors(subject: Subject) -> Said:
    """Check that bad inputs fail with the line that they fail at, and that the backend still runs after."""
    if not subject.bad:
        yield Unseen("no bad inputs were given")
    data = subject.archives[".pt"]
    ways = {"lowered": Delegate.of(subject.lowered.module), "loaded": Delegate.load(data)}
    loaded = torch.jit.load(io.BytesIO(data))
    larger = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(subject.larger))
    for text, inputs in subject.bad.items():
        lines: list[str] = []
        for way, delegate in ways.items():
            error = raised(partial(subject.delegated, delegate, inputs))
            yield from _led_back(subject, f"{way}, bad inputs at {text!r}", text, error)
            lines += _lines(error)
            after = subject.delegated(delegate)
            yield from subject.compared(f"{way}, the result after bad inputs at {text!r}", after)
        stock = raised(partial(subject.called, getattr(loaded, subject.method), inputs))
        what = f"TorchScript, bad inputs at {text!r}"
        if stock is None:
            yield Differs(f"{what}: an error", "none")
        elif not any(line in str(stock) for line in lines):
            yield Differs(f"{what}: a line on the way there", of_error(stock))
        for handle in map(int, REPORTED_HANDLE.findall(str(stock))):
            if handle not in subject.lowered.operations:
                yield Differs(f"{what}: a handle that was given out", str(handle))
        lite = raised(partial(subject.called, partial(larger.run_method, subject.method), inputs))
        path = MODULE_PATH.search(str(lite))
        if path and f".{PART}(" not in path[0]:
            what = f"the lite interpreter, as a part, bad inputs at {text!r}"
            yield Differs(f"{what}: a module path with its call", path[0])


def _led_back(subject: Subject, what: str, text: str, error: Exception | None) -> Said:
    """Check that the error of a run is a backend's, and that its handles lead to a line with this text."""
    if not isinstance(error, BackendError):
        yield Differs(f"{what}: a BackendError of an operation", of_error(error))
        return
    handles = error.handles or (NO_HANDLE,)
    unknown = [handle for handle in handles if handle not in subject.lowered.operations]
    for handle in unknown:
        yield Differs(f"{what}: a handle that was given out", str(handle))
    if unknown:
        return
    lines = _lines(error)
    if not any(text in line for line in lines):
        yield Differs(f"{what}: to lead there", lines[-1] if lines else "nowhere")


def _lines(error: Exception | None) -> list[str]:
    """The source lines that an error leads to, outermost first."""
    lines: list[str] = []
    for frame in error.frames if isinstance(error, BackendError) else ():
        if frame.range is not None:
            source = bytes(frame.range.source.text)
            start = source.rfind(b"\n", 0, frame.range.start) + 1
            end = source.find(b"\n", max(frame.range.start, frame.range.end - 1))
            text = source[start : end if end >= 0 else None].decode("utf-8", "backslashreplace")
            lines += [line.strip() for line in text.splitlines()]
    return [line for line in lines if line]


def failures(subject: Subject) -> Said:
    """Check that each failing operator of PyTorch gives the debug handle of the operation that runs it."""
    run = observed(subject)
    delegate = Delegate.of(subject.lowered.module)
    mode = Dispatches()
    subject.delegated(delegate, within=mode)
    names = mode.names
    if not names:
        yield Unseen("PyTorch's dispatcher runs nothing; failures cannot be made")
        return
    if run is not None and ([name for _, name in run.seen] != names or not run.same_clock):
        yield Unseen("profiled runs are not like others; handles are not compared with those of events")
        run = None
    step = ceil(len(names) / MAX_FAILURES)
    if step > 1:
        yield Unseen(f"one of {step} operators was made to fail; {len(names)} run")
    own = set(of_model(subject))

    def fail(number: int, *, profiling: bool) -> None:
        with delegate.recording() if profiling else nullcontext():
            subject.delegated(delegate, within=Dispatches(number))

    for number in range(1, len(names) + 1, step):
        name = names[number - 1]
        event = None if run is None else run.around(run.seen[number - 1][0])
        outside = event is None and (name not in own or bool(run and run.events))
        for profiling in (False,) if run is None else (False, True):
            error = raised(partial(fail, number, profiling=profiling))
            what = f"operator {number}, {name}, made to fail{' while profiling' if profiling else ''}"
            yield from _failed(subject, what, event, error, outside=outside)
    if run is not None:
        reached = {run.around(time) for time, _ in run.seen}
        if unreached := sorted({event.name for event in run.events if event not in reached}):
            yield Unseen(f"PyTorch's dispatcher runs nothing in events of {', '.join(unreached)}")


def _failed(
    subject: Subject, what: str, event: Event | None, error: Exception | None, *, outside: bool
) -> Said:
    """Check that an operator fails by a ``BackendError`` with the handle of the event in which it runs.

    With ``outside`` the operator may belong to no operation of the model, and have no handle.
    """
    if not isinstance(error, BackendError):
        yield Differs(f"{what}: a BackendError of an operation", of_error(error))
        return
    handle, *_ = error.handles or (NO_HANDLE,)
    if event is not None and handle != event.handle:
        yield Differs(f"{what}: handle {event.handle} ({event.name}), as its event has", str(handle))
    elif handle == NO_HANDLE and outside:
        yield Unseen(f"{what}: no operation of the model, as it seems")
    elif handle not in subject.lowered.operations:
        yield Differs(f"{what}: a handle that was given out", str(handle))


def unsupported(subject: Subject) -> Said:
    """Check that models that cannot be compiled are refused, with the line."""
    if not subject.unsupported:
        yield Unseen("no unsupported models were given")
    for text, model in subject.unsupported.items():
        error = raised(partial(in_torchscript, model, subject.backend.name))
        if not isinstance(error, LoweringError):
            yield Differs(f"a LoweringError at {text!r}", of_error(error))
        elif text not in str(error) or not FILE_AND_LINE.search(str(error)):
            yield Differs(f"a LoweringError that shows file, line and {text!r}", of_error(error))
