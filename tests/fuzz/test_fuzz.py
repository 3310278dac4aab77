"""Executions, the same in every run: 20,000 or a third; what once broke something; and the fuzzer itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from archive.base.errors import ArchiveError
from tests.fuzz import running
from tests.fuzz.mutations import Stored, changed_bytes, instructions, zipped
from tests.fuzz.running import ALL_TARGETS, TARGETS, attempt, kept_inputs, run
from tests.fuzz.second_opinions import check_by_zipfile, check_value
from tests.fuzz.targets import Target
from tests.support.corpus import FIXTURES
from tests.support.cost import loops_below
from tests.support.sampling import examples

if TYPE_CHECKING:
    from pathlib import Path

RUNS = {
    "plain": 5_000,
    "kinds": 4_500,
    "container": 4_000,
    "records": 300,
    "windows": 150,
    "blocks": 100,
    "program": 300,
    "texts": 1_000,
}
"""Of quick targets, and of slow ones; the others share what is left of 20,000."""
OTHERS = (20_000 - sum(RUNS.values())) // (len(TARGETS) - len(RUNS))


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_are_read_or_refused(name: str) -> None:
    outcome = run(TARGETS[name], f"{name} smoke", runs=examples(RUNS.get(name, OTHERS)))
    assert outcome.findings == {}
    assert outcome.accepted, "every input was refused: nothing behind the first check was tried"


@pytest.mark.parametrize("name", ALL_TARGETS)
def test_seeds_are_read(name: str) -> None:
    target = ALL_TARGETS[name]
    assert target.seeds
    assert all(target.accepts(seed) for seed in target.seeds)


FOUND = [(name, path) for name in ALL_TARGETS for path in kept_inputs(name)]


@pytest.mark.parametrize(("name", "path"), FOUND, ids=[f"{name} {path.name}" for name, path in FOUND])
def test_what_once_broke_is_read_or_refused(name: str, path: Path) -> None:
    with loops_below(running.SLOW):
        assert attempt(ALL_TARGETS[name], path.read_bytes())[1] == ""


# --- the fuzzer finds what is there to be found


def _target(problem: Exception) -> Target:
    def read(data: bytes) -> None:
        if b"x" in data:
            raise problem

    return Target(read, lambda: [b"abcwyz"], changed_bytes)


@pytest.mark.parametrize(
    "problem", [KeyError("x"), MemoryError(), RecursionError(), AssertionError(), OSError()]
)
def test_other_errors_are_findings(problem: Exception) -> None:
    outcome = run(_target(problem), "0", runs=2_000)
    (found,) = outcome.findings
    assert found.startswith(f"{type(problem).__name__} at fuzz/test_fuzz.py:")
    assert b"x" in outcome.findings[found]


def test_archive_errors_are_not() -> None:
    outcome = run(_target(ArchiveError("no")), "0", runs=2_000)
    assert outcome.findings == {}
    assert 0 < outcome.accepted < outcome.runs


def test_a_message_of_control_characters_is_a_finding() -> None:
    assert "AssertionError" in next(iter(run(_target(ArchiveError("\x1b[31m")), "0", runs=2_000).findings))


def test_slow_inputs_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SLOW", -1)
    assert next(iter(run(_target(ArchiveError()), "0", runs=1).findings)).startswith("slow: ")


def test_a_seed_gives_the_same_inputs_each_time() -> None:
    def inputs(seed: str) -> list[bytes]:
        seen: list[bytes] = []
        run(Target(seen.append, lambda: [b"abc"], changed_bytes), seed, runs=50)
        return seen

    assert inputs("1") == inputs("1") != inputs("2")


def test_make_fuzz_guides_all_targets() -> None:
    makefile = (FIXTURES.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    (line,) = re.findall(r"FUZZ_TARGETS \?= (.*)", makefile)
    assert sorted(line.split()) == sorted(ALL_TARGETS)


# --- second opinions


@pytest.mark.parametrize("wrong", [[1, "b"], [True, "a"], [1.0, "a"], (1, "a"), ["a", 1], [1, "a", None]])
def test_another_value_than_the_slow_reader_reads_is_a_finding(wrong: object) -> None:
    data = b"\x80\x02](K\x01X\x01\x00\x00\x00ae."
    check_value([1, "a"], data)
    with pytest.raises(AssertionError, match="not as the slow reader reads it"):
        check_value(wrong, data)


def test_what_the_slow_reader_refuses_has_no_second_opinion() -> None:
    check_value("anything", b"\x80\x02.")


@pytest.mark.parametrize("wrong", [{"a": b"1"}, {"b": b"12"}, {}, {"a": b"12", "b": b""}])
def test_other_records_than_zipfile_reads_are_a_finding(wrong: dict[str, bytes]) -> None:
    data = zipped([Stored("m/a", b"12", deflated=True)])
    check_by_zipfile({"a": b"12"}, "m", data)
    with pytest.raises(AssertionError, match="that zipfile"):
        check_by_zipfile(wrong, "m", data)


@pytest.mark.parametrize("name", ["ranges", "handles", "bytecode", "data", "effects"])
def test_pickles_are_cut_into_their_instructions(name: str) -> None:
    for seed in TARGETS[name].seeds:
        parts = instructions(seed)
        assert b"".join(parts) == seed
        assert len(parts) > 1
        assert parts[-1] == b"."
