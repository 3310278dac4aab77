"""An ETRecord is accepted with the program that it was made with, and with no other."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive import ArchiveError, FileKind
from archive.base.limits import Steps
from archive.describe.runtime.profile import profile_etdump
from archive.formats.executorch import xnnpack
from archive.reader.lookups.instructions import InstructionNodes
from archive.reader.lookups.own_program import check_own
from tests.support.commands import called, run, well
from tests.support.corpus import FIXTURES
from tests.support.executorch import PROGRAMS, parsed, program_file, with_number, with_xnnpacks
from tests.support.exported import changed_record

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = sorted(path.stem for path in (FIXTURES / "executorch").glob("*.etrecord"))
SAME_MODEL = {"framed": "shop", "mutated": "", "delegated": "xnnpack"}
"""The record that a program fits, where it has another name; one record is of the same program as another."""
XNNPACK = program_file("xnnpack").read_bytes()
PLAN = "execution_plan 0"


def record_file(name: str) -> Path:
    return FIXTURES / "executorch" / f"{name}.etrecord"


def compare(record: str, program: Path | bytes) -> None:
    with (
        archive.open(record_file(record)) as opened,
        archive.open(program, name="m.pte", kinds={FileKind.EXECUTORCH}) as own,
    ):
        check_own(opened, own)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_fits_its_own_record_only(program: str) -> None:
    own = SAME_MODEL.get(program, program)
    for record in RECORDS:
        is_own = SAME_MODEL.get(record, record) == own
        refused = nullcontext() if is_own else pytest.raises(ArchiveError, match="it was not made with")
        with refused:
            compare(record, program_file(program).read_bytes())


CHANGES = {
    f"{PLAN} chains 0 instructions 2 instr_args op_index": 0,
    f"{PLAN} chains 0 instructions 1 instr_args args 0": 2,
    f"{PLAN} values 6 val sizes 0": 2,
    f"{PLAN} values 6 val scalar_type": 3,
}


@pytest.mark.parametrize("path", CHANGES)
def test_one_other_number_makes_it_another_program(path: str) -> None:
    changed = with_number(XNNPACK, path, CHANGES[path])
    with pytest.raises(ArchiveError, match=r"instruction forward/0:\d .*it was not made with m\.pte"):
        compare("xnnpack", changed)


def test_sizes_that_vary_do_so_in_both() -> None:
    fixed = with_number(program_file("sized").read_bytes(), f"{PLAN} values 0 val shape_dynamism", 0)
    with pytest.raises(ArchiveError, match=r"instruction forward/0:\d+ .*it was not made with m\.pte"):
        compare("sized", fixed)


def test_values_that_are_written_back_to_buffers_are_added_by_executorch() -> None:
    with archive.open(record_file("shop")) as opened:
        nodes, last = InstructionNodes(opened), max(opened.instructions["forward"])
        for operator, is_added in (("aten::copy_", True), ("copy_.out", True), ("aten::addmm.out", False)):
            assert nodes.may_lack("forward", last + 1, operator, Steps(100)) is is_added


OTHERWISE = {
    ("xnnpack", "debug_handle", 999): "runs a node with debug handle 999 in the program only",
    ("quantised", "datatype", 3): "is quantised by channel in the ETRecord, and not in the program",
    ("quantised", "datatype", 9): "is quantised by channel in the ETRecord, and not in the program",
}


@pytest.mark.parametrize(("name", "field", "number"), OTHERWISE)
def test_xnnpacks_part_must_be_of_the_nodes(name: str, field: str, number: int) -> None:
    changed = with_xnnpacks(program_file(name).read_bytes(), 0, field, number)
    with pytest.raises(ArchiveError, match=OTHERWISE[name, field, number]):
        compare(name, changed)


def test_what_the_record_has_nothing_of_must_be_what_executorch_adds() -> None:
    """Here the last instruction, a node's, is missing in the map."""
    with archive.open(record_file("shop")) as whole:
        handles = json.loads(bytes(whole.records["debug_handle_map"].view()))
    del handles["forward"]["31"]
    less = changed_record("shop", debug_handle_map=json.dumps(handles).encode())
    with (
        archive.open(less, name="m") as opened,
        archive.open(program_file("shop"), kinds={FileKind.EXECUTORCH}) as own,
        pytest.raises(ArchiveError, match=r"31 calls aten::mean\.dtype_out in the program, and isn't in"),
    ):
        check_own(opened, own)


