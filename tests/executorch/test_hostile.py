"""ETRecords by a hostile writer, and ``verify`` of ETRecords."""

from __future__ import annotations

import json
import re
import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError, LimitError
from archive.check.verify import verify
from archive.failures.explainer import LogExplainer
from archive.reader.lookups.instructions import InstructionNodes
from tests.support.commands import well
from tests.support.cost import loops_below
from tests.support.documents import file_of
from tests.support.exported import ETRECORDS, changed_record, record

if TYPE_CHECKING:
    from pathlib import Path

HANDLES, DELEGATES, OUTPUTS = "debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map"
WANTED = "expected an integer from 0 to 9223372036854775807"
EDGE = "edge_dialect_exported_program/forward"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        (HANDLES, b"[]", "expected an object, found a list"),
        (HANDLES, b'{"forward": [1]}', "forward: expected an object, found a list"),
        (HANDLES, b'{"forward": {"-1": 1}}', "forward.-1: expected the number of an instruction, found '-1'"),
        (HANDLES, b'{"forward": {"007": 1}}', "expected the number of an instruction, found '007'"),
        (HANDLES, '{"forward": {"\u0667": 1}}'.encode(), "expected the number of an instruction"),
        (HANDLES, b'{"forward": {"9999999999": 1}}', "expected the number of an instruction"),
        (
            HANDLES,
            b'{"forward": {"3": true}}',
            f"forward.3: {WANTED}, found true or false",
        ),
        (HANDLES, b'{"forward": {"3": 1.0}}', "forward.3: expected an integer"),
        (HANDLES, b'{"forward": {"3": -1}}', "forward.3: expected an integer"),
        (HANDLES, b'{"forward": {"3": 9223372036854775808}}', "forward.3: expected an integer"),
        (
            DELEGATES,
            b'{"forward": {"3": {"name": "B", "delegate_map": []}}}',
            "forward.3.delegate_map: expected an object",
        ),
        (
            HANDLES,
            b'{"forward": {"3": [1, "2"]}}',
            f"forward.3[1]: {WANTED}, found a text",
        ),
        (
            HANDLES,
            b'{"forward": {"3": [[[1]]]}}',
            f"forward.3[0]: {WANTED}, found a list",
        ),
        (
            HANDLES,
            b'{"forward": {"3": null}}',
            f"forward.3: {WANTED}, found nothing",
        ),
        (HANDLES, b'{"forward": {"3": 1', "expected JSON"),
        (HANDLES, b"[" * 100_000, "values nested too deeply"),
        (HANDLES, b'{"forward": {"3": ' + b"7" * 5000 + b"}}", "expected JSON"),
        (DELEGATES, b'{"forward": {"3": "XnnpackBackend"}}', "forward.3: expected an object, found a text"),
        (DELEGATES, b'{"forward": {"3": {"name": 1}}}', "forward.3.name: expected a text, found a number"),
        (
            DELEGATES,
            b'{"forward": {"3": {"name": "B", "delegate_map": [1]}}}',
            "forward.3.delegate_map: expected an object",
        ),
        (
            OUTPUTS,
            b'{"forward": {"3": {}}}',
            f"forward.3: {WANTED}, found an object",
        ),
    ],
)
def test_a_map_that_is_none_is_told_with_its_place(name: str, content: bytes, place: str) -> None:
    with (
        archive.open(changed_record("xnnpack", **{name: content}), name="forged") as opened,
        pytest.raises(ArchiveError) as caught,
    ):
        opened.instructions  # noqa: B018 (reading it fails)
    assert str(caught.value).startswith(f"forged: {name}")
    assert place in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_name_of_a_method_is_cut_in_messages() -> None:
    content = json.dumps({"m" * 100_000: {"k" * 100_000: 1}}).encode()
    with (
        archive.open(changed_record("shop", debug_handle_map=content)) as opened,
        pytest.raises(ArchiveError) as caught,
    ):
        opened.instructions  # noqa: B018 (the same)
    assert len(str(caught.value)) < 400


def test_many_instructions_cost_what_the_file_allows() -> None:
    content = json.dumps({"forward": dict.fromkeys(map(str, range(30_000)), 1)}).encode()
    file = changed_record("shop", debug_handle_map=content)
    tracemalloc.start()
    try:
        with archive.open(file) as opened:
            assert len(opened.instructions["forward"]) == 30_000
            assert tracemalloc.get_traced_memory()[1] < opened.allowance.memory
            assert opened.allowance.taken < opened.allowance.memory
    finally:
        tracemalloc.stop()
    with archive.open(file, limits=archive.Limits(memory=1 << 18)) as opened, pytest.raises(LimitError):
        opened.instructions  # noqa: B018 (the same)


def nodes(count: int, handle: str, file: str = "f.py") -> bytes:
    """A program of nodes that all have a handle."""
    every = [
        {
            "name": f"n_{number}",
            "target": "executorch.exir.dialects.edge.ops.aten.add.Tensor",
            "inputs": [],
            "outputs": [],
            "metadata": {"debug_handle": handle, "stack_trace": f'File "{file}", line {number}, in forward'},
        }
        for number in range(count)
    ]
    return json.dumps({"graph_module": {"graph": {"nodes": every}}}).encode()


