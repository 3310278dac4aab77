"""The steps of ``debug-archive demo --backend``: each does something real, checks it, and tells of it.

A model is lowered, saved, run by stock PyTorch in a process of its own, run and profiled by this library, and
its debug information split off. Whatever is claimed has been compared before; what does not hold is a
:class:`ClaimError`.
"""

from __future__ import annotations

import io
import json
import linecache
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console

import archive
from archive.backend import BackendError, Delegate, LoweringError, example, save_lowered
from archive.backend.profile.text import duration
from archive.base.output import check_target
from archive.cli.demo_stock import (
    HANDLES,
    ClaimError,
    check,
    check_same,
    is_same,
    run_stock,
    shown_lines,
)
from archive.report.outcome_text import Sized, split_text
from archive.verbs.logs import Explainer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive.cli.demo_stock import Line, Run

BACKEND = "aten"
LITE, SCRIPT, TRACE, DEVICE, COMPANION = "host.ptl", "host.pt", "trace.json", "device.ptl", "model.ptdbg"
WIDTH = 100
FAILURES = (ClaimError, LoweringError, BackendError)
"""What steps raise when they do not show what they should."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was done.

    Attributes:
        name: of its facts.
        title: what it shows.
        text: the output.
        facts: the same for programs.
    """

    name: str
    title: str
    text: str
    facts: dict[str, object]


def check_targets(folder: Path, *, force: bool) -> None:
    """Refuse a folder in which one of the files would be replaced.

    Raises:
        ArchiveError: one exists, and ``force`` is not given.
    """
    for name in (LITE, SCRIPT, TRACE, DEVICE, COMPANION):
        check_target(folder / name, force=force)


def steps(folder: Path, *, force: bool) -> Iterator[Step]:
    """Do one step after the other.

    Args:
        folder: what is made goes there.
        force: replace existing files.

    Raises:
        ClaimError: something does not hold.
        ArchiveError: a file exists and ``force`` is not given.
        OSError: a file cannot be written.
    """
    model = example.lowered_example(BACKEND)
    yield _saved(model, folder, force=force)
    calls = model.calls()
    lite, script = run_stock(folder, [LITE, SCRIPT], calls)
    yield _ran(lite, script)
    lines = _failed_at(lite, script)
    yield Step("lite", "The lite interpreter's words about a bad image", lite.error, lite.facts())
    yield Step("torchscript", "TorchScript's words about it", script.error, script.facts())
    delegate = Delegate.load(folder / LITE)
    yield _delegated(delegate, model, lines)
    yield _profiled(delegate, model, folder, force=force)
    yield _split(folder, force=force)
    (device,) = run_stock(folder, [DEVICE], calls)
    yield _stripped(device)
    yield _explained(device, lite, folder)


def _saved(model: example.Example, folder: Path, *, force: bool) -> Step:
    saved = {name: save_lowered(model.host, folder / name, force=force) for name in (LITE, SCRIPT)}
    with archive.open(folder / LITE) as opened:
        lowered = {path.partition(".")[0]: state.backend for path, state in opened.lowered.items()}
        handles = len(opened.handles)
    check(lowered == {"features": BACKEND}, "`features`, and nothing else, is lowered")
    own = saved[LITE].handles
    text = (
        f"{example.__name__} has an image classifier. Its `features` are lowered to the backend {BACKEND};\n"
        "the model around them is scripted, and saved twice.\n\n"
        f"{LITE:<12}{saved[LITE].size:>9,} bytes   for the lite interpreter, {handles:,} debug handles\n"
        f"{SCRIPT:<12}{saved[SCRIPT].size:>9,} bytes   for TorchScript\n\n"
        f"{own:,} of the backend's own lead to the source of `features`"
    )
    facts = {
        "source": example.__file__,
        "lowered": lowered,
        "handles": handles,
        "backend_handles": own,
        "files": [
            {"file": name, "path": str(folder / name), "bytes": one.size} for name, one in saved.items()
        ],
    }
    return Step("saved", f"A part of a model, lowered to the backend {BACKEND}", text, facts)


def _ran(*runs: Run) -> Step:
    lines = map(str, runs)
    text = "A fresh process, which cannot import this library, loads and calls both:\n\n" + "\n".join(lines)
    told = [{"file": run.file, "same": is_same(run.difference), "difference": run.difference} for run in runs]
    facts = {"importable": False, "runs": told}
    return Step("stock", "Run by stock PyTorch", text, facts)


def _failed_at(lite: Run, script: Run) -> list[Line]:
    """The lines that the lite interpreter shows; TorchScript shows the last one, too.

    Raises:
        ClaimError: that is not so, or the last one is no line of the model's source.
    """
    lines, others = shown_lines(lite.error), shown_lines(script.error)
    check(lines and others and lines[-1] == others[-1], "lite interpreter and TorchScript show the same line")
    last = lines[-1]
    real = linecache.getline(example.__file__, last.line).strip()
    check((last.file, last.source) == (example.__file__, real), f"{last} is a line of the model: {real}")
    return lines


