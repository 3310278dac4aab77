"""ETDumps: their events, and profiles at the model's source; ExecuTorch's Inspector is the oracle."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import Any

import pytest

import archive
from archive import ArchiveError, LimitError, Limits, profile_etdump
from archive.base.source_files import is_pytorchs
from archive.formats.etdump import ProfileEvent, parse_etdump
from archive.reader.lookups.instructions import InstructionNodes
from tests.support.etdumps import DUMPS, Block, Event, built, dump, told
from tests.support.exported import changed_record, inspected, record

RECORDED = [name for name in DUMPS if told(name)["record"]]
Seen = tuple[str, int, str]


def blocks_of(data: bytes) -> tuple[Any, ...]:
    return parse_etdump(memoryview(data))


def seen(event: ProfileEvent) -> Seen:
    """What the Inspector knows an event by."""
    return event.delegate or event.name, event.instruction, event.delegate


def expected(event: dict[str, Any]) -> Seen:
    return event["name"], event["instruction"], str(event.get("delegate", ""))


def test_dumps_of_several_methods_branches_backends_failures_and_values_are_here() -> None:
    compared = ["delegated", "device", "faulty"]
    recorded = [*compared, "failed", "quantised", "region", "shop", "sized", "values", "xnnpack"]
    assert sorted(recorded) == RECORDED
    assert sorted([*recorded, "fork", "methods"]) == DUMPS


@pytest.mark.parametrize("name", DUMPS)
def test_names_numbers_and_times_of_events_are_the_inspectors(name: str) -> None:
    merged: dict[tuple[str, tuple[Seen, ...]], list[list[ProfileEvent]]] = defaultdict(list)
    for block in blocks_of(dump(name).read_bytes()):  # the Inspector makes one of blocks with equal events
        merged[block.name, tuple(map(seen, block.events))].append(list(block.events))
    of_inspector = told(name)["blocks"]
    assert len(merged) == len(of_inspector)
    for (title, events), runs, block in zip(merged, merged.values(), of_inspector, strict=True):
        timed = [event for event in block["events"] if "ns" in event]
        assert (title, list(events)) == (block["name"], [expected(event) for event in timed])
        for number, event in enumerate(timed):
            assert [run[number].end - run[number].start for run in runs] == event["ns"]
            assert [run[number].start for run in runs] == event["start"]


@pytest.mark.parametrize("name", RECORDED)
def test_each_instruction_counts_once_with_the_inspectors_time(name: str) -> None:
    kernels, calls = Counter[int](), Counter[int]()
    for event in (event for block in told(name)["blocks"] for event in block["events"] if "ns" in event):
        if event["name"].startswith("native_call_"):
            kernels[event["instruction"]] += sum(event["ns"])
        elif event["name"] in ("OPERATOR_CALL", "DELEGATE_CALL"):
            calls[event["instruction"]] += sum(event["ns"])
        elif "delegate" in event:  # inside of the call, and rows of their own
            calls[event["instruction"]] += 0
    profile = profile_etdump(dump(name), record(told(name)["record"].removesuffix(".etrecord")))
    times = Counter[str]()
    for row in profile.by_instruction():
        times[row.name] += row.self_ns
    assert times == {f"forward/0:{number}": kernels.get(number, call) for number, call in calls.items()}
    assert profile.total_ns == times.total() == sum(row.self_ns for row in profile.by_delegate())


@pytest.mark.parametrize("name", RECORDED)
def test_an_instruction_has_the_handles_and_nodes_that_the_inspector_names(name: str) -> None:
    with archive.open(record(told(name)["record"].removesuffix(".etrecord"))) as opened:
        nodes = InstructionNodes(opened)
        events = [event for block in told(name)["blocks"] for event in block["events"]]
        for event in (event for event in events if "nodes" in event and "delegate" not in event):
            (place,) = nodes.named(f"0:{event['instruction']}")
            handles = event["handles"]
            assert list(place.instruction.handles) == (handles if isinstance(handles, list) else [handles])
            assert [f"{node.site.name}_" for node in place.nodes] == event["nodes"]


@pytest.mark.parametrize("name", ["shop", "sized", "xnnpack"])
def test_modules_and_lines_are_those_of_the_only_node_that_the_inspector_names(name: str) -> None:
    single = {f"forward/0:{one['instruction']}": one for one in inspected(name) if len(one["traces"]) == 1}
    profile = profile_etdump(dump(name), record(name))
    events = [event for event in profile.events if event.place.instruction in single]
    assert events
    for event in events:
        facts = single[event.place.instruction]
        (modules,), (trace,) = facts["modules"].values(), facts["traces"].values()
        path, kind = [*modules.values()][-1]
        assert event.place.levels[-1].path == (path or f"top({kind.rpartition('.')[2]})")
        assert event.place.innermost is not None
        assert f'File "{event.place.innermost.file}", line {event.place.innermost.number},' in trace


FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in')


def lines_of_inspector(name: str) -> dict[str, set[str]]:
    """The lines of the model that the Inspector's traces of an instruction's nodes lead to."""
    lines: dict[str, set[str]] = defaultdict(set)
    for one in inspected(name):
        for trace in one["traces"].values():
            frames = FRAME.findall(trace or "")
            frames = [frame for frame in frames if not is_pytorchs(frame[0])] or frames
            lines[f"forward/0:{one['instruction']}"] |= {":".join(frame) for frame in frames[-1:]}
    return lines


@pytest.mark.parametrize("name", ["shop", "sized", "xnnpack", "quantised"])
def test_an_instruction_has_the_lines_of_its_nodes_whenever_the_inspector_has_traces(name: str) -> None:
    of_inspector = lines_of_inspector(name)
    profile = profile_etdump(dump(name), record(name))
    for event in profile.events:
        source = event.place.source
        found = set() if source is None else {f"{one.file}:{one.number}" for one in (source, *source.more)}
        if event.place.instruction in of_inspector:  # others have no kernel, and are not in the fixture
            known = of_inspector[event.place.instruction]
            assert found <= known
            assert bool(found) is bool(known)


def test_nodes_of_quantisation_do_not_hide_those_of_the_model() -> None:
    profile = profile_etdump(dump("quantised"), record("quantised"))
    assert profile.unknown == 0
    assert {row.name: row.calls for row in profile.by_line()} == {
        "models/quantised.py:15": 12,  # convolution and relu, in XNNPACK
        "models/quantised.py:28": 2,  # mean, a kernel: quantisation gave its handle to nodes of the backend
        "models/quantised.py:29": 2,
        "models/quantised.py:29, 30": 12,  # add and linear, in one call
    }
    assert {row.name for row in profile.by_module()} == {"top(Net)", "block", "table"}
    assert [row.text for row in profile.by_line() if row.name.endswith("29, 30")] == [
        "y = y + self.table(ids) …"
    ]


def test_a_call_of_quantising_nodes_alone_has_what_they_have() -> None:
    """Their modules are PyTorch's own, so they have none; they have a line where a trace is recorded."""
    alone = {"forward": {"0": [3], "1": 7, "2": 6, "3": [2, 6, 8, 9, 10]}}
    changed = changed_record("quantised", debug_handle_map=json.dumps(alone).encode())
    profile = profile_etdump(dump("quantised"), changed)
    (place,) = {event.place for event in profile.events if event.place.instruction == "forward/0:0"}
    assert place.levels[0].path == "(no modules)"
    assert str(place.source) == "models/quantised.py:15"


