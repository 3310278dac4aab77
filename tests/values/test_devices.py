"""Values that ExecuTorch's runtime noted, beside a run in PyTorch; ExecuTorch's Inspector is the oracle."""

from __future__ import annotations

import struct
from functools import cache
from math import inf
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base.errors import ArchiveError

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend.values.inputs import read_inputs
from archive.reader.runtime.recorded import RecordedRuns
from tests.support.commands import run, well
from tests.support.documents import file_of
from tests.support.etdumps import Block, Event, Value, built, dump, gaps_of, inputs_of, values_of
from tests.support.exported import changed_record, record

if TYPE_CHECKING:
    from archive import Run

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
RECORD_OF = {"device": "device", "faulty": "device", "delegated": "delegated"}
EDGE = "edge_dialect_exported_program"
SURE = 1e-10
"""A mean squared error that rounding does not make."""


@cache
def program_run(name: str) -> Run:
    """The run of a record's program in PyTorch."""
    return archive.run(record(name), *read_inputs(str(inputs_of(name))).args)


@cache
def device_run(name: str) -> Run:
    return archive.run(dump(name), companion=record(RECORD_OF[name]), buffer=values_of(name))


def words(name: str, *more: object) -> tuple[object, ...]:
    """The command with an ETDump as the base."""
    buffer = ("--buffer", values_of(name))
    return ("run", record(RECORD_OF[name]), "--input", inputs_of(name), "--base", dump(name), *buffer, *more)


@pytest.mark.parametrize("name", RECORD_OF)
def test_gaps_are_the_inspectors(name: str) -> None:
    reference = program_run(RECORD_OF[name])
    diff = device_run(name).diff(reference)
    gaps = {gap.pair.base.node: gap for gap in diff.gaps}
    rows = gaps_of(name)[EDGE]
    assert rows
    for row in rows:  # of nodes that share a handle, the Inspector has the last one's value
        gap = gaps[row["nodes"][-1]]
        count = reference.value(gap.pair.base).numel()
        mine = {"MSE": gap.gap.mse, "L1": gap.gap.mae * count, "SNR": gap.gap.snr_db}
        if row["MSE"] > SURE:
            assert mine == pytest.approx({key: row[key] for key in mine}, rel=1e-3)
        else:  # PyTorch may round otherwise on another machine
            assert mine["MSE"] < SURE
            assert mine["SNR"] > 100
    assert len(diff.gaps) + diff.uncompared == len(device_run(name).operations)


def test_no_line_is_named_for_equal_programs() -> None:
    for name in ("device", "delegated"):
        assert not device_run(name).diff(program_run(name)).is_beyond


def test_the_fault_of_a_device_is_found_at_its_line() -> None:
    diff = device_run("faulty").diff(program_run("device"))
    assert diff.first is not None
    assert (diff.first.known.op, diff.first.known.place.module) == (
        "aten::native_layer_norm",
        "layers.1.norm",
    )
    assert diff.first.known.line == "models/device.py:18"
    assert [gap.max_rel > 1e-5 for gap in diff.outputs] == [True, False, True]


def test_operations_with_one_handle_have_the_lines_of_their_own_nodes() -> None:
    for one in (device_run("device"), program_run("device")):
        rows = [(each.line, each.node) for each in one.operations if each.op == "aten::embedding"]
        assert rows == [
            ("models/device.py:32", "aten_embedding_default"),
            ("models/device.py:33", "aten_embedding_default_1"),
        ]


def test_what_a_backend_keeps_to_itself_is_counted() -> None:
    observed = device_run("delegated")
    assert observed.unseen == {"nodes inside of XnnpackBackend": 3}
    nodes = [each.node for each in observed.operations]
    assert nodes == [
        "dim_order_ops__to_dim_order_copy_default",
        "aten_sin_default",
        "aten_index_tensor",
        "aten_linear_default_1",
    ]
    assert "not seen in " in well(*words("delegated"))


