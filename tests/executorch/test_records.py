"""ETRecords: their programs and instructions; ExecuTorch's Inspector is the oracle."""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

import archive
from archive.formats.etrecord import DelegateCall, Instruction, node_handles
from archive.formats.record_kinds import programs_in
from archive.reader.lookups.instructions import InstructionNodes, runs
from tests.support.commands import run
from tests.support.documents import file_of
from tests.support.exported import ETRECORDS, INSPECTED, changed_record, inspected, record

if TYPE_CHECKING:
    from pathlib import Path


def test_there_are_records_of_several_methods_and_of_backends() -> None:
    assert [
        *("delegated", "device", "fork", "mapped", "methods", "quantised", "region", "shop", "sized"),
        "xnnpack",
    ] == ETRECORDS


@pytest.mark.parametrize("name", INSPECTED)
def test_an_instruction_leads_to_the_nodes_that_the_inspector_names(name: str) -> None:
    with archive.open(record(name)) as opened:
        places = InstructionNodes(opened)
        for told in inspected(name):
            (place,) = places.named(f"0:{told['instruction']}")
            handles = told["handles"]
            assert list(place.instruction.handles) == (handles if isinstance(handles, list) else [handles])
            assert [f"{node.site.name}_" for node in place.nodes] == list(told["traces"])
            for node in place.nodes:
                trace = told["traces"][f"{node.site.name}_"]
                if trace and trace.startswith('File "<eval_with_key>'):  # see test_regions
                    continue
                assert node.site.trace == trace
                modules = told["modules"][f"{node.site.name}_"].values()
                assert [[one.path, one.class_name] for one in node.site.modules] == [
                    list(one) for one in modules
                ]


@pytest.mark.parametrize("name", INSPECTED)
def test_the_operator_that_ran_is_that_of_a_node(name: str) -> None:
    with archive.open(record(name)) as opened:
        for told in inspected(name):
            (place,) = InstructionNodes(opened).named(f"0:{told['instruction']}")
            if place.instruction.delegate:
                assert told["operator"] == "DELEGATE_CALL"
                continue
            # The Inspector leaves the namespace out.
            names = {node.site.target.split(".")[-3] for node in place.nodes}
            assert any(runs(f"{one}::{told['operator']}", node) for one in names for node in place.nodes)


@pytest.mark.parametrize(
    ("operator", "target", "is_its"),
    [
        ("aten::add.out", "executorch.exir.dialects.edge.ops.aten.add.Tensor", True),
        ("aten::mean.dtype_out", "executorch.exir.dialects.edge.ops.aten.mean.default", True),
        ("aten::add.out", "executorch.exir.dialects.edge.ops.aten.addmm.default", False),
        ("quantized_decomposed::add.out", "executorch.exir.dialects.edge.ops.aten.add.Tensor", False),
        ("aten::sym_size.int", "torch.ops.aten.sym_size.int", True),
        ("executorch_prim::mul.Scalar", "_operator.mul", True),
        ("executorch_prim::mul.Scalar", "executorch.exir.dialects.edge.ops.aten.mul.Tensor", False),
        ("executorch_prim::ceil.Scalar", "math.ceil", True),
        ("add", "_operator.add", False),
    ],
)
def test_an_operator_is_known_by_namespace_and_name(operator: str, target: str, *, is_its: bool) -> None:
    with archive.open(record("shop")) as opened:
        (place,) = InstructionNodes(opened).named("0:0")
        (node,) = place.nodes
        object.__setattr__(node.site, "target", target)
        assert runs(operator, node) is is_its


def test_a_record_has_the_exported_program_and_those_of_its_methods() -> None:
    with archive.open(record("methods")) as opened:
        assert list(opened.programs) == [
            "exported_program",
            *(f"edge_dialect_exported_program/{method}" for method in ("forward", "later", "words")),
        ]
        assert (
            opened.programs["exported_program"].sites["embedding"].target
            == "torch.ops.aten.embedding.default"
        )
        assert list(opened.instructions) == ["forward", "later", "words"]


def test_an_instruction_that_calls_a_backend_has_its_name_and_all_handles() -> None:
    with archive.open(record("xnnpack")) as opened:
        assert opened.instructions["forward"] == {
            0: Instruction((5,), None, None),
            1: Instruction((1, 2, 3), DelegateCall("XnnpackBackend", {}), 1),
            2: Instruction((4,), None, None),
            3: Instruction((5, 6), DelegateCall("XnnpackBackend", {}), 1),
        }
    with archive.open(record("mapped")) as opened:
        assert opened.instructions["forward"][4] == Instruction(
            (2,), DelegateCall("BackendWithCompilerDemo", {"2": (2,)}), 1
        )


def test_a_call_of_a_backend_may_have_no_handles_or_events() -> None:
    delegates = b'{"forward": {"1": {"name": "B", "delegate_map": null}}}'
    file = changed_record("xnnpack", debug_handle_map=b'{"forward": {"2": 4}}', delegate_map=delegates)
    with archive.open(file) as opened:
        assert opened.instructions["forward"] == {
            1: Instruction((), DelegateCall("B", {}), 1),
            2: Instruction((4,), None, None),
        }


def test_an_older_record_names_no_method() -> None:
    out, old = BytesIO(), "edge_dialect_exported_program"
    with zipfile.ZipFile(record("shop")) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            target.writestr(name.replace(f"{old}/forward", old), source.read(name))
    with archive.open(out.getvalue()) as opened:
        assert list(opened.programs) == ["exported_program", old]
        (place,) = InstructionNodes(opened).named("0:14")
        assert [node.site.key for node in place.nodes] == ["aten_embedding_default_1"]


