"""Small files cost little, whatever they ask for: memory, CPU and output of commands stay in the budget."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.costs.cases import CASES, COMMANDS, LOG, OTHERS, OWN, archive_with, task, warm
from tests.costs.measuring import MEMORY, ROOM, SLACK, Budget, Cost, Measurer, Task, take
from tests.costs.pickled import Repeated
from tests.fuzz.mutations import PICKLE_POOL
from tests.support.sampling import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = examples(80)
MOST = 1 << 16
"""Repetitions of drawn cases: as many as every budget allows so far; EXCEEDING has larger ones."""
EXCEEDING = Path(__file__).with_name("exceeding.tsv")
"""Cases that still exceed their budget, a line each: case, command, repetitions, and what is exceeded.

A line goes when the budget holds; a line too many fails."""


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    with Measurer(warm()) as made:
        yield made


def exceeded(measurer: Measurer, asked: Task) -> str:
    return Budget.of(asked.size).exceeded(measurer.cost(asked))


# --- the generators


EXPLAINING = [name for name in sorted(OTHERS) if not name.startswith("torch.save")]
times = st.integers(0, MOST.bit_length() - 1).map(lambda bits: 1 << bits)
commands = st.sampled_from(sorted(COMMANDS))
instructions = st.lists(st.sampled_from(PICKLE_POOL), max_size=4).map(b"".join)
repeated = st.builds(Repeated, instructions, instructions, instructions, instructions, instructions)
FAILURE = b"Debug info for handle(s): debug_handles:{%s}, was not found.\n"
logs = st.lists(
    st.sampled_from(
        [
            *(FAILURE % (b"1" * count) for count in (1, 8, 19, 99)),
            b"Traceback of TorchScript (most recent call last):\n",
            b'  File "code/__torch__/models.py", line 1, in forward\n',
            b"    ~~~ <--- HERE\n",
            b"\n",
            b"x",
        ]
    ),
    min_size=1,
    max_size=4,
).map(b"".join)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(CASES)), command=commands, many=times)
def test_no_case_exceeds_its_budget(measurer: Measurer, name: str, command: str, many: int) -> None:
    assert exceeded(measurer, task(command, CASES[name](many))) == ""


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(record=st.sampled_from(sorted(OWN)), pickle=repeated, command=commands, many=times)
def test_no_repeated_instructions_exceed_their_budget(
    measurer: Measurer, record: str, pickle: Repeated, command: str, many: int
) -> None:
    files = archive_with({record: pickle.pickle(many // max(1, pickle.step))})
    assert exceeded(measurer, task(command, files)) == ""


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(EXPLAINING), log=logs, many=times)
def test_no_log_exceeds_its_budget(measurer: Measurer, name: str, log: bytes, many: int) -> None:
    files = {**CASES[name](many), LOG: log * (many // 64 + 1)}
    assert exceeded(measurer, task("symbolicate a log", files)) == ""


def test_what_is_searched_is_asked_for_before(measurer: Measurer) -> None:
    """9 MB of words of keys, which are 13 KB in the file: a place of each word was kept."""
    asked = task("leaks", archive_with({"extra/x": b"token=" * 1_500_000}))
    assert exceeded(measurer, asked) == ""


LISTED = [line.split("\t") for line in EXCEEDING.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("name", "command", "many", "why"), LISTED, ids=map(" by ".join, LISTED))
def test_what_is_listed_still_exceeds_its_budget(
    measurer: Measurer, name: str, command: str, many: str, why: str
) -> None:
    found = exceeded(measurer, task(command, CASES[name](int(many))))
    assert why in found, found or f"{EXCEEDING.name}: this line can go"


# --- the measuring finds what there is


def test_a_log_is_read(measurer: Measurer) -> None:
    asked = task("symbolicate a log", {**archive_with({}), LOG: b"one line\n" * 100})
    assert measurer.cost(asked).printed == len(asked.log)


@pytest.fixture(scope="module")
def greedy() -> Iterator[Measurer]:
    with Measurer([], take) as made:
        yield made


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("memory", str(MEMORY + SLACK + (8 << 20))), r"memory: \d+ MiB instead of 64"),
        (("memory", str(MEMORY + SLACK + 2 * ROOM)), r"status 70: .*MemoryError"),
        (("output", str(MEMORY + 1)), "output: 64 MiB instead of 64"),
        (("status", "70"), "status 70:"),
        (("signal", str(int(signal.SIGSEGV))), "status -11:"),
    ],
)
def test_what_takes_too_much_is_found(greedy: Measurer, words: tuple[str, ...], found: str) -> None:
    assert re.fullmatch(found, exceeded(greedy, Task(words, {})).strip(), re.DOTALL)


@pytest.mark.parametrize(
    "words",
    [("memory", str(MEMORY)), ("time", "1"), ("output", str(MEMORY)), ("status", "1"), ("status", "2")],
    ids=" ".join,
)
def test_what_stays_below_its_budget_is_not(greedy: Measurer, words: tuple[str, ...]) -> None:
    assert exceeded(greedy, Task(words, {})) == ""


@pytest.mark.parametrize(("loops", "status"), [(1_093, 0), (10, -signal.SIGXCPU)])
def test_too_much_time_is_found(loops: int, status: int) -> None:
    found = Budget.of(0).exceeded(Cost(0, loops, 0, status, ""))
    assert found == f"time: {loops:,} loops instead of 1,092"


def test_memory_is_measured(greedy: Measurer) -> None:
    amounts = [greedy.cost(Task(("memory", str(amount << 20)), {})).memory >> 20 for amount in (1, 40, 80)]
    assert [round(amount / 40) for amount in amounts] == [0, 1, 2]