def test_a_device_is_beside_other_forms_of_its_model() -> None:
    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            y = torch.sin(self.first(x) + x)
            return self.second(y[ids] + 1)

    torch.manual_seed(0)
    model = Scores().eval()
    args = read_inputs(str(inputs_of("delegated"))).args
    with archive.run(model, *args) as eager, archive.run(record("delegated"), *args) as recorded:
        for run_of_record in (recorded, device_run("delegated")):
            diff = run_of_record.diff(eager)
            assert not diff.is_beyond
            assert {pair.mine.op for pair in diff.pairs.pairs} >= {"aten::sin", "aten::index", "aten::linear"}


# --- the command


@pytest.mark.parametrize("name", RECORD_OF)
def test_an_etdump_is_compared_with_the_other_one_whichever_it_is(name: str) -> None:
    of_program, of_dump = ("--input", inputs_of(name)), ("--buffer", values_of(name))
    turned = run("run", dump(name), *of_dump, *of_program, "--base", record(RECORD_OF[name]))
    done = run(*words(name))
    assert (done.stdout, done.returncode) == (turned.stdout, turned.returncode)
    assert done.returncode == (name == "faulty")
    facts = file_of(run(*words(name, "--json")).stdout)
    assert Path(facts["file"]).name == f"{name}.etdp"
    assert facts["form"] == "ExecuTorch"


def test_values_of_a_device_are_shown_watched_and_saved(tmp_path: Path) -> None:
    of_dump = ("run", dump("device"), "-c", record("device"), "--buffer", values_of("device"))
    assert "ExecuTorch: 24 operations" in well(*of_dump)
    assert well(*of_dump, "--watch", "device.py:38").count("tensor(") == 4
    well(*of_dump, "--save", tmp_path / "values.safetensors")
    assert (tmp_path / "values.safetensors").stat().st_size > 1000


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("-c", record("device")), b"--buffer: values of an ETDump are in a file of their own"),
        (("--buffer", values_of("device")), b"the ETRecord of the program that ran: -c"),
        (
            ("-c", record("device"), "--buffer", values_of("device"), "--first-nan"),
            b"leave --first-nan out",
        ),
        (
            ("--base", dump("device"), "--buffer", values_of("device")),
            b"an ETDump is compared with a model that runs",
        ),
    ],
)
def test_what_an_etdump_lacks_is_asked_for(more: tuple[object, ...], why: bytes) -> None:
    done = run("run", dump("device"), *more)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_buffer_without_an_etdump_is_refused() -> None:
    done = run("run", record("device"), "--buffer", values_of("device"))
    assert done.returncode == 2
    assert b"--buffer: it has the values of an ETDump" in done.stderr


# --- programs of ETRecords


@pytest.mark.parametrize(
    "name", ["fork", "mapped", "methods", "quantised", "region", "shop", "sized", "xnnpack"]
)
def test_both_programs_of_a_record_compute_the_same(name: str) -> None:
    with archive.run(record(name)) as edge, archive.run(record(name), method="exported_program") as exported:
        assert edge.operations
        assert not edge.diff(exported).is_beyond


def test_each_method_of_a_record_runs() -> None:
    for method in ("forward", "words", "later"):
        with archive.run(record("methods"), method=method, seed=1) as one:
            assert one.operations
    with pytest.raises(ArchiveError, match="expected --method with a method, or one of the programs"):
        archive.run(record("methods"), method="absent")


def test_a_record_executes_no_pickle(tmp_path: Path) -> None:
    broken = tmp_path / "m.etrecord"
    hostile = b"cos\nsystem\n(S'touch " + str(tmp_path / "executed").encode() + b"'\ntR."
    broken.write_bytes(changed_record("shop", **{f"{EDGE}/forward_state_dict": hostile}))
    with pytest.raises(ArchiveError, match="PyTorch does not load"):
        archive.run(broken)
    assert not (tmp_path / "executed").exists()


# --- what is refused


def refused(data: bytes, values: bytes | Path, name: str = "device") -> str:
    """The message with which an ETDump is refused."""
    with pytest.raises(ArchiveError) as raised:
        archive.run(data, companion=record(name), buffer=values)
    return str(raised.value)


def test_a_buffer_that_is_cut_is_refused() -> None:
    values = values_of("device").read_bytes()
    message = refused(dump("device").read_bytes(), values[:1000])
    assert "expected bytes " in message
    assert "found 1,000" in message


