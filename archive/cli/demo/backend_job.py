"""The steps of ``debug-archive demo --backend``: each does something real, checks it, and reports it.

A model is lowered, saved, run by stock PyTorch in a process of its own, run and profiled by this library, and
its debug info is split off. Each claim is checked before it is printed; one that does not hold raises
:class:`~archive.cli.demo.claims.ClaimError`.
"""

from __future__ import annotations

import json
import linecache
from dataclasses import asdict
from typing import TYPE_CHECKING

import archive
from archive.backend import BackendError, Delegate, LoweringError, example, save_lowered
from archive.cli.demo.claims import ClaimError, DemoStep, check, explained, handles_in, split_step
from archive.cli.demo.stock import check_same, is_same, run_stock, shown_lines
from archive.debuginfo.profiles.profile import duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive.cli.demo.stock import MarkedLine, StockRun

DEMO_BACKEND = "aten"
LITE_FILE, SCRIPT_FILE = "host.ptl", "host.pt"
DEVICE_FILE, COMPANION_FILE = "device.ptl", "model.ptdbg"
TRACE_FILE = "trace.json"
FILES = (LITE_FILE, SCRIPT_FILE, TRACE_FILE, DEVICE_FILE, COMPANION_FILE)
"""All that are made."""
FAILURES = (ClaimError, LoweringError, BackendError)
"""Raised by steps that do not show what they claim."""


def steps(folder: Path, *, force: bool) -> Iterator[DemoStep]:
    """Do one step after the other: arguments and errors as of :func:`archive.cli.demo.main_job.steps`."""
    model = example.lowered_example(DEMO_BACKEND)
    yield _saved(model, folder, force=force)
    calls = model.calls()
    lite, script = run_stock(folder, [LITE_FILE, SCRIPT_FILE], calls)
    yield _ran(lite, script)
    lines = _failed_at(lite, script)
    yield DemoStep("lite", "The lite interpreter's words about a bad image", lite.error, lite.facts())
    yield DemoStep("torchscript", "TorchScript's words about it", script.error, script.facts())
    delegate = Delegate.load(folder / LITE_FILE)
    yield _delegated(delegate, model, lines)
    yield _profiled(delegate, model, folder, force=force)
    yield split_step(folder, LITE_FILE, DEVICE_FILE, COMPANION_FILE, "The debug info split off", force=force)
    (device,) = run_stock(folder, [DEVICE_FILE], calls)
    check(handles_in(device.error), f"stock PyTorch names handles for {DEVICE_FILE}")
    check("<--- HERE" not in device.error, f"stock PyTorch has no source for {DEVICE_FILE}")
    text = f"{device}\n\nOf the bad image it says:\n\n{device.error}"
    yield DemoStep("device", f"{DEVICE_FILE} in stock PyTorch: numbers are left", text, device.facts())
    yield _explained(device, lite, folder)


def _saved(model: example.Example, folder: Path, *, force: bool) -> DemoStep:
    """Save the lowered model for the lite interpreter and for TorchScript."""
    saved = {name: save_lowered(model.host, folder / name, force=force) for name in (LITE_FILE, SCRIPT_FILE)}
    with archive.open(folder / LITE_FILE) as opened:
        lowered = {path.partition(".")[0]: state.backend for path, state in opened.lowered.items()}
        handles = len(opened.handles)
    check(lowered == {"features": DEMO_BACKEND}, "`features`, and nothing else, is lowered")
    own = saved[LITE_FILE].handles
    text = (
        f"{example.__name__} has an image classifier. "
        f"Its `features` are lowered to the backend {DEMO_BACKEND};\n"
        "the model around them is scripted, and saved twice.\n\n"
        f"{LITE_FILE:<12}{saved[LITE_FILE].size:>9,} bytes   "
        f"for the lite interpreter, {handles:,} debug handles\n"
        f"{SCRIPT_FILE:<12}{saved[SCRIPT_FILE].size:>9,} bytes   for TorchScript\n\n"
        f"{own:,} of the backend's own lead to the source of `features`"
    )
    facts = {
        "source": example.__file__,
        "lowered": lowered,
        "handles": handles,
        "backend_handles": own,
        "files": [
            {"file": name, "path": str(folder / name), "bytes": file.size} for name, file in saved.items()
        ],
    }
    return DemoStep("saved", f"A part of a model, lowered to the backend {DEMO_BACKEND}", text, facts)