@given(st.data())
def test_an_instruction_of_another_operator_is_refused(data: st.DataObject) -> None:
    """Whatever instruction calls whatever other operator."""
    program = data.draw(st.sampled_from(["shop", "sized", "mapped", "methods"]))
    content = program_file(program).read_bytes()
    method = parsed(content).methods[0]
    record_of = {
        number: one
        for number, one in enumerate(method.instructions)
        if one.kind == "KernelCall" and not method.callee(one).startswith("executorch_prim")
    }
    number = data.draw(st.sampled_from(sorted(record_of)))
    others = [
        index
        for index, name in enumerate(method.operators)
        if name != method.operators[record_of[number].target]
    ]
    target = data.draw(st.sampled_from(others))
    path = f"{PLAN} chains 0 instructions {number} instr_args op_index"
    try:
        changed = with_number(content, path, target)
    except ValueError:  # operator 0 is the default, which isn't stored
        return
    with pytest.raises(ArchiveError, match="it was not made with"):
        compare(program, changed)


def test_xnnpacks_part_says_which_nodes_it_took() -> None:
    (method,) = parsed(XNNPACK).methods
    graphs = [xnnpack.read_graph(memoryview(XNNPACK)[slice(*blob.span)]) for blob in method.blobs]
    assert [graph and [*graph.nodes] for graph in graphs] == [
        [("FullyConnected", 1), ("Add", 2), ("Sin", 3)],
        [("Add", 5), ("FullyConnected", 6)],
    ]
    assert not any(graph is None or any(graph.quantised) for graph in graphs)
    quantised = program_file("quantised").read_bytes()
    blobs = parsed(quantised).methods[0].blobs
    ways = [xnnpack.read_graph(memoryview(quantised)[slice(*blob.span)]) for blob in blobs]
    assert [way and way.quantised for way in ways] == [(True, True, False)] * 2
    assert xnnpack.read_graph(memoryview(bytes(100))) is None


def test_a_blob_that_lies_about_its_size_is_refused() -> None:
    (method,) = parsed(XNNPACK).methods
    blob = bytearray(XNNPACK[slice(*method.blobs[0].span)])
    blob[14:18] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(ArchiveError, match="XNNPACK's part is cut short"):
        xnnpack.read_graph(memoryview(bytes(blob)))


def test_verify_reads_xnnpacks_parts() -> None:
    (method,) = parsed(XNNPACK).methods
    broken = bytearray(XNNPACK)
    start = method.blobs[1].span[0]
    broken[start + 14 : start + 18] = (1 << 31).to_bytes(4, "little")
    (found,) = archive.verify(bytes(broken))
    assert (found.severity, found.record) == ("error", "blobs/1.XnnpackBackend")
    assert "XNNPACK's part is cut short" in found.message


def test_profile_takes_the_program() -> None:
    dump = FIXTURES / "executorch" / "xnnpack.etdp"
    record, own = record_file("xnnpack"), program_file("xnnpack")
    assert profile_etdump(dump, record, program=own).runs == {"forward": 2}
    with pytest.raises(ArchiveError, match="it was not made with"):
        profile_etdump(dump, record, program=program_file("quantised"))
    with pytest.raises(ValueError, match="ETRecord"):
        profile_etdump(dump, program=own)
    assert called("profile", dump, "--program", own).exit_code == 2
    assert "methods.py:38" in called("profile", dump, "-c", record, "--program", own, "--by", "line").stdout


@pytest.mark.parametrize("name", ["fork", "methods", "quantised", "region", "shop", "sized", "xnnpack"])
def test_a_run_is_of_its_own_program_whatever_it_ran(name: str) -> None:
    """Branches, sizes and moves, too, of which an ETRecord has nothing."""
    dump = FIXTURES / "executorch" / f"{name}.etdp"
    files = dump, record_file(name)
    profile, without = profile_etdump(*files, program=program_file(name)), profile_etdump(*files)
    assert (profile.runs, profile.total_ns) == (without.runs, without.total_ns)


def test_a_run_of_another_instruction_than_the_programs_is_refused() -> None:
    """In a branch, of which the ETRecord has nothing, a kernel of its other branch ran."""
    content = program_file("fork").read_bytes()
    (method,) = parsed(content).methods
    branch = next(
        number for number, one in enumerate(method.instructions) if method.callee(one) == "aten::sin.out"
    )
    other = method.operators.index("aten::add.out")
    changed = with_number(content, f"{PLAN} chains 0 instructions {branch} instr_args op_index", other)
    dump = FIXTURES / "executorch" / "fork.etdp"
    with pytest.raises(
        ArchiveError, match=rf"instruction 0:{branch} ran sin\.out, and is aten::add\.out in the program"
    ):
        profile_etdump(dump, record_file("fork"), program=changed)


def test_symbolicate_takes_the_program() -> None:
    own, other = program_file("framed"), program_file("sized")
    assert "rows(Embedding)" in well("symbolicate", record_file("shop"), "--program", own, "0:14")
    both, one = (well("symbolicate", record_file("shop"), "0:6", *more) for more in ((), ("--program", own)))
    assert (both.count("Module hierarchy"), one.count("Module hierarchy")) == (2, 1)
    assert "addmm" in one
    refused = run("symbolicate", record_file("shop"), "--program", other, "0:14")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"it was not made with" in refused.stderr