def test_of_a_handle_of_several_nodes_the_operator_tells_which_ran() -> None:
    profile = profile_etdump(dump("shop"), record("shop"))
    places = {event.name: event.place for event in profile.events if event.place.instruction == "forward/0:6"}
    assert places["addmm.out"].op == "aten.addmm.default"
    (copied,) = [event for event in profile.events[:40] if event.place.instruction == "forward/0:5"][:1]
    assert copied.place.op == "aten.permute_copy.default"


def test_the_method_of_each_run_is_what_its_operators_fit() -> None:
    profile = profile_etdump(dump("methods"), record("methods"))
    assert profile.runs == {"forward": 2, "words": 1, "later": 1}
    assert profile.facts()["methods"] == dict(profile.runs)
    assert {row.name.partition("/")[0] for row in profile.by_instruction()} == set(profile.runs)
    with pytest.raises(ArchiveError, match=r"ran tanh\.out|ran embedding\.out|ran add\.out"):
        profile_etdump(dump("methods"), record("methods"), method="words")
    with pytest.raises(ArchiveError, match="a method with debug handles, main, found forward, later, words"):
        profile_etdump(dump("methods"), record("methods"), method="main")


def test_branches_have_no_place_and_do_not_contradict() -> None:
    profile = profile_etdump(dump("fork"), record("fork"))
    unknown = {event.name for event in profile.events if event.place.source is None}
    assert unknown == {"JF_CALL", "MOVE_CALL", "sin.out", "embedding.out", "add.out"}
    assert profile.unknown == 8


