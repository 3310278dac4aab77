"""Profiles: recordings led to the model's source, their sums, and traces that the format's rules accept."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError
from tests.support.chrome_trace import BROKEN, outer_ones_come_first, problems, x
from tests.support.corpus import ORACLES
from tests.support.strategies import patient

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Delegate, lower, lowered_archive
from archive.backend.profile.events import Recording
from archive.backend.profile.places import SourceLine
from archive.backend.profile.profile import Profile
from archive.backend.profile.text import duration, size, table
from archive.backend.profile.timeline import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from archive.debuginfo.symbolicate import Symbolication

pytestmark = pytest.mark.torch

START = 10**15 + 7
UNKNOWN = -1


@cache
def known(name: str) -> dict[int, Symbolication]:
    with archive.open(ORACLES / f"{name}.ptl") as opened:
        return {handle: opened.symbolicate(handle) for handle in sorted([*opened.handles, UNKNOWN])}


def of(name: str) -> Callable[[Sequence[int]], Symbolication]:
    return lambda handles: known(name)[handles[0]]


def handle(name: str, hierarchy: str) -> int:
    return next(one for one, meaning in known(name).items() if meaning.module_hierarchy.endswith(hierarchy))


FC_0 = handle("plain_stack", "0(Block)::forward.SELF(Block)::_inner.fc(Linear)::forward.aten::linear")
ADD_0 = handle("plain_stack", "0(Block)::forward.aten::add")
ADD_1 = handle("plain_stack", "1(Block)::forward.aten::add")
HEAD = handle("plain_stack", "head(Linear)::forward.aten::linear")
LOOP = handle("plain_stack", "<unknown>.prim::Loop")
HANDLES = [FC_0, ADD_0, ADD_1, HEAD, LOOP, UNKNOWN]


def recording(*operations: tuple[int, int, int, str]) -> Recording:
    return Recording("demo", [(START + start, START + end, at, op) for start, end, at, op in operations])


def plain(made: Recording) -> Profile:
    return Profile(made, of("plain_stack"))


def one_run() -> Profile:
    made = recording(
        (0, 4000, FC_0, "aten::linear"),
        (4500, 5000, ADD_0, "aten::add"),
        (5000, 6000, ADD_1, "aten::add"),
        (7000, 9000, HEAD, "aten::linear"),
        (9000, 9500, UNKNOWN, "aten::mul"),
    )
    made.memory = [
        (START + 100, FC_0, 4096, 4096, 0xF00),
        (START + 4600, ADD_0, 1024, 5120, 0xBA0),
        (START + 4700, ADD_0, -4096, 1024, 0xF00),
        (START + 9100, UNKNOWN, 10, 1034, 0),
    ]
    return plain(made)


def traced(profile: Profile, phase: str, category: str | None = None) -> list[dict[str, Any]]:
    events = profile.chrome_trace()["traceEvents"]
    return [event for event in events if event["ph"] == phase and event.get("cat") == category]


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
    assert place.innermost[1:] == (134, "return F.linear(input, self.weight, self.bias)")


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
    (event,) = Profile(made, of(name)).events
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
    assert Row("(unknown)", "", 500, 500, 1, 0.0625, 10) in profile.by_module()
    assert Row("(no source)", "", 500, 500, 1, 0.0625, 10) in profile.by_line()


def test_inside_a_lowered_module_the_way_starts_outside_of_it() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        profile = Profile(recording((0, 1, ADD_1, "x")), lambda handles: opened.symbolicate([*handles, HEAD]))
    assert profile.events[0].place.module == "head.blocks.1"
    assert str(profile.events[0].place.source) == "models/plain.py:28"


def test_a_handle_is_symbolicated_once() -> None:
    asked: list[int] = []

    def symbolicate(handles: Sequence[int]) -> Symbolication:
        asked.extend(handles)
        return of("plain_stack")(handles)

    made = recording(*((at, at + 1, HANDLES[at % 3], "x") for at in range(100)))
    made.memory = [(START, UNKNOWN, 1, 1, 0)] * 50
    Profile(made, symbolicate)
    assert sorted(asked) == sorted([*HANDLES[:3], UNKNOWN])


def test_sums() -> None:
    profile = one_run()
    assert profile.total_ns == 8000
    assert profile.by_module() == [
        Row("blocks.0.fc", "Linear", 4000, 4000, 1, 0.5, 4096),
        Row("head", "Linear", 2000, 2000, 1, 0.25, 0),
        Row("blocks.1", "Block", 1000, 1000, 1, 0.125, 0),
        Row("blocks.0", "Block", 500, 4500, 1, 0.0625, 1024),
        Row("(unknown)", "", 500, 500, 1, 0.0625, 10),
        Row("top(Stack)", "", 0, 7500, 0, 0.0, 0),
        Row("blocks", "Sequential", 0, 5500, 0, 0.0, 0),
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


def test_an_operation_inside_another_one_takes_its_own_time() -> None:
    profile = plain(recording((0, 100, LOOP, "prim::Loop"), (10, 30, HEAD, "a"), (30, 30, HEAD, "b")))
    assert [(row.name, row.self_ns, row.calls) for row in profile.by_operator()] == [
        ("prim::Loop", 80, 1), ("a", 20, 1), ("b", 0, 1),
    ]  # fmt: skip
    assert {event.lane for event in profile.events} == {0}
    assert problems(profile.chrome_trace()) == []


def test_operations_of_several_threads_get_a_lane_each() -> None:
    profile = plain(recording((0, 10, LOOP, "a"), (5, 15, HEAD, "b"), (12, 20, FC_0, "c")))
    assert [event.lane for event in profile.events] == [0, 1, 0]
    assert profile.total_ns == 28
    assert problems(profile.chrome_trace()) == []
    names = [event["args"]["name"] for event in traced(profile, "M") if event["name"] == "thread_name"]
    assert names == ["operations", "modules", "operations 2", "modules 2"]


def test_an_empty_recording() -> None:
    profile = plain(Recording("demo"))
    assert (profile.events, profile.by_module(), profile.by_line(), profile.total_ns) == ([], [], [], 0)
    assert problems(profile.chrome_trace()) == []
    assert str(profile).startswith("backend demo: 0 operations in 0 ns\n")
    only_memory = plain(Recording("demo", memory=[(START, FC_0, -8, -8, 1)]))
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
    thrice = plain(made)
    assert thrice.total_ns == 3 * once.total_ns
    assert [(row.name, row.calls, row.share) for row in thrice.by_module()] == [
        (row.name, 3 * row.calls, row.share) for row in once.by_module()
    ]
    assert problems(thrice.chrome_trace()) == []


def test_an_operation_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^aten::mul ends 1 ns before it starts$"):
        plain(recording((5, 4, FC_0, "aten::mul")))


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
    profile = plain(recording((0, 5, HEAD, "c"), (0, 10, LOOP, "a"), (0, 10, HEAD, "b")))
    assert [(event.name, event.lane) for event in profile.events] == [("a", 0), ("b", 0), ("c", 0)]
    slices = [event["name"] for event in traced(profile, "X", "module")]
    assert slices == ["top(Stack)", "head(Linear)"]


spans = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 400), st.sampled_from(HANDLES), st.sampled_from("abc"))
)


@patient
@given(spans, st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(HANDLES), st.integers(-9, 9))))
def test_any_recording(spans: list[tuple[int, int, int, str]], changes: list[tuple[int, int, int]]) -> None:
    made = recording(*((start, start + length, at, op) for start, length, at, op in spans))
    made.memory = [(START + at, where, taken, taken, 0) for at, where, taken in changes]
    profile = plain(made)
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
        assert all(len(line) <= 100 for line in table(profile, by=by, most=3).splitlines())


@patient
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 400), st.sampled_from(HANDLES))))
def test_self_times_of_operations_in_a_row_are_their_durations(steps: list[tuple[int, int, int]]) -> None:
    made, now = recording(), START
    for pause, length, where in steps:
        made.operations.append((now + pause, now + pause + length, where, "x"))
        now += pause + length
    profile = plain(made)
    assert profile.total_ns == sum(length for _, length, _ in steps)
    assert {event.lane for event in profile.events} <= {0}


def test_table() -> None:
    assert table(one_run(), most=2) == (
        "backend demo: 5 operations in 8.000 µs, results of up to 5.0 KiB at a time\n"
        "\n"
        "      self  share      total    calls     results  module                     class\n"
        "  4.000 µs  50.0%   4.000 µs        1     4.0 KiB  blocks.0.fc                Linear\n"
        "  2.000 µs  25.0%   2.000 µs        1         0 B  head                       Linear\n"
        "  2.000 µs  25.0%                   3     1.0 KiB  [5 others]"
    )
    assert table(one_run(), by="line").splitlines()[2:4] == [
        "      self  share    calls     results  line                       source",
        "  4.000 µs  50.0%        1     4.0 KiB  models/plain.py:25         return self.act(self.fc(x))",
    ]
    _, _, lines = table(one_run(), by="line").partition("\n\n")
    assert str(one_run()) == f"{table(one_run())}\n\n{lines}", "with one head"
    with pytest.raises(ValueError, match=r"^by 'file': expected one of module, line, operator$"):
        table(one_run(), by="file")  # type: ignore[arg-type]


def test_without_memory_there_is_no_column_of_it() -> None:
    made = recording((0, 4000, FC_0, "aten::linear"), (4500, 5500, ADD_0, "aten::add"))
    assert table(plain(made)).splitlines()[:4] == [
        "backend demo: 2 operations in 5.000 µs",
        "",
        "      self  share      total    calls  module                     class",
        "  4.000 µs  80.0%   4.000 µs        1  blocks.0.fc                Linear",
    ]
    assert table(plain(made), by="operator").splitlines()[2] == "      self  share    calls  operator"


class Listed(torch.nn.Module):
    """Modules of the same names in several lists, and one that is called as a whole, too."""

    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
        self.up = torch.nn.ModuleList([torch.nn.Linear(4, 4)])
        self.by_name = torch.nn.ModuleDict({"inner": torch.nn.Sequential(torch.nn.Linear(4, 4))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.down:
            x = layer(x)
        for layer in self.up:
            x = layer(x)
        return self.by_name["inner"](x)


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


def test_names_cannot_move_the_cursor_or_break_the_table() -> None:
    text = table(plain(recording((0, 2, HEAD, "\x1b[2J\n"), (2, 3, HEAD, "x" * 200))), by="operator")
    assert text.splitlines()[-2].endswith(r"  \x1b[2J\n")
    assert [len(line) for line in text.splitlines()][-1] == 100


def test_units() -> None:
    nanoseconds = (0, 999, 1000, 999_999, 999_999_999)
    assert [*map(duration, nanoseconds)] == ["0 ns", "999 ns", "1.000 µs", "999.999 µs", "1.000 s"]
    counts = (0, 1023, 1024, (1 << 20) - 1, -2048, 1 << 42)
    assert [*map(size, counts)] == ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "-2.0 KiB", "4.0 TiB"]


@pytest.mark.parametrize(("events", "problem"), BROKEN)
def test_broken_traces_are_found(events: list[object], problem: str) -> None:
    assert problem in problems({"traceEvents": events})
    assert problem in problems(events)


def test_traces_of_another_shape() -> None:
    assert problems({"events": []}) == ["trace: no list of events"]
    assert problems({"traceEvents": [], "displayTimeUnit": "s"}) == ["trace: displayTimeUnit 's'"]
    assert problems([x(0, 2), x(1, 1), x(2, 1), x(1, 5, tid=2), x(0, 9, pid=2)]) == []
    assert problems([x(0, ph="B"), x(1, ph="B"), x(2, ph="E"), x(3, ph="E")]) == []
