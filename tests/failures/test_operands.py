"""What messages say of operands: each claim is true of the node that printed it, and of no other one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.failures.operands import Claim, Operand, claims, contradiction
from archive.reader.lookups.nodes import loaded_nodes
from tests.support.exported import EXPORTED, RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.exported.sites import NodeSite

CLAIMS = {
    "Check failed (indices_ptr[i] < weight_height): indices_ptr[2] 9 >= weight.size(0) 6": [
        Claim("weight.size(0) 6", "weight", {0: 6})
    ],
    "Check failed (a.size(1) == b): Tensors do not match: a.size(1) = 3 does not match b.size(0) = 4": [
        Claim("a.size(1) = 3", "a", {1: 3}),
        Claim("b.size(0) = 4", "b", {0: 4}),
    ],
    "Check failed (self.dim() == 3): self.dim() 2 != 3": [Claim("self.dim() 2", "self", rank=2)],
    "Check failed (x): out[1].size(0) 5 != in.size(0) 6": [
        Claim("out[1].size(0) 5", "out", {0: 5}, is_listed=True),
        Claim("in.size(0) 6", "in", {0: 6}),
    ],
    "index_select: Index to scalar must have exactly 1 value; index.numel() = 4": [
        Claim("index.numel() = 4", "index", elements=4)
    ],
    "Index 7 out of range for tensor with size 3 at dimension 0": [
        Claim("size 3 at dimension 0", "", {0: 3})
    ],
    "Index is out of bounds for dimension 1 with size 4": [Claim("dimension 1 with size 4", "", {1: 4})],
    "index 9 out of range [-3,3) at dimension 1)": [Claim("out of range [-3,3) at dimension 1", "", {1: 3})],
    "index 9 out of range [-3,3) at in.size( 1)": [Claim("out of range [-3,3) at in.size( 1", "", {1: 3})],
    "Check failed (index_ptr[i] >= 0): index[1] = 7 is out of range [0, 3)": [
        Claim("index[1] = 7 is out of range [0, 3)", anywhere=3)
    ],
    "assert failed (x): Index out of bounds for weight: index 9 must be in range [0, 6)": [
        Claim("Index out of bounds for weight: index 9 must be in range [0, 6)", "weight", {0: 6})
    ],
    "Two input tensors should be broadcastable but got shapes (3, 4) and (5,).": [
        Claim("but got shapes (3, 4) and (5,)", "", {0: 3, 1: 4}, rank=2),
        Claim("but got shapes (3, 4) and (5,)", "", {0: 5}, rank=1),
    ],
    "Attempted to resize a static tensor. Expected shape (2, 3), but received (2, 4).": [
        Claim("Expected shape (2, 3)", "", {0: 2, 1: 3}, rank=2)
    ],
    "Expected tensor.dim() to be 2, but got 3": [Claim("Expected tensor.dim() to be 2, but got 3", rank=3)],
    "Tensors do not match: dtype={Float, Long}": [
        Claim("Tensors do not match: dtype={Float, Long}", dtype="float32"),
        Claim("Tensors do not match: dtype={Float, Long}", dtype="int64"),
    ],
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 7x3)": [
        Claim("mat1 and mat2 shapes cannot be multiplied (4x8 and 7x3)", "mat2", {0: 7, 1: 3}, rank=2)
    ],
    "Given groups=1, weight of size [4, 3, 3], expected input[1, 5, 9] to have 3 channels": [
        Claim("weight of size [4, 3, 3]", "weight", {0: 4, 1: 3, 2: 3}, rank=3)
    ],
    "running_mean should contain 5 elements not 3": [
        Claim("running_mean should contain 5 elements not 3", "running_mean", elements=3)
    ],
    "mat1 and mat2 must have the same dtype, but got Double and Float": [
        Claim("mat1 and mat2 must have the same dtype, but got Double and Float", "mat2", dtype="float32")
    ],
    "Check failed (input.size(0) > 0): no size is said": [],
    "index out of range in self": [],
}
"""Messages of ExecuTorch 1.5 and PyTorch 2.13, and what they say."""


@pytest.mark.parametrize("message", CLAIMS)
def test_what_a_message_says(message: str) -> None:
    assert [*claims(message)] == CLAIMS[message]


def test_a_linear_layers_weight_is_multiplied_transposed() -> None:
    (claim,) = claims(
        "mat1 and mat2 shapes cannot be multiplied (4x8 and 7x3)", "torch.ops.aten.linear.default"
    )
    assert (claim.name, claim.sizes) == ("weight", {0: 3, 1: 7})


def test_matmul_multiplies_a_matrix_or_parts_of_more_dimensions() -> None:
    """PyTorch prints no such message of a vector."""
    (claim,) = claims(
        "mat1 and mat2 shapes cannot be multiplied (4x8 and 7x3)", "torch.ops.aten.matmul.default"
    )
    held = {
        sizes: claim.holds(Operand(frozenset({"other"}), sizes, "float32", is_held=True))
        for sizes in ((7, 3), (7, 4), (3, 7), (7,), (5, 6, 2))
    }
    assert held == {(7, 3): True, (7, 4): False, (3, 7): False, (7,): False, (5, 6, 2): True}


def sites() -> Iterator[NodeSite]:
    for path in [*RECORDS.glob("*.etrecord"), EXPORTED / "shop.pt2", EXPORTED / "decoder.pt2"]:
        with archive.open(path) as opened:
            yield from (node.site for node in loaded_nodes(opened.programs))


def test_a_size_is_another_models_exactly_if_it_is_not_the_operands() -> None:
    """Of each argument of each node; where not all sizes are fixed, of those that the program holds."""
    asked = held = 0
    for site in sites():
        for given in (site.record or {}).get("inputs", ()):
            name = given["arg"].get("as_tensor", {}).get("name")
            sizes = site.tensors.get(name, {}).get("sizes", []) if name else []
            for at, size in enumerate(sizes):
                if "as_int" not in size or not given["name"]:
                    continue
                same, other = (f"{given['name']}.size({at}) {size['as_int'] + more}" for more in (0, 1))
                is_held = name in site.inputs and name.startswith(("p_", "b_", "c_"))
                assert contradiction(site, [same], is_fixed=True) == ""
                assert contradiction(site, [other], is_fixed=True) == other
                assert contradiction(site, [other], is_fixed=False) == (other if is_held else "")
                asked, held = asked + 1, held + is_held
    assert asked > 500
    assert held > 100


def test_a_size_of_a_name_that_no_argument_has_may_be_any_operands() -> None:
    site = next(site for site in sites() if site.target.endswith("aten.addmm.default"))
    sizes = [
        [size["as_int"] for size in site.tensors[name]["sizes"]]
        for name in (*(site.arguments or ()), site.name)
    ]
    for size in range(8):
        is_there = any(of_one[:1] == [size] for of_one in sizes)
        assert (contradiction(site, [f"a.size(0) = {size} does not match"], is_fixed=True) == "") == is_there