def _shifted(values: bytes, by: int) -> bytes:
    return bytes(by) + values[:-by]


@pytest.mark.parametrize("name", RECORD_OF)
def test_a_buffer_of_another_run_is_refused_or_doubted(name: str) -> None:
    data, values = dump(name).read_bytes(), values_of(name).read_bytes()
    with archive.run(data, companion=record(RECORD_OF[name]), buffer=values) as well:
        assert not well.observed.doubts
    why = "the debug buffer is of another run than the ETDump"
    for by in (16, 48, 64, 128):
        try:
            shifted = archive.run(data, companion=record(RECORD_OF[name]), buffer=_shifted(values, by))
        except ArchiveError as error:
            assert why in str(error)  # noqa: PT017 (of some shifts, both have the same bytes)
        else:
            assert shifted.observed.doubts
    assert why in refused(data, _shifted(values, 48), RECORD_OF[name])
    end = len(values.rstrip(b"\0"))
    longer, empty = values[:end].ljust(end + 3, b"\0") + b"\1", bytes(len(values))
    for buffer, said in ((longer, f"other bytes than 0 at {end + 3:,}"), (empty, "values are only zeros")):
        with archive.run(data, companion=record(RECORD_OF[name]), buffer=buffer) as doubted:
            (doubt,) = doubted.observed.doubts
            assert said in doubt
            assert doubt in doubted.diff(program_run(RECORD_OF[name])).doubts


def test_inputs_that_were_not_those_of_the_device_are_doubted() -> None:
    others = [torch.zeros_like(each) for each in read_inputs(str(inputs_of("device"))).args]
    with archive.run(record("device"), *others) as other:
        (doubt,) = device_run("device").diff(other).doubts
    assert "check that the debug buffer and the inputs" in doubt


def test_a_dump_of_another_program_is_refused() -> None:
    message = refused(dump("device").read_bytes(), values_of("device"), "delegated")
    assert "the ETDump is not of the program of" in message


def test_a_dump_without_values_is_refused() -> None:
    message = refused(dump("shop").read_bytes(), values_of("device"), "shop")
    assert "no values of a run of forward" in message


def test_a_run_of_inputs_of_other_sizes_is_refused() -> None:
    data = dump("device").read_bytes()
    sizes = struct.pack("<I2q", 2, 3, 6)
    assert data.count(sizes)
    other = data.replace(sizes, struct.pack("<I2q", 2, 1, 18))
    with (
        archive.run(other, companion=record("device"), buffer=values_of("device")) as device,
        pytest.raises(
            ArchiveError, match=r"aten::\w+ at models/device.py:18 returns .*of different programs"
        ),
    ):
        device.diff(program_run("device"))


CALL = [Event("native_call_sin.out", 0, 0, 2, 3), Event("OPERATOR_CALL", 0, 0, 1, 4)]
"""The events of an instruction."""


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        ((6, [2], [1], -4), "expected bytes -4 to 4"),
        ((6, [2], [1], 2**62), "expected bytes"),
        ((6, [2**62, 2**62], [2**62, 1], 0), "expected bytes 0 to"),
        ((6, [-1], [1], 0), "are of no tensor without gaps"),
        ((6, [2, 2], [1, 1], 0), "are of no tensor without gaps"),
        ((6, [2], [-1], 0), "are of no tensor without gaps"),
        ((6, [1] * 65, [1] * 65, 0), "are of no tensor without gaps"),
        ((99, [2], [1], 0), "elements of type 99"),
        ((12, [2], [1], 0), "elements of type 12"),
        ((6, [2], [1, 1], 0), "a stride for each size of a tensor"),
    ],
)
def test_a_tensor_that_lies_is_refused(tensor: tuple[int, list[int], list[int], int], why: str) -> None:
    assert why in _refused_values([Value(0, 0, [tensor]), *CALL])


