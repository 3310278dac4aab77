"""Profiles: recordings led to the model's source, their sums, and traces that the format's rules accept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from tests.backend.chrome_trace import outer_ones_come_first, problems
from tests.support.corpus import ORACLES
from tests.support.strategies import patient

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Delegate, lower, lowered_archive
from archive.debuginfo.profiles.places import place_of
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import ProfileRow, Recording
from archive.debuginfo.source_lines import SourceLine
from tests.support.profiles import (
    ADD_1,
    FC_0,
    HANDLES,
    HEAD,
    LOOP,
    START,
    UNKNOWN,
    Listed,
    handle,
    known,
    one_run,
    placing,
    profiled,
    recording,
    traced,
)

if TYPE_CHECKING:
    from archive.debuginfo.profiles.places import OperationPlace

pytestmark = pytest.mark.torch


def test_an_operation_is_led_to_its_module_and_the_models_line() -> None:
    place = one_run().events[0].place
    assert place.module == "blocks.0.fc"
    assert [str(level) for level in place.levels] == [
        "top(Stack)", "blocks(Sequential)", "0(Block)", "fc(Linear)",
    ]  # fmt: skip
    assert place.hierarchy == known("plain_stack")[FC_0].module_hierarchy
    assert place.source == SourceLine("models/plain.py", 25, "return self.act(self.fc(x))")
    assert place.innermost is not None
    assert place.innermost.file.endswith("torch/nn/modules/linear.py")
    assert place.innermost[1:3] == (134, "return F.linear(input, self.weight, self.bias)")


@pytest.mark.parametrize(
    ("name", "hierarchy", "module", "source"),
    [
        (
            "plain_free_functions",
            "scale.aten::mul",
            "top(Free)",
            SourceLine("models/plain.py", 9, "return x * factor"),
        ),
        ("lowered_ok", "__loweredModule__(A)::forward.aten::__getitem__", "A0", None),
        (
            "traced_stack",
            "0(Block)::forward.aten::add",
            "blocks.0",
            SourceLine("models/plain.py", 28, "forward"),
        ),
        (
            "traced_stack",
            "fc(Linear)::forward.aten::linear",
            None,
            SourceLine("models/plain.py", 25, "_inner"),
        ),
        ("plain_stack", "<unknown>.prim::Drop", "top(Stack)", "nowhere"),
    ],
)
def test_functions_lowered_and_traced_modules(
    name: str, hierarchy: str, module: str | None, source: SourceLine | str | None
) -> None:
    made = Recording("demo", [(0, 1, handle(name, hierarchy), "x")])
    (event,) = Profile(made, placing(name)).events
    assert module is None or event.place.module == module
    if source is None:
        assert str(event.place.source) == "models/lowered.py:23"
    else:
        assert event.place.source == (None if source == "nowhere" else source)


def test_an_unknown_handle_is_shown_as_such() -> None:
    profile = one_run()
    place = profile.events[-1].place
    assert (place.module, place.source, place.innermost) == ("(unknown)", None, None)
    assert place.hierarchy == "Debug info for handle(s): debug_handles:{-1}, was not found."
    assert ProfileRow("(unknown)", "", 500, 500, 1, 0.0625, 10, 0) in profile.by_module()
    assert ProfileRow("(no source)", "", 500, 500, 1, 0.0625, 10, 0) in profile.by_line()


def test_inside_a_lowered_module_the_way_starts_outside_of_it() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        profile = Profile(
            recording((0, 1, ADD_1, "x")), lambda one: place_of(opened.symbolicate([one, HEAD]))
        )
    assert profile.events[0].place.module == "head.blocks.1"
    assert str(profile.events[0].place.source) == "models/plain.py:28"


def test_a_handle_is_looked_up_once() -> None:
    asked: list[int] = []

    def place(handle: int) -> OperationPlace:
        asked.append(handle)
        return placing("plain_stack")(handle)

    made = recording(*((at, at + 1, HANDLES[at % 3], "x") for at in range(100)))
    made.memory = [(START, UNKNOWN, 1, 1, 0)] * 50
    Profile(made, place)
    assert sorted(asked) == sorted([*HANDLES[:3], UNKNOWN])


def test_sums() -> None:
    profile = one_run()
    assert profile.total_ns == 8000
    assert profile.by_module() == [
        ProfileRow("blocks.0.fc", "Linear", 4000, 4000, 1, 0.5, 4096, 4096),
        ProfileRow("head", "Linear", 2000, 2000, 1, 0.25, 0, 0),
        ProfileRow("blocks.1", "Block", 1000, 1000, 1, 0.125, 0, 0),
        ProfileRow("blocks.0", "Block", 500, 4500, 1, 0.0625, 1024, 1024),
        ProfileRow("(unknown)", "", 500, 500, 1, 0.0625, 10, 0),
        ProfileRow("top(Stack)", "", 0, 7500, 0, 0.0, 0, 0),
        ProfileRow("blocks", "Sequential", 0, 5500, 0, 0.0, 0, 0),
    ]
    assert [(row.name, row.self_ns, row.calls) for row in profile.by_line()] == [
        ("models/plain.py:25", 4000, 1),
        ("models/plain.py:40", 2000, 1),
        ("models/plain.py:28", 1500, 2),
        ("(no source)", 500, 1),
    ]
    assert [(row.name, row.total_ns, row.calls, row.allocated) for row in profile.by_operator()] == [
        ("aten::linear", 6000, 2, 4096), ("aten::add", 1500, 2, 1024), ("aten::mul", 500, 1, 10),
    ]  # fmt: skip


def test_the_peak_is_told_by_what_is_in_use_then() -> None:
    made = recording((0, 10, FC_0, "a"), (10, 20, HEAD, "b"), (100, 110, FC_0, "a"))
    made.memory = [
        (START + at, where, size, total, address)
        for at, where, size, total, address in [
            (1, FC_0, 100, 100, 1),
            (2, FC_0, 50, 150, 2),
            (3, FC_0, -50, 100, 2),
            (11, HEAD, 70, 170, 2),  # at an address that was free
            (12, HEAD, -100, 70, 1),
            (101, FC_0, 160, 160, 3),  # another run
        ]
    ]
    profile = profiled(made)
    assert profile.peak == 170
    assert {row.name: row.at_peak for row in profile.by_operator()} == {"a": 100, "b": 70}


def test_an_operation_inside_another_one_takes_its_own_time() -> None:
    profile = profiled(recording((0, 100, LOOP, "prim::Loop"), (10, 30, HEAD, "a"), (30, 30, HEAD, "b")))
    assert [(row.name, row.self_ns, row.calls) for row in profile.by_operator()] == [
        ("prim::Loop", 80, 1), ("a", 20, 1), ("b", 0, 1),
    ]  # fmt: skip
    assert {event.lane for event in profile.events} == {0}
    assert problems(profile.chrome_trace()) == []


def test_operations_of_several_threads_get_a_lane_each() -> None:
    profile = profiled(recording((0, 10, LOOP, "a"), (5, 15, HEAD, "b"), (12, 20, FC_0, "c")))
    assert [event.lane for event in profile.events] == [0, 1, 0]
    assert profile.total_ns == 28
    assert problems(profile.chrome_trace()) == []
    names = [event["args"]["name"] for event in traced(profile, "M") if event["name"] == "thread_name"]
    assert names == ["operations", "modules", "operations 2", "modules 2"]


def test_an_empty_recording() -> None:
    profile = profiled(Recording("demo"))
    assert (profile.events, profile.by_module(), profile.by_line(), profile.total_ns) == ([], [], [], 0)
    assert problems(profile.chrome_trace()) == []
    assert str(profile).startswith("backend demo: 0 operations in 0 ns\n")
    only_memory = profiled(Recording("demo", memory=[(START, FC_0, -8, -8, 1)]))
    assert [row.share for row in only_memory.by_module()] == [0.0] * 4
    assert problems(only_memory.chrome_trace()) == []


def test_several_runs_add_up() -> None:
    once, made = one_run(), recording()
    for run in range(3):
        made.operations += [
            (
                START + event.start_ns + run * 10**6,
                START + event.end_ns + run * 10**6,
                event.handle,
                event.name,
            )
            for event in once.events
        ]
    thrice = profiled(made)
    assert thrice.total_ns == 3 * once.total_ns
    assert [(row.name, row.calls, row.share) for row in thrice.by_module()] == [
        (row.name, 3 * row.calls, row.share) for row in once.by_module()
    ]
    assert problems(thrice.chrome_trace()) == []


def test_an_operation_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^aten::mul ends 1 ns before it starts$"):
        profiled(recording((5, 4, FC_0, "aten::mul")))


spans = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 400), st.sampled_from(HANDLES), st.sampled_from("abc"))
)


@patient
@given(spans, st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(HANDLES), st.integers(-9, 9))))
def test_any_recording(spans: list[tuple[int, int, int, str]], changes: list[tuple[int, int, int]]) -> None:
    made = recording(*((start, start + length, at, op) for start, length, at, op in spans))
    made.memory = [(START + at, where, taken, taken, 0) for at, where, taken in changes]
    profile = profiled(made)
    trace = profile.chrome_trace()
    assert problems(trace) == []
    times = [event["ts"] for event in trace["traceEvents"] if "ts" in event]
    assert times == sorted(times)
    assert min(times, default=0.0) == 0
    assert outer_ones_come_first(trace["traceEvents"])
    assert all(event["dur"] > 0 for event in traced(profile, "X", "module"))
    taken = sum(max(change, 0) for *_, change in changes)
    for rows in (profile.by_module(), profile.by_line(), profile.by_operator()):
        assert sum(row.self_ns for row in rows) == profile.total_ns
        assert sum(row.calls for row in rows) == len(spans)
        assert sum(row.allocated for row in rows) == taken
        assert all(above.self_ns >= below.self_ns for above, below in pairwise(rows))
    outermost = [row.total_ns for row in profile.by_module() if row.name in ("top(Stack)", "(unknown)")]
    assert sum(outermost) == profile.total_ns
    for by in ("module", "line", "operator"):
        assert all(len(line) <= 100 for line in profile.table(by=by, most=3).splitlines())


@patient
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 400), st.sampled_from(HANDLES))))
def test_self_times_of_operations_in_a_row_are_their_durations(steps: list[tuple[int, int, int]]) -> None:
    made, now = recording(), START
    for pause, length, where in steps:
        made.operations.append((now + pause, now + pause + length, where, "x"))
        now += pause + length
    profile = profiled(made)
    assert profile.total_ns == sum(length for _, length, _ in steps)
    assert {event.lane for event in profile.events} <= {0}


@pytest.mark.parametrize("loaded", [False, True])
def test_modules_in_lists_have_the_list_s_name(loaded: bool) -> None:  # noqa: FBT001
    lowered = lower(Listed(), "aten")
    delegate = Delegate.load(lowered_archive(lowered)) if loaded else Delegate.of(lowered)
    with delegate.recording() as made:
        delegate(torch.ones(2, 4))
    profile = delegate.profile(made)
    assert {row.name: row.calls for row in profile.by_module()} == {
        "top(Listed)": 0, "down.0": 1, "down.1": 1, "up.0": 1, "by_name.inner": 0, "by_name.inner.0": 1,
    }  # fmt: skip
    slices = {event["name"] for event in traced(profile, "X", "module")}
    assert slices >= {"down.0(Linear)", "up.0(Linear)", "by_name.inner(Sequential)", "0(Linear)"}
