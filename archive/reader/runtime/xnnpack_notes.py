"""What XNNPACK notes of its products, compared with the nodes of the call that it is noted in.

XNNPACK names the types of what it multiplies, those of the values first and those of the weights last::

    Fully Connected (NC, F32) GEMM #1                   float32
    Fully Connected (NC, QS8, QC8W) GEMM #1             quantised, weights by channel
    Convolution (NHWC, QC8) IGEMM #1                    the same
    Fully Connected (NC, QS8) GEMM #1                   quantised, weights as a whole
    Fully Connected (NC, QDU8, F32, QC8W) GEMM #1       values quantised while it runs, weights by channel
    Convert (NC) #1                                     floats that are quantised, or the other way

A program says it by the nodes that dequantise a product's operands. So a run of a quantised model isn't one
of the model before it was quantised. Measured with ExecuTorch 1.5: both operators, each quantised in these
ways.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.formats.exported.program import Program
    from archive.reader.lookups.nodes import ProgramNode

BACKEND = "XnnpackBackend"
PRODUCT = re.compile(r"(?:Fully Connected|Convolution) \(\w+, (?P<types>[A-Z]\w*(?:, [A-Z]\w*)*)\)")
PRODUCTS = {
    "aten.linear.default": 0,
    "aten.convolution.default": 0,
    "aten.addmm.default": 1,
    "aten.mm.default": 0,
}
"""The operators of products, each with the place of its values among the tensors it takes; weights follow."""
DEQUANTISES, QUANTISES = ".dequantize_", ".quantize_per_tensor.default"
CONVERSION = "Convert "
CONVERTING = ("quantize", "choose_qparams", "_copy")
"""Parts of the names of operators that XNNPACK may convert values for."""
PASSING = (".aten.permute_copy.", ".aten.t_copy.", ".aten.view_copy.", "._to_dim_order_copy.")
"""Operators that leave it at how a value is quantised."""
MOST_PASSED = 8


class Quantised(Enum):
    """How an operand of a product is quantised."""

    NOT = "F"
    WHOLE = "QS QU"
    BY_CHANNEL = "QC"
    RUNNING = "QD QP"
    SOMEHOW = "Q"


class ProductTypes(NamedTuple):
    """How a product's values and weights are quantised."""

    values: Quantised
    weights: Quantised

    def may_be(self, other: ProductTypes) -> bool:
        """Whether both may be of one product: of something that is quantised, it need not be known how."""
        return all(
            one is two or (Quantised.NOT not in (one, two) and Quantised.SOMEHOW in (one, two))
            for one, two in zip(self, other, strict=True)
        )


def noted_types(note: str) -> ProductTypes | None:
    """The types that a note names; None where it is not of a product."""
    product = PRODUCT.match(note)
    if product is None:
        return None
    first, *_, last = 2 * product["types"].split(", ")
    values, weights = _by_name(first), _by_name(last)
    return ProductTypes(Quantised.WHOLE if values is Quantised.BY_CHANNEL else values, weights)


def _by_name(name: str) -> Quantised:
    return next(
        (kind for kind in Quantised if any(map(name.startswith, kind.value.split()))), Quantised.SOMEHOW
    )


def recorded_types(nodes: Sequence[ProgramNode]) -> list[ProductTypes]:
    """The types of the products among some nodes."""
    found = []
    for node in nodes:
        arguments, at = node.site.arguments, PRODUCTS.get(node.op)
        if at is not None and arguments is not None and len(arguments) > at + 1:
            values, weights = (_of_value(node.program, name) for name in arguments[at : at + 2])
            found.append(ProductTypes(values, weights))
    return found


def _of_value(program: Program, name: str) -> Quantised:
    """How a value is quantised, by the node that gives it."""
    for _ in range(MOST_PASSED):
        site = program.sites.get(name)
        target = "" if site is None else site.target
        if site is None or not site.arguments or not any(part in target for part in PASSING):
            break
        name = site.arguments[0]
    _, is_dequantised, how = target.rpartition(DEQUANTISES)
    if not is_dequantised:
        return Quantised.NOT
    ways = {
        "per_tensor.default": Quantised.WHOLE,
        "per_tensor.tensor": Quantised.RUNNING,
        "per_token.default": Quantised.RUNNING,
        "per_channel.default": Quantised.BY_CHANNEL,
    }
    return ways.get(how, Quantised.SOMEHOW)


def contradiction(notes: Sequence[str], nodes: Sequence[ProgramNode]) -> str:
    """What the notes of a call say, and its nodes have otherwise, in words; "" for nothing."""
    recorded = recorded_types(nodes)
    for note in notes if recorded else ():
        noted = noted_types(note)
        if noted and not any(noted.may_be(types) for types in recorded):
            return f"noted {one_line(note)}, and no product there has these types"
    converted = next((note for note in notes if note.startswith(CONVERSION)), None)
    if converted and not any(part in node.site.target for node in nodes for part in CONVERTING):
        return f"noted {one_line(converted)}, and nothing there is converted"
    if notes and converted is None and _quantises_floats(nodes):
        return f"noted no {CONVERSION.strip()}, and floats are quantised there"
    return ""


def _quantises_floats(nodes: Sequence[ProgramNode]) -> bool:
    """Whether a value that the call is given is quantised in it."""
    own = {node.site.name for node in nodes}
    return any(
        node.site.target.endswith(QUANTISES) and not own.intersection(node.site.arguments[:1])
        for node in nodes
        if node.site.arguments
    )
