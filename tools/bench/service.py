"""In a service: failures that are explained where they happen, and all other records."""

from __future__ import annotations

import json
import logging
import traceback
from functools import partial
from typing import TYPE_CHECKING

import archive
from archive.app.errors import MARK
from archive.app.install import explain_record
from tools.bench.logs import FLEET, MODELS, fleet
from tools.bench.measuring import ORACLES, Aim, Table, in_turn, ms, us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KB = 1 << 10
CALLS = 200
TEXT = "2026-01-01 12:00:00 INFO service request 1234 took 12 ms\n" * (64 * KB // 57)
"""A text without a failure, as long as tracebacks are at most."""
RECORD = ("service", logging.INFO, "service.py", 1, "request %d took %d ms", (1234, 12), None)


def formatted(text: str, explainer: archive.Explainer | None = None) -> str:
    """An error that is raised and formatted with its traceback, as a log has it; explained, if it can be."""
    try:
        fail(text)
    except RuntimeError as error:
        if explainer is not None:
            explainer.explain_error(error)
        shown = "".join(traceback.format_exception(error))
    assert (MARK in shown) == (explainer is not None)
    return shown


def fail(text: str) -> None:
    """Fail as a model does."""
    raise RuntimeError(text)


def recorded(explainer: archive.Explainer) -> logging.LogRecord:
    """A record without a failure, made as it is where hooks are installed."""
    record = logging.LogRecord(*RECORD)
    explain_record(record, explainer)
    return record


def failures(folder: Path) -> Iterator[tuple[str, archive.Explainer, str]]:
    """What fails, what explains it, and what PyTorch says."""
    deep, short = (
        (ORACLES / f"{name}.jit.stripped.txt").read_text() for name in ("traced_stack", "plain_unicode")
    )
    lite: str = json.loads((FLEET / "failures.json").read_text())[0]["unique"]
    yield "TorchScript, one model", archive.Explainer(ORACLES / "traced_stack.pt").warm(), deep
    models = [*fleet(folder, MODELS), *sorted(ORACLES.glob("*.pt"))]
    many = archive.Explainer(models).warm()
    yield f"TorchScript, {len(models)} models", many, deep
    yield f"TorchScript, {len(models)} models, short", many, short
    yield f"lite interpreter, {len(models)} models", many, lite


def measure(folder: Path) -> Iterator[Table | Aim]:
    """Both."""
    rows = []
    for what, explainer, text in failures(folder):
        plain, noted = in_turn(partial(formatted, text), partial(formatted, text, explainer), calls=CALLS)
        rows.append((what, us(plain), ms(noted), f"{noted / plain:.0f}x"))
        yield Aim(f"a failure that is noted: {what}", (noted - plain) * 1e3, 5, " ms")
    headings = ("an error is raised and formatted", "as it is", "with a note", "")
    yield Table("In a service: failures", headings, rows, "Models are read before.")
    search: Callable[[], object] = partial(str.__contains__, TEXT, "Traceback")
    other = partial(explainer.explain_event, TEXT)
    looked, passed = in_turn(search, other, calls=CALLS)
    own, ours = in_turn(partial(logging.LogRecord, *RECORD), partial(recorded, explainer), calls=50 * CALLS)
    rows = [
        ("a text of 64 KB, searched for one word", us(looked), us(passed), f"{passed / looked:.1f}x"),
        ("a log record is made", us(own), us(ours), f"{ours / own:.1f}x"),
    ]
    yield Table("In a service: all else", ("without a failure", "as it is", "with hooks", ""), rows)
    yield Aim("a text without a failure, a KB", passed * 1e6 / (len(TEXT) / KB), 20, " µs")
    yield Aim("a log record without a failure", (ours - own) * 1e6, 20, " µs")
