"""Failures of several models, whose lines stand between one another: each is explained as it is alone."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from tests.failures.framings import FRAMINGS, SECOND, Framing
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.reports import case
from tests.support.sampling import examples
from tests.support.strategies import patient

TRACEBACKS = [case(name) for name in ("plain_free_functions.jit", "traced_stack.jit", "lowered_shape.jit")]
MODELS = models_in([FLEET, *(report.path for report in TRACEBACKS)])
MIXED = [framing for framing in FRAMINGS.values() if framing.is_mixed]
SOME = FAILURES[::9]


class Said(NamedTuple):
    """A failure as a process logs it, and as it is where it is explained."""

    name: str
    text: str
    explained: str


SAID = [
    *(Said(one.model, one.unique, one.explained) for one in SOME),
    *(Said(one.model, one.plain, one.explained) for one in SOME),
    *(Said(one.path.stem, one.stripped.decode(), one.full.decode()) for one in TRACEBACKS),
]


def texts(failures: list[Said], *, is_named: bool) -> list[str]:
    """The lines of a process."""
    found = []
    for one in failures:
        found += [*([f"running {one.name}"] if is_named else []), *one.text.removesuffix("\n").split("\n")]
    return [*found, "ready"]


def explained(log: list[str], names: str | None) -> list[str]:
    data = "".join(f"{line}\n" for line in log).encode()
    text = b"".join(explainer_of(MODELS, names=names).explain([data]))
    return text.decode().removesuffix("\n").split("\n")


def demultiplexed(framing: Framing, log: list[str], process: int) -> list[str]:
    """The texts of one process."""
    return [text.rstrip() for owner, text in map(framing.parsed, log) if owner == process]


@st.composite
def processes(draw: st.DrawFn, *, is_named: bool) -> list[list[str]]:
    """The lines of two to four processes, each with one or two failures."""
    failures = st.lists(st.sampled_from(SAID), min_size=1, max_size=2)
    return [texts(one, is_named=is_named) for one in draw(st.lists(failures, min_size=2, max_size=4))]


def merged(data: st.DataObject, framing: Framing, logs: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The lines of processes between one another, and those of each alone."""
    owners = [number for number, log in enumerate(logs) for _ in log]
    left = [iter(log) for log in logs]
    mixed, alone = list[str](), [list[str]() for _ in logs]
    for at, owner in enumerate(data.draw(st.permutations(owners))):
        line = framing.line(owner + 1, SECOND + at * 1_234_560, next(left[owner]))
        mixed.append(line)
        alone[owner].append(line)
    return mixed, alone


@settings(patient, max_examples=examples(60))
@given(framing=st.sampled_from(MIXED), data=st.data())
@pytest.mark.parametrize("names", [None, r"running (\w+)"], ids=["unnamed", "named"])
def test_each_failure_is_explained_as_if_its_process_were_alone(
    names: str | None, framing: Framing, data: st.DataObject
) -> None:
    """Where lines name the models, those of the failure's own process count."""
    mixed, alone = merged(data, framing, data.draw(processes(is_named=names is not None)))
    found = explained(mixed, names)
    for number, log in enumerate(alone, 1):
        expected = demultiplexed(framing, explained(log, names), number)
        assert demultiplexed(framing, found, number) == expected


@pytest.mark.parametrize("framing", MIXED)
def test_processes_that_fail_at_once_are_all_explained(framing: Framing) -> None:
    """A line of each in turn; each failure names its model."""
    named = [one for one in SAID if one.name in {"Ranker", "Encoder", "plain_free_functions"}]
    some = [named[0], named[10], named[-1]]
    logs = [texts([one], is_named=False) for one in some]
    mixed = [
        framing.line(number, at * SECOND, line[0])
        for at in range(max(map(len, logs)))
        for number, log in enumerate(logs, 1)
        if (line := log[at : at + 1])
    ]
    found = explained(mixed, None)
    for number, one in enumerate(some, 1):
        lines = [*one.explained.removesuffix("\n").split("\n"), "ready"]
        assert demultiplexed(framing, found, number) == [line.rstrip() for line in lines]


BY_NAME = Framing(
    lambda process, _, text: f"{'_ab'[process]} | {text}",
    lambda line: ("_ab".index(line[0]), line[4:]),
)
"""Prefixes that do not only differ in numbers."""


@pytest.mark.parametrize("framing", [*MIXED, BY_NAME])
@pytest.mark.parametrize("between", [1, 2, 3, 4])
def test_what_directly_follows_a_heading_may_be_another_process_that_fails(
    between: int, framing: Framing
) -> None:
    """All ranks of a training fail at once: behind one's heading stand another's first lines."""
    one, other = (texts([said], is_named=False) for said in SAID[-2:])
    heading = next(at for at, text in enumerate(one, 1) if text.startswith("Traceback"))
    order = [1] * heading + [2] * between + [1] * (len(one) - heading) + [2] * (len(other) - between)
    left = {1: iter(one), 2: iter(other)}
    log = [framing.line(owner, at * SECOND, next(left[owner])) for at, owner in enumerate(order)]
    found = explained(log, None)
    for number, said in enumerate(SAID[-2:], 1):
        expected = [*said.explained.removesuffix("\n").split("\n"), "ready"]
        assert demultiplexed(framing, found, number) == [text.rstrip() for text in expected]
