"""Profiles as tables, as folded stacks, for speedscope, and as traces: the same times in each."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

from archive.base.errors import ArchiveError
from archive.debuginfo.profiles.profile import duration, size
from tests.backend.chrome_trace import BROKEN, problems, x
from tests.support.profiles import (
    ADD_0,
    FC_0,
    HANDLES,
    HEAD,
    LOOP,
    START,
    known,
    one_run,
    profiled,
    recording,
    traced,
)
from tests.support.speedscope import problems as speedscope_problems
from tests.support.speedscope import times
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.debuginfo.profiles.profile import Profile

pytestmark = pytest.mark.torch


def test_table() -> None:
    assert one_run().table(most=2) == (
        "backend demo: 5 operations in 8.000 µs, results of up to 5.0 KiB at a time\n"
        "\n"
        "      self  share      total    calls     results    at peak  module                     class\n"
        "  4.000 µs  50.0%   4.000 µs        1     4.0 KiB    4.0 KiB  blocks.0.fc                Linear\n"
        "  2.000 µs  25.0%   2.000 µs        1         0 B        0 B  head                       Linear\n"
        "  2.000 µs  25.0%                   3     1.0 KiB    1.0 KiB  [5 others]"
    )
    heading, first = one_run().table(by="line").splitlines()[2:4]
    assert heading == "      self  share    calls     results    at peak  line                       source"
    assert first.startswith("  4.000 µs  50.0%        1     4.0 KiB    4.0 KiB  models/plain.py:25  ")
    assert first.endswith("  return self.act(self.…")
    _, _, lines = one_run().table(by="line").partition("\n\n")
    assert str(one_run()) == f"{one_run().table()}\n\n{lines}", "with one head"
    with pytest.raises(ValueError, match=r"^by 'file': expected one of module, line, operator$"):
        one_run().table(by="file")  # type: ignore[arg-type]


def test_without_memory_there_is_no_column_of_it() -> None:
    made = recording((0, 4000, FC_0, "aten::linear"), (4500, 5500, ADD_0, "aten::add"))
    assert profiled(made).table().splitlines()[:4] == [
        "backend demo: 2 operations in 5.000 µs",
        "",
        "      self  share      total    calls  module                     class",
        "  4.000 µs  80.0%   4.000 µs        1  blocks.0.fc                Linear",
    ]
    assert profiled(made).table(by="operator").splitlines()[2] == "      self  share    calls  operator"


def test_names_cannot_move_the_cursor_or_break_the_table() -> None:
    text = profiled(recording((0, 2, HEAD, "\x1b[2J\n"), (2, 3, HEAD, "x" * 200))).table(by="operator")
    assert text.splitlines()[-2].endswith(r"  \x1b[2J\n")
    assert [len(line) for line in text.splitlines()][-1] == 100


def test_units() -> None:
    nanoseconds = (0, 999, 1000, 999_999, 999_999_999)
    assert [*map(duration, nanoseconds)] == ["0 ns", "999 ns", "1.000 µs", "999.999 µs", "1.000 s"]
    counts = (0, 1023, 1024, (1 << 20) - 1, -2048, 1 << 42)
    assert [*map(size, counts)] == ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "-2.0 KiB", "4.0 TiB"]


# --- stacks


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
    assert speedscope_problems(file) == []
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
    assert speedscope_problems(file) == []
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
    assert any(problem in one for one in speedscope_problems(file))


spans = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 400), st.sampled_from(HANDLES), st.sampled_from("abc"))
)


@patient
@given(spans)
def test_any_recording_has_the_times_of_its_table(spans: list[tuple[int, int, int, str]]) -> None:
    made = recording(*((start, start + length, at, op) for start, length, at, op in spans))
    made.memory = [(START, HEAD, 5, 5, 0)]
    profile = profiled(made)
    assert speedscope_problems(profile.speedscope()) == []
    expected = Counter({row.name: row.self_ns for row in profile.by_operator()})
    assert self_times(profile) == +expected
    folded = Counter[str]()
    for line in profile.folded().splitlines():
        stack, _, time = line.rpartition(" ")
        folded[stack.rpartition(";")[2]] += int(time)
    assert folded == +expected


# --- trace


def test_events_of_the_trace() -> None:
    profile = one_run()
    assert problems(profile.chrome_trace()) == []
    where = {
        "Module Hierarchy": known("plain_stack")[ADD_0].module_hierarchy,
        "Backend": "demo",
        "Debug Handle": ADD_0,
        "Source": "models/plain.py:28: return x + self._inner(x)",
    }
    assert traced(profile, "X", "cpu_op")[1] == {
        "ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 4.5, "dur": 0.5,
        "args": where,
    }  # fmt: skip
    assert traced(profile, "i", "cpu_instant_event")[2] == {
        "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 4.7, "s": "t",
        "args": {"Bytes": -4096, "Total Allocated": 1024, "Addr": 0xF00, **where},
    }  # fmt: skip
    assert [event["args"]["bytes"] for event in traced(profile, "C")] == [4096, 5120, 1024, 1034]
    assert "linear.py:134: " in traced(profile, "X", "cpu_op")[0]["args"]["Innermost Source"]


def test_modules_are_slices_as_long_as_they_are_not_left() -> None:
    slices = traced(one_run(), "X", "module")
    assert [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in slices] == [
        ("top(Stack)", 0.0, 9.0),
        ("blocks(Sequential)", 0.0, 6.0),
        ("0(Block)", 0.0, 5.0),
        ("fc(Linear)", 0.0, 4.0),
        ("1(Block)", 5.0, 6.0),
        ("head(Linear)", 7.0, 9.0),
        ("(unknown)", 9.0, 9.5),
    ]
    assert {event["tid"] for event in slices} == {2}


def test_a_trace_is_saved_whole_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    profile, path = one_run(), tmp_path / "trace.json"
    profile.save(path)
    assert json.loads(path.read_bytes()) == profile.chrome_trace()
    with pytest.raises(ArchiveError, match="exists"):
        profile.save(path)
    profile.save(path, force=True)
    assert [one.name for one in tmp_path.iterdir()] == ["trace.json"]


def test_equal_spans_nest_in_one_lane() -> None:
    profile = profiled(recording((0, 5, HEAD, "c"), (0, 10, LOOP, "a"), (0, 10, HEAD, "b")))
    assert [(event.name, event.lane) for event in profile.events] == [("a", 0), ("b", 0), ("c", 0)]
    slices = [event["name"] for event in traced(profile, "X", "module")]
    assert slices == ["top(Stack)", "head(Linear)"]


@pytest.mark.parametrize(("events", "problem"), BROKEN)
def test_broken_traces_are_found(events: list[object], problem: str) -> None:
    assert problem in problems({"traceEvents": events})
    assert problem in problems(events)


def test_traces_of_another_shape() -> None:
    assert problems({"events": []}) == ["trace: no list of events"]
    assert problems({"traceEvents": [], "displayTimeUnit": "s"}) == ["trace: displayTimeUnit 's'"]
    assert problems([x(0, 2), x(1, 1), x(2, 1), x(1, 5, tid=2), x(0, 9, pid=2)]) == []
    assert problems([x(0, ph="B"), x(1, ph="B"), x(2, ph="E"), x(3, ph="E")]) == []