def test_an_archive_with_a_folder_is_no_record() -> None:
    names = ["ETRECORD_V0", "one", "one_state_dict"]
    assert programs_in(names, "") == {"one": "one"}
    assert programs_in(names, "model") == {}


def test_other_archives_have_no_instructions() -> None:
    with archive.open(record("shop").parents[1] / "exported" / "shop.pt2") as opened:
        assert not opened.instructions


@pytest.mark.parametrize(
    ("text", "handles"),
    [("7", [7]), ("(1, 2)", [1, 2]), ("(3,)", [3]), ("[4, 5]", [4, 5]), ("0", []), ("None", []), ("1 2", [])],
)
def test_a_node_has_one_handle_or_several(text: str, handles: list[int]) -> None:
    assert node_handles({"debug_handle": text}) == handles


def test_an_instruction_is_asked_for_by_its_number() -> None:
    done = run("symbolicate", record("shop"), "0:14")
    assert done.returncode == 0
    assert done.stdout.decode() == (
        "Module hierarchy:top(Shop).goods(Lookup).rows(Embedding).aten.embedding.default\n"
        "Original traceback:\n"
        'File "models/shop.py", line 42, in forward\n'
        "    b = self.price(self.goods(second))\n"
        '  File "models/shop.py", line 23, in forward\n'
        "    return self.norm(self.smooth(self.rows(ids)))\n"
        '  File "/opt/py/lib/python3.11/site-packages/torch/nn/modules/sparse.py", line 189, in forward\n'
        "    return F.embedding(\n"
    )


def test_of_several_methods_each_is_told_or_the_one_that_is_named() -> None:
    told = file_of(run("symbolicate", record("methods"), "0:0", "words/0:0", "--json").stdout)
    assert [(one["asked"], one["instruction"], one["nodes"]) for one in told["instructions"]] == [
        ("0:0", "forward/0:0", ["aten_embedding_default"]),
        ("0:0", "later/0:0", ["aten_add_tensor"]),
        ("0:0", "words/0:0", ["aten_embedding_default"]),
        ("words/0:0", "words/0:0", ["aten_embedding_default"]),
    ]
    assert [one["module_hierarchy"] for one in told["symbolications"]] == [
        "top(Lookup).rows(Embedding).aten.embedding.default",
        "top(Later).aten.add.Tensor",
        *["top(Words).words(Embedding).aten.embedding.default"] * 2,
    ]


def test_a_call_of_a_backend_is_told_as_one() -> None:
    done = run("symbolicate", record("xnnpack"), "0:1")
    assert done.returncode == 0
    assert done.stdout.count(b"Original traceback:") == 3
    assert b"forward/0:1 calls XnnpackBackend, which took some or all nodes of these" in done.stderr


def test_numbers_without_a_node_among_others_are_told(tmp_path: Path) -> None:
    path = tmp_path / "gap.etrecord"
    path.write_bytes(changed_record("shop", debug_handle_map=b'{"forward": {"0": 1, "9": 2, "4": 3}}'))
    done = run("symbolicate", path, "0:5")
    assert done.returncode == 1
    assert b"instruction '0:5'; there are 3 of forward/0:0 to 9\n" in done.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("0:99", "no node is recorded for instruction '0:99'; there are forward/0:0 to 31"),
        ("1:0", "no node is recorded for instruction '1:0'"),
        ("words/0:0", "no node is recorded for instruction 'words/0:0'"),
        ("aten_embeding_default", "there are aten_embedding_default, "),
        ("42", "has no debug handle 42: its instructions have 1-26; give one, like forward/0:0"),
    ],
)
def test_an_instruction_that_is_not_there_is_told(asked: str, said: str) -> None:
    done = run("symbolicate", record("shop"), asked)
    assert done.returncode == 1
    assert said in done.stderr.decode()


def test_a_handle_that_no_node_has_is_told(tmp_path: Path) -> None:
    path = tmp_path / "other.etrecord"
    path.write_bytes(changed_record("shop", debug_handle_map=b'{"forward": {"0": 99}}'))
    done = run("symbolicate", path, "0:0")
    assert done.returncode == 1
    assert b"no node has the debug handle of instruction '0:0': 99" in done.stderr


def test_a_call_of_a_backend_without_nodes_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "other.etrecord"
    path.write_bytes(changed_record("xnnpack", debug_handle_map=b'{"forward": {"1": [99]}}'))
    done = run("symbolicate", path, "0:1")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"no node has the debug handle of instruction '0:1': 99" in done.stderr


def test_inspect_counts_instructions_and_calls_of_backends() -> None:
    facts = file_of(run("inspect", record("xnnpack"), "--json").stdout)
    assert facts["methods"] == {
        "forward": {"instructions": 4, "handles": 6, "backends": {"XnnpackBackend": 2}}
    }
    assert facts["records"]["debug_handle_map"]["kind"] == "map of instructions"
    assert facts["programs"]["edge_dialect_exported_program/forward"]["traced"] == 7
    assert b"XnnpackBackend 2" in run("inspect", record("xnnpack")).stdout


def test_a_record_that_was_not_finished_has_programs_alone(tmp_path: Path) -> None:
    path = tmp_path / "unfinished.etrecord"
    path.write_bytes(
        changed_record("shop", debug_handle_map=None, delegate_map=None, instruction_id_to_num_outs_map=None)
    )
    assert run("inspect", path).returncode == 0
    assert run("symbolicate", path, "aten_tanh_default").returncode == 0
    done = run("symbolicate", path, "0:0")
    assert done.returncode == 1
    assert b"no node '0:0'" in done.stderr