def test_a_run_that_failed_counts_as_far_as_it_went() -> None:
    profile = profile_etdump(dump("failed"), record("region"))
    assert (profile.runs, profile.whole_ns) == ({"forward": 2}, None)
    assert {row.name: row.calls for row in profile.by_instruction()} == {
        "forward/0:0": 2,
        "forward/0:1": 2,
        "forward/0:2": 1,
    }


def test_first_runs_of_each_method_can_be_left_out() -> None:
    assert profile_etdump(dump("methods"), record("methods"), warmup=1).runs == {"forward": 1}
    with pytest.raises(ArchiveError, match="there are no runs after the first 2 of each method"):
        profile_etdump(dump("methods"), record("methods"), warmup=2)


def test_without_a_record_there_are_operators_and_backends() -> None:
    profile = profile_etdump(dump("xnnpack"))
    assert profile.views == ("operator", "delegate")
    assert {row.name for row in profile.by_operator()} == {
        *("_to_dim_order_copy.out", "index.Tensor_out", "DELEGATE_CALL"),
        *("Fully Connected (NC, F32) GEMM #1", "Add (ND) #1", "Sine (NC) #1"),
    }
    assert profile.facts()["module"] == profile.facts()["line"] == ()
    assert "Add (ND) #1" in profile._repr_html_()
    assert str(profile).count("DELEGATE_CALL") == 2
    with pytest.raises(ValueError, match="by 'module': expected one of operator, delegate"):
        profile.table(by="module")


def test_what_a_backend_notes_is_part_of_its_call() -> None:
    profile = profile_etdump(dump("xnnpack"), record("xnnpack"))
    rows = {row.name: row.self_ns for row in profile.by_delegate()}
    events = [event for block in blocks_of(dump("xnnpack").read_bytes()) for event in block.events]
    notes = sum(event.end - event.start for event in events if event.delegate)
    calls = sum(event.end - event.start for event in events if event.name == "DELEGATE_CALL")
    assert rows["XnnpackBackend: DELEGATE_CALL"] == calls - notes
    assert sum(time for name, time in rows.items() if name.startswith("XnnpackBackend")) == calls
    assert profile.left_out == 0


def test_notes_of_a_backend_have_the_places_of_the_nodes_that_it_told() -> None:
    with archive.open(record("mapped")) as opened:
        nodes = InstructionNodes(opened)
        ops = {number: [node.op for node in nodes.named(f"0:{number}")[0].nodes] for number in range(9)}
        handles = {
            number: instruction.handles for number, instruction in opened.instructions["forward"].items()
        }
    calls = []
    for number, (op, *_) in ops.items():
        at = 100 * number
        if number in (4, 7):  # of the note 20, the id of another one is a part
            calls += [Event(None, 0, number, at + 1, at + 5, 2), Event(None, 0, number, at + 5, at + 7, 20)]
            calls.append(Event("DELEGATE_CALL", 0, number, at, at + 10))
        else:
            kernel = f"native_call_{op.split('.')[1]}.out"
            calls += [
                Event(kernel, 0, number, at + 1, at + 9),
                Event("OPERATOR_CALL", 0, number, at, at + 10),
            ]
    more = {"forward": {**handles, 4: handles[4] + handles[7]}}
    changed = changed_record("mapped", debug_handle_map=json.dumps(more).encode())
    profile = profile_etdump(built([Block(calls)]), changed)
    places = {event.name: event.place for event in profile.events if event.place.instruction == "forward/0:4"}
    assert places["2"].op == ops[4][0]
    assert places["2"].source is not None
    assert places["20"] == places["DELEGATE_CALL"]
    # those of all nodes of the call
    assert str(places["20"].source) == "models/methods.py:38, 39"
    assert {row.name: row.self_ns for row in profile.by_delegate()} == {
        "(no backend)": 56,
        "BackendWithCompilerDemo: 2": 8,
        "BackendWithCompilerDemo: 20": 4,
        "BackendWithCompilerDemo: DELEGATE_CALL": 8,
    }


# --- other programs


