"""What XNNPACK notes: a run of a quantised model isn't taken for one of the float model, or vice versa."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive import ArchiveError, profile_etdump
from archive.formats.exported.program import Program
from archive.formats.exported.sites import NodeSite
from archive.reader.lookups.nodes import ProgramNode
from archive.reader.runtime.xnnpack_notes import contradiction
from tests.support.etdumps import dump
from tests.support.exported import record

if TYPE_CHECKING:
    from collections.abc import Iterator

EDGE = "executorch.exir.dialects.edge.ops."
QUANTISED = f"{EDGE}quantized_decomposed."
WAYS = {
    "float": ("Fully Connected (NC, F32) GEMM #1", "Convolution (NHWC, F32) IGEMM #1"),
    "channel": ("Fully Connected (NC, QS8, QC8W) GEMM #1", "Convolution (NHWC, QC8) IGEMM #2"),
    "tensor": ("Fully Connected (NC, QS8) GEMM #2", "Convolution (NHWC, QS8) IGEMM #1"),
    "dynamic": (
        "Fully Connected (NC, QDU8, F32, QC8W) GEMM #1",
        "Fully Connected (NC, QD8, F32, QC8W) GEMM #1",
    ),
}
"""What ExecuTorch 1.5 notes of ``Linear`` and ``Conv2d``, by how XNNPACK's quantiser quantised the model."""
PRODUCTS = ("aten.linear.default", "aten.convolution.default")


def nodes(way: str, product: str) -> list[ProgramNode]:
    """The nodes of a call, as the edge program of ExecuTorch 1.5 has them."""
    program = Program("edge", "", lambda: {site.key: site for site in _sites(way, product)})
    return [ProgramNode(program, site) for site in program.sites.values()]


def _sites(way: str, product: str) -> Iterator[NodeSite]:
    values, weights = "x", "p_weight"
    if way != "float":
        how = {"dynamic": "per_tensor.tensor"}.get(way, "per_tensor.default")
        yield NodeSite("q", f"{QUANTISED}quantize_{how}", (), ("x",), {})
        yield NodeSite("values", f"{QUANTISED}dequantize_{how}", (), ("q",), {})
        whole = "per_tensor" if way == "tensor" else "per_channel"
        yield NodeSite("weights", f"{QUANTISED}dequantize_{whole}.default", (), ("b_frozen",), {})
        values, weights = "values", "weights"
    yield NodeSite("product", f"{EDGE}{product}", (), (values, weights, "p_bias"), {})


def noted(way: str, note: str) -> list[str]:
    """All notes of a call."""
    return [note, *(["Convert (NC) #1"] if way in ("channel", "tensor") else [])]


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("recorded", WAYS)
@pytest.mark.parametrize("ran", WAYS)
def test_a_note_is_of_the_way_in_which_the_call_is_quantised(ran: str, recorded: str, product: str) -> None:
    for note in WAYS[ran]:
        found = contradiction(noted(ran, note), nodes(recorded, product))
        assert (found == "") == (ran == recorded), note
        if found:
            assert found == f"noted {note}, and no product there has these types"


def test_values_that_are_quantised_are_converted() -> None:
    """Where a call has no product, as of an addition."""
    floats = nodes("float", "aten.add.Tensor")
    quantised = nodes("channel", "aten.add.Tensor")
    assert contradiction(["Add (ND) #1"], floats) == ""
    assert contradiction(["Add (ND) #1", "Convert (NC) #1"], quantised) == ""
    assert "floats are quantised there" in contradiction(["Add (ND) #1"], quantised)
    assert "nothing there is converted" in contradiction(["Add (ND) #1", "Convert (NC) #1"], floats)


def test_a_call_without_notes_says_nothing() -> None:
    for way in WAYS:
        assert contradiction([], nodes(way, PRODUCTS[0])) == ""


def test_a_run_of_a_quantised_model_is_not_taken_with_the_record_of_the_model_before() -> None:
    run = dump("xnnpack").read_bytes()
    assert b"Fully Connected (NC, F32) GEMM" in run
    profile_etdump(run, record("xnnpack"))
    with pytest.raises(ArchiveError) as refused:
        profile_etdump(run.replace(b"(NC, F32) GEMM", b"(NC, QS8) GEMM"), record("xnnpack"))
    assert "noted Fully Connected (NC, QS8) GEMM #1, and no product there has these types" in str(
        refused.value
    )
    assert "the ETDump is not of the program" in str(refused.value)