def _delegated(delegate: Delegate, model: example.Example, expected: list[Line]) -> Step:
    """The same failure in this process.

    Raises:
        ClaimError: it does not fail at the same lines.
    """
    difference = float((delegate(model.image) - model.features).abs().max())
    check_same(difference, f"the result of `{delegate.path}` by Delegate")
    try:
        delegate(model.bad)
    except BackendError as error:
        found = error
    else:
        raise ClaimError("this does not hold: Delegate refuses what stock PyTorch refuses")
    lines = shown_lines(str(found))
    inner = expected[len(expected) - len(lines) :]
    check(lines and lines == inner, f"Delegate shows the lines of stock PyTorch inside of `{delegate.path}`")
    text = (
        f"Delegate.load({LITE!r}) runs `{delegate.path}`: as eager mode, "
        f"largest difference {difference:.3g}.\n"
        "With the bad image it raises a BackendError that shows the same lines:\n\n"
        f"{found}"
    )
    facts = {
        "part": delegate.path,
        "same": is_same(difference),
        "difference": difference,
        "handles": found.handles,
        "module_hierarchy": found.module_hierarchy,
        "lines": [line._asdict() for line in lines],
        "same_lines": True,
        "text": str(found),
    }
    return Step("delegate", "The same failure, in this process", text, facts)


def _profiled(delegate: Delegate, model: example.Example, folder: Path, *, force: bool) -> Step:
    with delegate.recording(memory=True) as recording:
        delegate(model.image)
    profile = delegate.profile(recording)
    files = {
        event.place.source.file if event.place.source else None
        for event in profile.events
        if event.handle >= 0  # the others are the backend's own: it puts results into tuples
    }
    check(files == {example.__file__}, "all operations of the model lead to its lines")
    profile.save(folder / TRACE, force=force)
    events = json.loads((folder / TRACE).read_bytes())["traceEvents"]
    named = sum(one.get("cat") == "cpu_op" for one in events)
    check(named == len(profile.events), f"{TRACE} has all {len(profile.events)} operations")
    text = f"{profile}\n\n{TRACE}: {len(events):,} events, for chrome://tracing and ui.perfetto.dev"
    facts = {
        "operations": len(profile.events),
        "total_ns": profile.total_ns,
        "by_module": [asdict(row) for row in profile.by_module()],
        "by_line": [asdict(row) for row in profile.by_line()],
        "trace": str(folder / TRACE),
        "trace_events": len(events),
    }
    return Step("profile", f"A run, profiled: {duration(profile.total_ns)} in operations", text, facts)


def _split(folder: Path, *, force: bool) -> Step:
    made = archive.split(folder / LITE, folder / DEVICE, folder / COMPANION, force=force)
    sizes = (Sized(LITE, made.size), Sized(DEVICE, made.out_size), Sized(COMPANION, made.companion_size))
    console = Console(file=io.StringIO(), width=WIDTH)
    with console.capture() as capture:
        console.print(split_text(made, *sizes))
    facts = asdict(made) | {"device": str(folder / DEVICE), "companion": str(folder / COMPANION)}
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    return Step("split", "The debug info split off", text, facts)


def _stripped(device: Run) -> Step:
    """What is left on the device.

    Raises:
        ClaimError: it names no handles, or source.
    """
    check(HANDLES.search(device.error), f"stock PyTorch names handles for {DEVICE}")
    check("<--- HERE" not in device.error, f"stock PyTorch has no source for {DEVICE}")
    text = f"{device}\n\nOf the bad image it says:\n\n{device.error}"
    return Step("device", f"{DEVICE} in stock PyTorch: numbers are left", text, device.facts())


def _explained(device: Run, lite: Run, folder: Path) -> Step:
    """The device's words, with the companion's source.

    Raises:
        ClaimError: that is not what stock PyTorch said where the source was at hand.
    """
    with archive.open(folder / COMPANION) as companion:
        explainer = Explainer(companion)
        said = b"".join(explainer.explain([device.error.encode()])).decode()
    same = said == lite.error and (explainer.explained, explainer.unknown) == (1, 0)
    check(same, f"{COMPANION} makes of it what stock PyTorch says with the source at hand")
    text = f"{said.rstrip()}\n\nThat is, to the byte, what stock PyTorch says of {LITE}."
    facts = {"same_text": same, "lines": [line._asdict() for line in shown_lines(said)], "text": said}
    return Step("explained", f"The same, explained by {COMPANION}", text, facts)
