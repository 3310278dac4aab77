"""Logs: lines among which no failure is, and failures a second."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.companion.build import build_companion
from archive.companion.parse import parse_companion
from archive.failures.explainer import LogExplainer
from tools.bench.measuring import FIXTURES, ORACLES, Aim, Table, best, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LINES = 200_000
BLOCK = 1 << 16
FLEET = FIXTURES / "fleet"
MODELS = 50
OFTEN = 25
"""How often the log of 200 failures is repeated: those of a service fail again and again."""
ROUNDS = 2
SHARES = (
    "marks are looked for in two fifths of it, the last lines of each block are kept in two fifths, for a "
    "failure may begin there, and lines are counted in a tenth"
)
TIMES = "the time of each line is looked for, which takes 5 µs a failure"
GOALS = {(3, "unique"): 10_000, (3, "plain"): 10_000, (MODELS, "unique"): 8_000, (MODELS, "plain"): 4_000}
"""Failures a second, by the number of models and the log."""
NOTE = (
    "*unique*: handles identify the model; *plain*: only the failure itself does. The 50 models are three, "
    "trained anew: their debug info is the same. Of the *edited* ones, each has other lines. The aims are "
    "for repeated failures."
)
QUIET = b"".join(
    b"2026-01-01 12:00:%02d INFO service request %d took %d ms\n" % (line % 60, line, line * 7 % 100)
    for line in range(LINES)
)


def fleet(folder: Path, count: int, *, edited: bool = False) -> list[Path]:
    """Companions of so many models: those of the fixtures, then the same by other ids and prefixes.

    Args:
        edited: whether the sources of each begin at other lines, too.
    """
    paths = sorted(FLEET.glob("*.ptdbg"))
    known = [parse_companion(memoryview(path.read_bytes())) for path in paths]
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number in range(count):
        contents = known[number % len(known)]
        if number >= len(known):
            columns = {**contents.columns, "file.prefix": np.array([2_000_000_000 + number])}
            if edited:
                columns["source.line"] = columns["source.line"] + number * (columns["source.null"] == 0)
            contents = replace(contents.with_columns(columns), archive_id=number.to_bytes(16, "big"))
        made.append(folder / f"model-{number:04}.ptdbg")
        made[-1].write_bytes(build_companion(contents))
    return made


def line_loop() -> None:
    """What any program that reads lines does at least."""
    for line in io.BytesIO(QUIET):
        if b"Traceback" in line:
            raise AssertionError


def block_search() -> None:
    """Some of what a failure may begin with, looked for in blocks."""
    for start in range(0, len(QUIET), BLOCK):
        block = QUIET[start : start + BLOCK]
        assert not any(mark in block for mark in (b"Traceback", b"Debug info", b"Exception raised"))


def explain(explainer: LogExplainer, log: bytes) -> None:
    """Explain a log in blocks, as a pipe hands it on."""
    for _ in explainer.explain(log[start : start + BLOCK] for start in range(0, len(log), BLOCK)):
        pass


def failures(models: Sequence[Path], name: str, repeated: int) -> float:
    """Failures a second: models are open, of the log, which is repeated, nothing is known."""
    log = (FLEET / f"{name}.log").read_bytes()
    count = log.count(b"Debug info for handle") * repeated
    opened = models_in(list(models))
    try:
        explain(explainer_of(opened), log)
        return count / best(lambda: explain(explainer_of(opened), log * repeated), ROUNDS)
    finally:
        opened.close()


def measure(folder: Path) -> Iterator[Table | Aim]:
    """Both."""
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        loop, search, ours = in_turn(
            line_loop, block_search, partial(explain, LogExplainer.of(opened), QUIET)
        )
    size = len(QUIET) / 1e6
    rows = [
        (name, f"{size / seconds:,.0f} MB/s", f"{seconds / loop:.2f}x")
        for name, seconds in (
            ("`for line in log: mark in line`", loop),
            ("three marks in blocks of 64 KiB", search),
            ("`symbolicate`", ours),
        )
    ]
    yield Table(
        "A log without failures", ("what", "speed", "of the line loop's time"), rows, f"{size:.0f} MB."
    )
    yield Aim("a log without failures, in a Python line loop", ours / loop, 3, "x")
    yield Aim("a log without failures", size / ours, 150, " MB/s", more=True, reason=SHARES)
    rates = []
    for (count, name), goal in GOALS.items():
        models = fleet(folder / f"fleet-{count}", count)
        once, often = (failures(models, name, repeated) for repeated in (1, OFTEN))
        rates.append((count, name, f"{once:,.0f}", f"{often:,.0f}"))
        yield Aim(f"failures a second, {count} models, {name}", often, goal, "", more=True, reason=TIMES)
    models = fleet(folder / "fleet-edited", MODELS, edited=True)
    once, often = (failures(models, "plain", repeated) for repeated in (1, OFTEN))
    rates.append((MODELS, "plain, edited", f"{once:,.0f}", f"{often:,.0f}"))
    headings = ("models", "log", "failures/s, each once", f"each {OFTEN} times")
    yield Table("Failures a second", headings, rates, NOTE)
