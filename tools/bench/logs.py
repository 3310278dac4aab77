"""Logs: lines among which no failure is, of many kinds, and failures a second."""

from __future__ import annotations

import io
from contextlib import closing
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
from archive.store.store import Store
from tools.bench import log_kinds
from tools.bench.measuring import FIXTURES, ORACLES, Aim, Table, best, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

LINES = 200_000
BLOCK = 1 << 16
FLEET = FIXTURES / "fleet"
MODELS = 50
OFTEN = 25
"""How often the log of 200 failures is repeated: those of a service fail again and again."""
ROUNDS = 2
KIND_SIZE = 3_000_000
"""Bytes of a log of each kind."""
GOALS = {(3, "unique"): 10_000, (3, "plain"): 10_000, (MODELS, "unique"): 8_000, (MODELS, "plain"): 4_000}
"""Failures a second, by the number of models and the log."""
GOALS_EDITED = {MODELS: 1_000, 500: 500}
"""New failures a second, by the number of models."""
NOTE = (
    "*unique*: handles identify the model; *plain*: only the failure itself does. The 50 models are three, "
    "trained anew: their debug info is the same. Of the *edited* ones, each has other lines. The aims are "
    "for repeated failures, and for edited models for new ones."
)
QUIET = b"".join(
    b"2026-01-01 12:00:%02d INFO service request %d took %d ms\n" % (line % 60, line, line * 7 % 100)
    for line in range(LINES)
)


def fleet(folder: Path, count: int, *, edited: bool = False) -> list[Path]:
    """Companions of so many models: those of the fixtures, then the same by other ids and prefixes.

    Args:
        folder: of the run; each companion is made once in it.
        edited: whether the sources of each begin at other lines, too.
    """
    known = [parse_companion(memoryview(path.read_bytes())) for path in sorted(FLEET.glob("*.ptdbg"))]
    place = folder / ("fleet-edited" if edited else "fleet")
    place.mkdir(parents=True, exist_ok=True)
    made = [place / f"model-{number:04}.ptdbg" for number in range(count)]
    for number, path in enumerate(made):
        if path.exists():
            continue
        contents = known[number % len(known)]
        if number >= len(known):
            columns = {**contents.columns, "file.prefix": np.array([2_000_000_000 + number])}
            if edited:
                columns["source.line"] = columns["source.line"] + number * (columns["source.null"] == 0)
            contents = replace(contents.with_columns(columns), archive_id=number.to_bytes(16, "big"))
        path.write_bytes(build_companion(contents))
    return made


def linked(paths: Iterable[Path], folder: Path) -> Path:
    """A folder of the same files."""
    folder.mkdir()
    for path in paths:
        (folder / path.name).hardlink_to(path)
    return folder


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


def failures(models: Sequence[Path], name: str, repeated: int, rounds: int = ROUNDS) -> float:
    """Failures a second: models are open, of the log, which is repeated, nothing is known."""
    log = (FLEET / f"{name}.log").read_bytes()
    count = log.count(b"Debug info for handle") * repeated
    opened = models_in(list(models))
    try:
        explain(explainer_of(opened), log)
        return count / best(lambda: explain(explainer_of(opened), log * repeated), rounds)
    finally:
        opened.close()


def measure(folder: Path) -> Iterator[Table | Aim]:
    """All three."""
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
    yield Aim("a log without failures, in a Python line loop", ours / loop, 1.5, "x")
    yield Aim("a log without failures", size / ours, 150, " MB/s", more=True)
    yield from kinds(folder)
    rates = []
    for (count, name), goal in GOALS.items():
        models = fleet(folder, count)
        once, often = (failures(models, name, repeated) for repeated in (1, OFTEN))
        rates.append((count, name, f"{once:,.0f}", f"{often:,.0f}"))
        yield Aim(f"failures a second, {count} models, {name}", often, goal, "", more=True)
    edited = fleet(folder, max(GOALS_EDITED), edited=True)
    for count, goal in GOALS_EDITED.items():
        once = failures(edited[:count], "plain", 1, ROUNDS if count <= MODELS else 1)
        rates.append((count, "plain, edited", f"{once:,.0f}", ""))
        yield Aim(f"new failures a second, {count} edited models", once, goal, "", more=True)
    headings = ("models", "log", "failures/s, each once", f"each {OFTEN} times")
    yield Table("Failures a second", headings, rates, NOTE)


def kinds(folder: Path) -> Iterator[Table | Aim]:
    """Logs of ten kinds without failures, with one model and with a store of many."""
    with Store.open(folder / "store", create=True) as store:
        for path in fleet(folder, MODELS):
            store.add(path)
    rows, speeds, of_loop = [], dict[str, list[float]](), dict[str, list[float]]()
    with archive.open(ORACLES / "plain_stack.ptl") as opened, closing(models_in([folder / "store"])) as kept:
        for kind in log_kinds.KINDS:
            log = log_kinds.log_of(kind, KIND_SIZE)
            loop, *ours = in_turn(
                partial(lines_of, log, log_kinds.encoding_of(kind)),
                partial(explain, LogExplainer.of(opened), log),
                partial(explain, explainer_of(kept), log),
                rounds=ROUNDS,
            )
            speeds[kind] = [len(log) / 1e6 / seconds for seconds in ours]
            of_loop[kind] = [seconds / loop for seconds in ours]
            shown = (
                f"{speed:,.0f} MB/s, {share:.2f}x"
                for speed, share in zip(speeds[kind], of_loop[kind], strict=True)
            )
            rows.append((kind, f"{len(log) / 1e6 / loop:,.0f} MB/s", *shown))
    headings = ("a log of", "line loop", "one model, of the loop's time", f"a store of {MODELS}")
    yield Table("Kinds of logs without failures", headings, rows, f"{KIND_SIZE / 1e6:.0f} MB of each.")
    for at, models in enumerate(("one model", f"a store of {MODELS}")):
        slowest = min(speed[at] for speed in speeds.values())
        yield Aim(f"the slowest of ten kinds of logs, {models}", slowest, 100, " MB/s", more=True)
        plain = min(speeds[kind][at] for kind in log_kinds.PLAIN)
        yield Aim(f"access logs and syslog, {models}", plain, 200, " MB/s", more=True)
        share = max(of_loop[kind][at] for kind in log_kinds.PLAIN)
        yield Aim(f"access logs and syslog, {models}, in a Python line loop", share, 1.5, "x")


def lines_of(log: bytes, encoding: str) -> None:
    """What a program that reads lines in an encoding does at least."""
    if encoding == "utf-8":
        assert not any(b"TorchScript" in line for line in io.BytesIO(log))
    else:
        text = io.TextIOWrapper(io.BytesIO(log), encoding)
        assert not any("TorchScript" in line for line in text)