def test_values_that_share_bytes_or_lie_in_no_call_are_refused() -> None:
    large = Value(0, 0, [(6, [12], [1], 0)])
    assert "values share bytes" in _refused_values([large, large, *CALL])
    why = "a value of instruction 0:0 is not inside of the instruction's call"
    assert why in _refused_values([*CALL, large])
    assert why in _refused_values([*CALL[:1], large._replace(instruction=1), *CALL[1:]]).replace("0:1", "0:0")


def _refused_values(events: list[Event | Value]) -> str:
    """The message with which a dump of one instruction is refused; the record's program is not asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordedRuns, "fitting", lambda *_: ["forward"])
        return refused(built([Block(events)]), b"\0" * 64)


def test_a_tensor_of_another_order_in_memory_is_as_its_strides_say() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordedRuns, "fitting", lambda *_: ["forward"])
        data = built([Block([Value(0, 0, [(6, [2, 3], [1, 2], 0)]), *CALL])])
        values = struct.pack("<6f", *range(6))
        with archive.run(data, companion=record("device"), buffer=values) as device:
            assert device.value(device.operations[0]).tolist() == [[0, 2, 4], [1, 3, 5]]


def test_a_tensor_without_elements_has_no_place_in_the_buffer() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordedRuns, "fitting", lambda *_: ["forward"])
        data = built([Block([Value(0, 0, [(6, [0, 3], [3, 1], -1)]), *CALL])])
        with archive.run(data, companion=record("device"), buffer=b"") as device:
            assert device.value(device.operations[0]).shape == (0, 3)


@pytest.mark.parametrize("seed", range(60))
def test_a_changed_dump_is_read_or_refused(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 (the same in each run)
    data = bytearray(dump("device").read_bytes())
    for _ in range(chance.choice((1, 2, 4))):
        size = chance.choice((1, 2, 4, 8))
        at = size * chance.randrange(len(data) // size)
        data[at : at + size] = chance.choice([chance.randbytes(size), b"\xff" * size, bytes(size)])
    try:
        archive.run(bytes(data), companion=record("device"), buffer=values_of("device")).close()
    except ArchiveError as error:
        assert "\n" not in str(error)  # noqa: PT017 (some changes do no harm)


# --- ExecuTorch itself


@cache
def inspector(name: str) -> Any:  # noqa: ANN401 (ExecuTorch's own)
    """The Inspector of a dump."""
    devtools = pytest.importorskip("executorch.devtools.inspector", exc_type=ImportError)
    return devtools.Inspector(
        etdump_path=str(dump(name)),
        etrecord=str(record(RECORD_OF[name])),
        debug_buffer_path=str(values_of(name)),
    )


@pytest.mark.parametrize("name", RECORD_OF)
def test_tensors_are_those_that_the_inspector_reads(name: str) -> None:
    of_inspector = [
        tensor
        for block in inspector(name).event_blocks
        for event in block.events
        if event.name not in ("OPERATOR_CALL", "Method::execute")
        for value in event.debug_data
        for tensor in (value if isinstance(value, list) else [value])
    ]
    device = device_run(name)
    mine = [device.value(each, at) for each in device.operations for at in range(len(each.results))]
    assert mine
    if name != "delegated":  # there the Inspector has a backend's arguments, too
        assert len(mine) == len(of_inspector)
    left = list(of_inspector)
    for tensor in mine:
        at = next(at for at, other in enumerate(left) if torch.equal(tensor, other))
        del left[at]


@pytest.mark.parametrize("name", RECORD_OF)
def test_distances_are_those_that_the_inspector_computes(name: str) -> None:
    reference = program_run(RECORD_OF[name])
    gaps = {gap.pair.base.node: gap for gap in device_run(name).diff(reference).gaps}
    for distance in ("MSE", "L1", "SNR"):
        rows = inspector(name).calculate_numeric_gap(distance, reference_graph=EDGE)
        for _, row in rows.iterrows():
            gap = gaps[row["aot_ops"][-1]]
            count = reference.value(gap.pair.base).numel()
            mine = {"MSE": gap.gap.mse, "L1": gap.gap.mae * count, "SNR": gap.gap.snr_db}[distance]
            assert mine == pytest.approx(row["gap"][0], rel=1e-9) or (mine == inf == row["gap"][0])