@pytest.mark.parametrize(
    ("name", "of", "why"),
    [
        ("shop", "sized", "instruction 0:0 ran embedding.out, and is aten.sym_size.int in the ETRecord"),
        ("region", "shop", "instruction 0:1 ran embedding.out, and is aten.tanh.default in the ETRecord"),
        ("xnnpack", "shop", "0:0 ran _to_dim_order_copy.out, and is aten.embedding.default in the ETRecord"),
        ("shop", "xnnpack", "instruction 0:0 ran embedding.out, and is "),
        ("xnnpack", "mapped", "and "),
        ("shop", "methods", "; nor does it fit 2 other methods"),
    ],
)
def test_a_dump_of_another_program_is_refused(name: str, of: str, why: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        profile_etdump(dump(name), record(of))
    assert why in str(refused.value)
    assert str(refused.value).endswith(f": the ETDump is not of the program of {record(of)}")


def ran(*operators: str, whole: bool = True) -> bytes:
    """A run of kernels by their operators, one instruction each; of calls without kernels where "" stands."""
    events = []
    for number, operator in enumerate(operators):
        at = 100 * number
        if operator in ("DELEGATE_CALL", "JF_CALL"):
            events.append(Event(operator, 0, number, at, at + 50))
            continue
        if operator:
            events.append(Event(f"native_call_{operator}", 0, number, at + 10, at + 40))
        events.append(Event("OPERATOR_CALL", 0, number, at, at + 50))
    return built([Block([*events, *([Event("Method::execute", -1, 0, 0, 10**6)] if whole else [])])])


REGION = ("embedding.out", "embedding.out", "add.out")


@pytest.mark.parametrize(
    ("operators", "why"),
    [
        (REGION, ""),
        (("embedding.other", "embedding.out", "add.x"), ""),  # overloads are the runtime's choice
        (("", "", ""), ""),  # kernels that are not noted
        ((*REGION, "copy_"), ""),  # a buffer's new value
        ((*REGION, ""), ""),  # an operator on sizes
        (
            ("embedding.out", "add.out", "add.out"),
            "0:1 ran add.out, and is aten.embedding.default",
        ),
        ((*REGION, "mul.out"), "instruction 0:3 ran mul.out, and isn't in the ETRecord"),
        ((*REGION, "DELEGATE_CALL"), "instruction 0:3 ran DELEGATE_CALL, and isn't in the ETRecord"),
        (REGION[:2], "a run ended without instruction 0:2 of the ETRecord"),
        (("DELEGATE_CALL", *REGION[1:]), "0:0 ran DELEGATE_CALL, and is aten.embedding.default"),
        (("JF_CALL", *REGION[1:]), "instruction 0:0 ran JF_CALL, and is aten.embedding.default"),
    ],
)
def test_what_contradicts_a_record(operators: tuple[str, ...], why: str) -> None:
    if not why:
        assert profile_etdump(ran(*operators), record("region")).runs == {"forward": 1}
        return
    with pytest.raises(ArchiveError) as refused:
        profile_etdump(ran(*operators), record("region"))
    assert why in str(refused.value)


def test_a_run_that_did_not_end_or_jumped_need_not_have_run_all() -> None:
    assert profile_etdump(ran(*REGION[:2], whole=False), record("region")).runs == {"forward": 1}
    jumped = ran(*REGION[:2], *[""] * 5, "JF_CALL")
    with pytest.raises(ArchiveError, match="instruction 0:2 ran"):
        profile_etdump(ran(*REGION[:2], "mul.out", whole=False), record("region"))
    assert profile_etdump(jumped, record("region")).runs == {"forward": 1}


def test_a_run_that_fits_several_methods_is_refused_until_one_is_named() -> None:
    data = ran("embedding.out", whole=False)
    with pytest.raises(ArchiveError, match="a run fits each of these methods: forward, words; choose"):
        profile_etdump(data, record("methods"))
    assert profile_etdump(data, record("methods"), method="words").runs == {"words": 1}


def test_comparing_runs_with_methods_is_bounded() -> None:
    profile = profile_etdump(dump("methods"), record("methods"), limits=Limits(work=100))
    assert profile.runs.total() == 4
    with pytest.raises(LimitError, match="work is limited to 14, found 15"):
        profile_etdump(dump("methods"), record("methods"), limits=Limits(work=14))


def test_only_etrecords_and_etdumps_are_taken() -> None:
    with pytest.raises(ArchiveError, match="an ETDump of ExecuTorch's runtime: `inspect`, `profile`"):
        profile_etdump(dump("shop"), dump("shop"))
    with pytest.raises(ArchiveError, match="expected an ETDump, found an ETRecord of ExecuTorch"):
        profile_etdump(record("shop"), record("shop"))


# --- clocks


def test_ticks_are_taken_for_as_many_ns_as_is_said() -> None:
    one, many = (profile_etdump(dump("region"), tick_ns=ns) for ns in (1, 40))
    assert many.total_ns == 40 * one.total_ns
    assert many.whole_ns == 40 * (one.whole_ns or 0)


def test_a_clock_of_32_bits_may_start_anew() -> None:
    top = 1 << 32
    events = [
        Event("native_call_add.out", 0, 0, top - 40, top - 10),
        Event("OPERATOR_CALL", 0, 0, top - 50, 20),
        Event("native_call_mul.out", 0, 1, 40, 60),
        Event("OPERATOR_CALL", 0, 1, 30, 70),
        Event("Method::execute", -1, 0, top - 100, 200),
    ]
    profile = profile_etdump(built([Block(events)]))
    assert [(event.name, event.start_ns, event.end_ns) for event in profile.events] == [
        ("add.out", 0, 30),
        ("mul.out", 80, 100),
    ]
    assert profile.whole_ns == 300
    with pytest.raises(
        ArchiveError, match=r"OPERATOR_CALL of instruction 0:0 ends 4294967226 ticks before it"
    ):
        profile_etdump(built([Block(events[:4])]))  # nothing says when the run began
    with pytest.raises(
        ArchiveError, match="Method::execute of instruction -1:0 ends 1 ticks before it starts"
    ):
        profile_etdump(built([Block([Event("Method::execute", -1, 0, 1 << 40, (1 << 40) - 1)])]))
    with pytest.raises(ArchiveError, match="of instruction -1:0 ends 4294967299 ticks before it starts"):
        profile_etdump(built([Block([Event("Method::execute", -1, 0, top + 5, 2)])]))  # of 64 bits


def test_notes_of_a_backend_with_another_clock_are_left_out_and_counted() -> None:
    calls = [Event("DELEGATE_CALL", 0, 0, 1000, 2000), Event("Method::execute", -1, 0, 0, 5000)]
    inside = [Event(None, 0, 0, 1100, 1200, number=3), Event(None, 0, 0, 1200, 1500, text="mul")]
    outside = [Event(None, 0, 0, 7, 9, number=3)]
    overlapping = [Event(None, 0, 0, 1100, 1300, number=3), Event(None, 0, 0, 1200, 1500, text="mul")]
    rows = [
        {row.name: row.self_ns for row in profile_etdump(built([Block([*notes, *calls])])).by_operator()}
        for notes in (inside, outside, overlapping)
    ]
    assert rows == [
        {"3": 100, "mul": 300, "DELEGATE_CALL": 600},
        {"DELEGATE_CALL": 1000},
        {"DELEGATE_CALL": 1000},
    ]
    assert profile_etdump(built([Block([*overlapping, *calls])])).left_out == 2


def test_runs_of_clocks_that_start_anew_stand_one_behind_the_other() -> None:
    profile = profile_etdump(built([Block([Event("OPERATOR_CALL", 0, 0, 500, 600)])] * 2))
    assert [(event.start_ns, event.end_ns, event.lane) for event in profile.events] == [
        (0, 100, 0),
        (100, 200, 0),
    ]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([Event("native_call_add.out", 0, 3, 1, 2)], "native_call_add.out of instruction 0:3 is not inside"),
        (
            [Event("native_call_add.out", 0, 3, 1, 2), Event("OPERATOR_CALL", 0, 4, 0, 3)],
            "native_call_add.out of instruction 0:3 is not inside of the instruction's call",
        ),
        (
            [Event("native_call_add.out", 0, 3, 1, 9), Event("OPERATOR_CALL", 0, 3, 0, 3)],
            "native_call_add.out of instruction 0:3 is not inside of the instruction's call",
        ),
        ([Event(None, 0, 3, 1, 2, number=7)], "7 of instruction 0:3 is not inside"),
        ([Event("Method::execute", -1, 0, 1, 2)], "there are no runs of which an instruction is noted"),
        ([], "there are no runs of which an instruction is noted"),
    ],
)
def test_events_that_are_not_as_the_runtime_notes_them_are_refused(events: list[Event], why: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        profile_etdump(built([Block(events)]))
    assert why in str(refused.value)
