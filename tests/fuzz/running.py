"""Runs of a target: a seeded generator changes inputs; what fails is a finding."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz import archive_targets, companion_targets, file_targets, record_targets, tensor_targets
from tests.support.cost import loop_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fuzz.targets import Target

FOUND = Path(__file__).parent / "found"
"""Inputs that once broke something, a folder for each target."""
TARGETS = {
    **record_targets.TARGETS,
    **companion_targets.TARGETS,
    **file_targets.TARGETS,
    **tensor_targets.TARGETS,
}
ALL_TARGETS = {**TARGETS, **archive_targets.TARGETS}
KEPT = 400
"""Mutated inputs that were read, and are changed again."""
SLOW = 500
"""Loops of CPU from which on an execution of a few KB is a finding, too: see :mod:`tests.support.cost`."""


@dataclass(slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        runs: number of executions.
        accepted: number of inputs that were read.
        seconds: of CPU, all executions and changes together.
        findings: inputs that broke something, by what they broke.
    """

    runs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    findings: dict[str, bytes] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Executions a second of CPU."""
        return self.runs / self.seconds if self.seconds else 0.0


def inputs(target: Target, chance: Random) -> Iterator[tuple[bytes, list[bytes]]]:
    """Changed inputs without end, each with the list of those kept, where well-read ones are put."""
    kept = list(target.seeds)
    while True:
        yield target.mutate(chance, chance.choice(kept)), kept


def run(target: Target, seed: str, *, runs: int, seconds: float = float("inf")) -> Outcome:
    """Execute a target on changed inputs.

    Args:
        target: what reads the inputs.
        seed: the same one gives the same inputs, as long as the code reads the same of them.
        runs: number of executions.
        seconds: of CPU, after which the run ends all the same.
    """
    chance = Random(seed)  # noqa: S311 (no secret)
    outcome = Outcome()
    slow = SLOW * loop_time()
    start = before = time.process_time()
    for data, kept in inputs(target, chance):
        accepted, problem = attempt(target, data)
        now = time.process_time()
        if not problem and now - before > slow and now - before > SLOW * loop_time():
            problem = f"slow: {now - before:.1f} s"
            now = time.process_time()
        before = now
        if problem:
            outcome.findings.setdefault(problem, data)
        elif accepted:
            outcome.accepted += 1
            kept.append(data)
            if len(kept) > KEPT + len(target.seeds):
                del kept[chance.randrange(len(target.seeds), len(kept))]
        outcome.runs += 1
        outcome.seconds = now - start
        if outcome.runs >= runs or outcome.seconds > seconds:
            return outcome
    raise AssertionError


def attempt(target: Target, data: bytes) -> tuple[bool, str]:
    """Whether an input is read, and the problem that it shows; "" for none."""
    try:
        return target.accepts(data), ""
    except Exception as error:  # noqa: BLE001 (of any kind)
        return False, f"{type(error).__name__} at {_place(error)}"


def _place(error: BaseException) -> str:
    """The innermost line of the library, or of a target, that an error came through."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if {"archive", "tests"} & set(file.parts) and "site-packages" not in file.parts:
            places.append(f"{file.parent.name}/{file.name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return places[-1] if places else "?"


def kept_inputs(name: str) -> list[Path]:
    """The inputs that once broke a target."""
    return sorted((FOUND / name).iterdir()) if (FOUND / name).is_dir() else []


def keep(name: str, data: bytes, folder: Path = FOUND) -> Path:
    """Write an input down under its digest."""
    path = folder / name / sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
