"""Profiles as folded stacks and for speedscope: the same times as in the tables."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from tests.support.profiles import FC_0, HANDLES, HEAD, LOOP, START, one_run, profiled, recording
from tests.support.speedscope import problems, times
from tests.support.strategies import patient

pytest.importorskip("torch", exc_type=ImportError)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.backend.profile.profile import Profile

pytestmark = pytest.mark.torch


def self_times(profile: Profile) -> Counter[str]:
    """The self time of each operator in a speedscope file, all lanes together."""
    file, found = profile.speedscope(), Counter[str]()
    for one in file["profiles"]:
        if one["type"] == "evented":
            for stack, time in times(one, file["shared"]["frames"]).items():
                found[stack[-1]] += time
    return found


def test_folded_stacks_name_modules_line_and_operator() -> None:
    assert one_run().folded().splitlines() == [
        "top(Stack);blocks(Sequential);0(Block);fc(Linear);models/plain.py:25;aten::linear 4000",
        "top(Stack);blocks(Sequential);0(Block);models/plain.py:28;aten::add 500",
        "top(Stack);blocks(Sequential);1(Block);models/plain.py:28;aten::add 1000",
        "top(Stack);head(Linear);models/plain.py:40;aten::linear 2000",
        "(unknown);(no source);aten::mul 500",
    ]


def test_names_do_not_break_folded_stacks() -> None:
    made = profiled(recording((0, 2, HEAD, "a;b\n1"), (2, 2, HEAD, "never")))
    assert made.folded() == "top(Stack);head(Linear);models/plain.py:40;a:b\\n1 2\n"


def test_a_speedscope_file_has_frames_with_their_lines() -> None:
    file = one_run().speedscope()
    assert problems(file) == []
    assert file["shared"]["frames"][4:6] == [
        {
            "name": "models/plain.py:25: return self.act(self.fc(x))",
            "file": "models/plain.py",
            "line": 25,
        },
        {"name": "aten::linear"},
    ]
    (operations, memory) = file["profiles"]
    assert (operations["unit"], operations["startValue"], operations["endValue"]) == ("nanoseconds", 0, 9500)
    assert [(event["type"], event["frame"], event["at"]) for event in operations["events"][:14]] == [
        *(("O", frame, 0) for frame in range(6)),
        *(("C", frame, 4000) for frame in range(5, -1, -1)),
        ("O", 0, 4500),
        ("O", 1, 4500),
    ]
    assert (memory["unit"], memory["weights"]) == ("bytes", [4096, 1024, 10])
    names = [file["shared"]["frames"][frame]["name"] for frame in memory["samples"][0]]
    assert names[-1] == "aten::linear"


def test_each_thread_has_a_profile_of_its_own() -> None:
    file = profiled(recording((0, 10, LOOP, "a"), (5, 15, HEAD, "b"), (12, 20, FC_0, "c"))).speedscope()
    assert problems(file) == []
    assert [one["name"] for one in file["profiles"]] == ["operations", "operations 2"]


def test_the_name_of_a_file_tells_its_format(tmp_path: Path) -> None:
    profile = one_run()
    for name in ("x.folded", "x.speedscope.json", "x.json"):
        profile.save(tmp_path / name)
        with pytest.raises(ArchiveError, match="exists"):
            profile.save(tmp_path / name)
    assert (tmp_path / "x.folded").read_text("utf-8") == profile.folded()
    assert json.loads((tmp_path / "x.speedscope.json").read_bytes()) == profile.speedscope()
    assert json.loads((tmp_path / "x.json").read_bytes()) == profile.chrome_trace()
    with pytest.raises(ArchiveError, match=r"a name that ends in \.speedscope\.json, \.folded, \.json"):
        profile.save(tmp_path / "x.svg")
    assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda events: events.pop(), "opened at the end"),
        (lambda events: events.reverse(), "before"),
        (lambda events: events[0].update(frame=99), "no frame"),
    ],
)
def test_broken_files_are_found(change: Callable[[Any], object], problem: str) -> None:
    file = one_run().speedscope()
    change(file["profiles"][0]["events"])
    assert any(problem in one for one in problems(file))


spans = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 400), st.sampled_from(HANDLES), st.sampled_from("abc"))
)


@patient
@given(spans)
def test_any_recording_has_the_times_of_its_table(spans: list[tuple[int, int, int, str]]) -> None:
    made = recording(*((start, start + length, at, op) for start, length, at, op in spans))
    made.memory = [(START, HEAD, 5, 5, 0)]
    profile = profiled(made)
    assert problems(profile.speedscope()) == []
    expected = Counter({row.name: row.self_ns for row in profile.by_operator()})
    assert self_times(profile) == +expected
    folded = Counter[str]()
    for line in profile.folded().splitlines():
        stack, _, time = line.rpartition(" ")
        folded[stack.rpartition(";")[2]] += int(time)
    assert folded == +expected
