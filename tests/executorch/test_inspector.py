"""Models that XNNPACK takes parts of, made and run here: the Inspector says the same of their runs.

Needs ExecuTorch. Other tests of this folder compare frozen runs with frozen answers.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("torch", exc_type=ImportError)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("executorch.exir", reason="needs ExecuTorch", exc_type=ImportError)
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.devtools import Inspector
    from executorch.devtools.inspector import TimeScale
    from executorch.exir import to_edge_transform_and_lower
    from executorch.extension.pybindings import portable_lib

import torch

import archive
from archive import profile_etdump
from archive.reader.lookups.instructions import InstructionNodes
from tests.backend import test_executorch
from tests.backend.test_executorch import MODELS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export and ExecuTorch warn of much

LINE = re.compile(rf'File "({re.escape(test_executorch.__file__)})", line (\d+), in')
RUNS = 2


class Ran(NamedTuple):
    """The files of a program that ran, and the Inspector's events of its runs."""

    record: Path
    program: Path
    dump: Path
    events: list  # type: ignore[type-arg]  # of ExecuTorch, which has no types


@pytest.fixture(scope="module", params=["cnn", "attention"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A model that was lowered and run."""
    make, arguments, _ = MODELS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    record, program, dump = (folder / f"model.{ending}" for ending in ("etrecord", "pte", "etdp"))
    exported = torch.export.export(make().eval(), arguments)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], generate_etrecord=True)
    made = edge.to_executorch()
    made.get_etrecord().save(record)
    program.write_bytes(made.buffer)
    module = portable_lib._load_for_executorch_from_buffer(made.buffer, enable_etdump=True)
    for _ in range(RUNS):
        module.run_method("forward", arguments)
    module.write_etdump_result_to_file(str(dump))
    inspector = Inspector(etdump_path=str(dump), etrecord=str(record), target_time_scale=TimeScale.NS)
    (block,) = (block for block in inspector.event_blocks if block.name == "Execute")
    return Ran(record, program, dump, [event for event in block.events if event.name != "Method::execute"])


def test_each_instruction_takes_the_inspectors_time(ran: Ran) -> None:
    kernels, calls = Counter[str](), Counter[str]()
    for event in ran.events:
        if event.delegate_debug_identifier is None:
            times = kernels if event.name.startswith("native_call_") else calls
            times[f"forward/0:{event._instruction_id}"] += sum(event.perf_data.raw)
    assert kernels
    assert any(event.name == "DELEGATE_CALL" for event in ran.events)
    found = Counter[str]()
    for row in profile_etdump(ran.dump, ran.record, program=ran.program).by_instruction():
        found[row.name] += row.self_ns
    assert found == {name: kernels.get(name, time) for name, time in calls.items()}


def test_what_xnnpack_notes_is_what_the_inspector_lists(ran: Ran) -> None:
    of_inspector = Counter(
        (f"forward/0:{event._instruction_id}", event.name)
        for event in ran.events
        if event.delegate_debug_identifier is not None
        for _ in range(RUNS)
    )
    noted = {name for _, name in of_inspector}
    events = profile_etdump(ran.dump, ran.record, program=ran.program).events
    found = Counter((event.place.instruction, event.name) for event in events if event.name in noted)
    assert found == of_inspector
    assert noted


def test_an_instruction_leads_to_the_nodes_handles_and_lines_of_the_inspector(ran: Ran) -> None:
    lines: dict[str, set[str]] = defaultdict(set)
    calls = [event for event in ran.events if event.name in {"OPERATOR_CALL", "DELEGATE_CALL"}]
    with archive.open(ran.record) as opened:
        nodes = InstructionNodes(opened)
        for event in calls:
            (place,) = nodes.named(f"0:{event._instruction_id}")
            handles = event.debug_handles
            known = handles if isinstance(handles, (list, tuple)) else [handles]
            assert {*place.instruction.handles} == {*known}
            assert {f"{node.site.name}_" for node in place.nodes} == {*event.stack_traces}
            traces = filter(None, event.stack_traces.values())
            lines[f"forward/0:{event._instruction_id}"] |= {
                ":".join(LINE.findall(trace)[-1]) for trace in traces
            }
    for event in profile_etdump(ran.dump, ran.record, program=ran.program).events:
        assert str(event.place.source).partition(" ")[0] in lines[str(event.place.instruction)]
