"""What the parts of the benchmarks share: times of the processor, models on the disk, tables, and aims.

Times are those of the processor, the least of several runs: other work on the machine lengthens them less
than a clock's. What is compared takes turns in one run, so that whatever else happens falls on all of it.
"""

from __future__ import annotations

import importlib
import os
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
ORACLES = FIXTURES / "oracles"
COMMAND = (sys.executable, "-m", "archive")
"""How a new process runs ``debug-archive``."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of processes: modules are compiled once, as users have it."""


class Table(NamedTuple):
    """A table of one part.

    Attributes:
        title: its heading.
        headings: of its columns.
        rows: their cells.
        note: what a reader has to know.
        after: the same, after the table.
    """

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    note: str = ""
    after: str = ""

    def __str__(self) -> str:
        lines = [self.headings, ("---",) * len(self.headings), *self.rows]
        table = "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
        return "\n\n".join(filter(None, (f"## {self.title}", self.note, table, self.after)))


class Aim(NamedTuple):
    """What a part should reach.

    Attributes:
        what: is measured.
        measured: by this run.
        goal: the most that it should be; the least, if ``more`` is better.
        unit: of both, with a blank before it if there should be one.
        more: whether more is better.
        reason: why it is missed, if it is.
        tried: what was tried to reach it, and what that gave.
    """

    what: str
    measured: float
    goal: float
    unit: str
    more: bool = False
    reason: str = ""
    tried: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the goal is reached."""
        return self.measured >= self.goal if self.more else self.measured <= self.goal

    @property
    def why(self) -> str:
        """A sentence on why it is missed, and one on what was tried; "" if it is met, or nothing is known."""
        sentences = (self.reason, self.tried and f"tried: {self.tried}")
        said = [f"{text[:1].upper()}{text[1:]}." for text in sentences if text]
        return "" if self.is_met else " ".join(said)


def aims_table(aims: Sequence[Aim]) -> Table:
    """All aims, each miss with the number of its reason, which several may share; and the reasons."""
    reasons = {
        why: number for number, why in enumerate(dict.fromkeys(filter(None, (aim.why for aim in aims))), 1)
    }
    rows = []
    for aim in aims:
        verdict = f"missed, {reasons[aim.why]}" if aim.why else "missed"
        bound = f"{'≥' if aim.more else '≤'} {number(aim.goal)}{aim.unit}"
        rows.append((aim.what, bound, f"{number(aim.measured)}{aim.unit}", "" if aim.is_met else verdict))
    missed = sum(not aim.is_met for aim in aims)
    note = f"{len(aims) - missed} of {len(aims)} are reached. Numbers lead to the reasons below."
    after = "\n".join(f"{number}. {why}" for why, number in reasons.items())
    return Table("Aims, and what is missed", ("what", "aim", "measured", ""), rows, note, after)


def number(value: float) -> str:
    """A number with three digits, or all of a larger one, with commas."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"  # noqa: PLR2004


def ms(seconds: float) -> str:
    """Milliseconds."""
    return f"{seconds * 1e3:.2f} ms"


def us(seconds: float) -> str:
    """Microseconds."""
    return f"{seconds * 1e6:.2f} µs"


def release_archives() -> list[Path]:
    """The archives that PyTorch's releases wrote."""
    paths = (FIXTURES / "releases").rglob("*.pt*")
    return sorted(path for path in paths if path.suffix in {".pt", ".ptl"})


def in_turn(*ways: Callable[[], object], rounds: int = 5, calls: int = 1, warm: int = 1) -> list[float]:
    """Seconds of the processor that a call of each way takes at its best; ways take turns.

    Args:
        ways: what is measured; the processes that it starts count.
        rounds: how often each is measured.
        calls: of each, one after the other, in a round.
        warm: calls of each before the first round: caches are filled, TorchScript optimises.
    """
    for way in ways:
        for _ in range(warm):
            way()
    times = [float("inf")] * len(ways)
    for _ in range(rounds):
        for place, way in enumerate(ways):
            start = spent()
            for _ in range(calls):
                way()
            times[place] = min(times[place], (spent() - start) / calls)
    return times


def spent() -> float:
    """Seconds of the processor that this process and those that it waited for have taken."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the processor of the fastest of some runs."""
    return in_turn(work, rounds=rounds, warm=0)[0]


def run(*words: object, statuses: Sequence[int] = (0,), folder: Path = FIXTURES) -> None:
    """Run a process whose output nobody reads.

    Raises:
        AssertionError: its status is another.
    """
    done = subprocess.run([*map(str, words)], cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)  # noqa: S603
    assert done.returncode in statuses, (words, done.returncode, done.stderr)


class Measured(NamedTuple):
    """What a part measured.

    Attributes:
        seconds: that it took, by the clock.
        error: the traceback if it failed; else "".
    """

    part: str
    results: Sequence[Table | Aim]
    seconds: float
    error: str


def measured_by(part: str, folder: Path) -> Measured:
    """What a part measures."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler logs each run otherwise
    start, results, error = time.monotonic(), list[Table | Aim](), ""
    try:
        results.extend(importlib.import_module(f"tools.bench.{part}").measure(folder))
    except Exception:  # noqa: BLE001 (the other parts are measured all the same)
        error = traceback.format_exc()
    return Measured(part, results, time.monotonic() - start, error)