def test_a_handle_that_stands_many_times_is_one() -> None:
    handles = json.dumps({"forward": {"0": [1] * 200_000}}).encode()
    data = changed_record("shop", **{HANDLES: handles, EDGE: nodes(2000, "1")})
    with loops_below(1_000), archive.open(data) as opened:
        (place,) = InstructionNodes(opened).named("0:0")
        assert len(place.nodes) == 2000


def test_a_log_in_which_each_line_may_be_of_many_nodes_ends_soon() -> None:
    handles = json.dumps({"forward": dict.fromkeys(map(str, range(2000)), 1)}).encode()
    lines = [
        b"KernelCall failed at instruction 0:%d in operator aten::add.out: 0x12\n" % number
        for number in range(2000)
    ]
    data = changed_record("shop", **{HANDLES: handles, EDGE: nodes(2000, "1")})
    with loops_below(2_000), archive.open(data, limits=archive.Limits(work=5000)) as opened:
        explainer = LogExplainer.of(opened)
        out = b"".join(explainer.explain(lines))
    assert out == b"".join(lines)
    assert explainer.unknown == explainer.ambiguous == 2000
    assert any(re.search("too many steps; --limit work=… allows more", note) for note in explainer.notes)


def test_a_name_that_stands_for_too_many_nodes_is_refused() -> None:
    handles = b'{"forward": {"0": 1}}'
    file = changed_record("shop", **{HANDLES: handles, EDGE: nodes(2000, "1")})
    with (
        archive.open(file, limits=archive.Limits(work=100)) as opened,
        pytest.raises(LimitError, match="work"),
    ):
        InstructionNodes(opened).named("0:0")


def test_of_many_methods_the_first_are_shown_and_others_counted(tmp_path: Path) -> None:
    methods = {f"method_{number}": {"0": 1, "1": 2} for number in range(1003)}
    (tmp_path / "many").write_bytes(changed_record("shop", **{HANDLES: json.dumps(methods).encode()}))
    table = [line.split() for line in well("inspect", tmp_path / "many").splitlines()]
    assert ["method_999", "2", "2"] in table
    assert ["[4", "more", "methods]", "6", "6"] in table
    assert len(file_of(well("inspect", tmp_path / "many", "--json"))["methods"]) == 1004
    told = well("inspect", tmp_path / "many", "--limit", "work=1000")
    assert "methods are not known: debug_handle_map: work is limited to 1,000, found 1,003" in told


def test_each_handle_of_a_node_is_asked_memory_for() -> None:
    handles = f"({', '.join(map(str, range(1, 10_001)))})"
    with archive.open(changed_record("shop", **{EDGE: nodes(1, handles)})) as opened:
        assert len(opened.programs[EDGE].sites) == len(opened.instructions) == 1
        before = opened.allowance.taken
        (place,) = InstructionNodes(opened).named("0:0")
        assert len(place.nodes) == 1
        assert opened.allowance.taken - before >= 256 * 10_000


def test_a_node_of_long_metadata_takes_many_steps() -> None:
    line = b"KernelCall failed at instruction 0:0 in operator aten::add.out: 0x12\n"
    for length, why in ((1, "nothing says which"), (1 << 20, "too many steps")):
        program = nodes(2, "1", "f" * length)
        with archive.open(
            changed_record("shop", **{EDGE: program}), limits=archive.Limits(work=100)
        ) as opened:
            explainer = LogExplainer.of(opened)
            assert b"".join(explainer.explain([line])) == line
        assert why in explainer.notes[0]


# --- ``verify`` of ETRecords: zips that are whole, programs and maps that can be read, handles of nodes


HANDLE_MAP = "debug_handle_map"


def content(name: str) -> bytes:
    """A record of a fixture."""
    with zipfile.ZipFile(record("shop")) as opened:
        return opened.read(name)


@pytest.mark.parametrize("name", ETRECORDS)
def test_records_of_executorch_are_well(name: str) -> None:
    assert verify(record(name)) == []


def test_a_handle_that_no_node_has_leads_to_nothing() -> None:
    handles = json.loads(content(HANDLE_MAP))
    handles["forward"]["3"] = 777
    (found,) = verify(changed_record("shop", **{HANDLE_MAP: json.dumps(handles).encode()}))
    assert (found.severity, found.record, found.place) == ("warning", HANDLE_MAP, "forward.3")
    assert found.message == f"expected handles of nodes of {EDGE}, found (777,)"


@pytest.mark.parametrize(
    ("name", "data", "severities", "told"),
    [
        (HANDLE_MAP, b'{"forward": 1}', ["error"], "expected an object, found a number"),
        (EDGE, b"{}", ["error", "warning"], "expected an object, found nothing"),
        (EDGE, content(EDGE).replace(b"line ", b"lime ", 1), ["note"], "not laid out as PyTorch writes"),
    ],
)
def test_what_cannot_be_read_is_told(name: str, data: bytes, severities: list[str], told: str) -> None:
    found = verify(changed_record("shop", **{name: data}))
    assert [one.severity for one in found] == severities
    assert any(one.record == name and told in one.message for one in found)


def test_a_damaged_record_is_told() -> None:
    data = bytearray(record("shop").read_bytes())
    data[data.index(b'"forward": {"0": 1') + 3] ^= 1
    (found,) = [one for one in verify(bytes(data)) if one.severity == "error"]
    assert "crc" in found.message
