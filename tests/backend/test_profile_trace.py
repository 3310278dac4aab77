"""Traces of profiles: events as the Chrome trace format has them, and modules as slices around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from archive.base.errors import ArchiveError
from tests.support.chrome_trace import BROKEN, problems, x
from tests.support.profiles import ADD_0, HEAD, LOOP, known, one_run, profiled, recording, traced

pytest.importorskip("torch", exc_type=ImportError)


if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.torch


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