def _ran(*runs: StockRun) -> DemoStep:
    lines = map(str, runs)
    text = "A fresh process, which cannot import this library, loads and calls both:\n\n" + "\n".join(lines)
    results = [
        {"file": run.file, "same": is_same(run.difference), "difference": run.difference} for run in runs
    ]
    facts = {"importable": False, "runs": results}
    return DemoStep("stock", "Run by stock PyTorch", text, facts)


def _failed_at(lite: StockRun, script: StockRun) -> list[MarkedLine]:
    """The lines that the lite interpreter shows, of which TorchScript shows the last one, too."""
    lines, others = shown_lines(lite.error), shown_lines(script.error)
    check(lines and others and lines[-1] == others[-1], "lite interpreter and TorchScript show the same line")
    last = lines[-1]
    real = linecache.getline(example.__file__, last.line).strip()
    check((last.file, last.source) == (example.__file__, real), f"{last} is a line of the model: {real}")
    return lines


def _delegated(delegate: Delegate, model: example.Example, expected: list[MarkedLine]) -> DemoStep:
    """Make the lowered part fail in this process, too."""
    difference = float((delegate(model.image) - model.features).abs().max())
    check_same(difference, f"the result of `{delegate.path}` by Delegate")
    try:
        delegate(model.bad)
    except BackendError as error:
        refusal = error
    else:
        raise ClaimError("this does not hold: Delegate refuses what stock PyTorch refuses")
    lines = shown_lines(str(refusal))
    inner = expected[len(expected) - len(lines) :]
    check(lines and lines == inner, f"Delegate shows the lines of stock PyTorch inside of `{delegate.path}`")
    text = (
        f"Delegate.load({LITE_FILE!r}) runs `{delegate.path}`: as eager mode, "
        f"largest difference {difference:.3g}.\n"
        "With the bad image it raises a BackendError that shows the same lines:\n\n"
        f"{refusal}"
    )
    facts = {
        "part": delegate.path,
        "same": is_same(difference),
        "difference": difference,
        "handles": refusal.handles,
        "module_hierarchy": refusal.module_hierarchy,
        "lines": [line._asdict() for line in lines],
        "same_lines": True,
        "text": str(refusal),
    }
    return DemoStep("delegate", "The same failure, in this process", text, facts)


def _profiled(delegate: Delegate, model: example.Example, folder: Path, *, force: bool) -> DemoStep:
    """Profile a run of the lowered part, and save it as a trace."""
    with delegate.recording(memory=True) as recording:
        delegate(model.image)
    profile = delegate.profile(recording)
    files = {
        event.place.source.file if event.place.source else None
        for event in profile.events
        if event.handle >= 0  # the backend's own operations have none: it puts results into tuples
    }
    check(files == {example.__file__}, "all operations of the model lead to its lines")
    profile.save(folder / TRACE_FILE, force=force)
    events = json.loads((folder / TRACE_FILE).read_bytes())["traceEvents"]
    operations = sum(traced.get("cat") == "cpu_op" for traced in events)
    check(operations == len(profile.events), f"{TRACE_FILE} has all {len(profile.events)} operations")
    text = f"{profile}\n\n{TRACE_FILE}: {len(events):,} events, for chrome://tracing and ui.perfetto.dev"
    facts = {
        "operations": len(profile.events),
        "total_ns": profile.total_ns,
        "by_module": [asdict(row) for row in profile.by_module()],
        "by_line": [asdict(row) for row in profile.by_line()],
        "trace": str(folder / TRACE_FILE),
        "trace_events": len(events),
    }
    return DemoStep("profile", f"A run, profiled: {duration(profile.total_ns)} in operations", text, facts)


def _explained(device: StockRun, lite: StockRun, folder: Path) -> DemoStep:
    """Explain the device's error by the companion."""
    said = explained(folder / COMPANION_FILE, device.error.encode())
    same = said == lite.error
    check(same, f"{COMPANION_FILE} makes of it what stock PyTorch says with the source at hand")
    text = f"{said.rstrip()}\n\nThat is, to the byte, what stock PyTorch says of {LITE_FILE}."
    facts = {"same_text": same, "lines": [line._asdict() for line in shown_lines(said)], "text": said}
    return DemoStep("explained", f"The same, explained by {COMPANION_FILE}", text, facts)
