"""Which of XNNPACK's nodes its notes are of, by their kinds and their order.

XNNPACK notes each operator that it runs, ``Fully Connected (NC, F32) GEMM #1``, and not which node it is. Its
part of the program has the nodes in the order in which they run, each with its kind and debug handle. A
kind of which there are as many notes as nodes is matched one by one. XNNPACK merges some nodes into others
(``Clamp`` into a product): then their counts differ, and the notes of that kind have no node. Where the
matched ones are in another order than the nodes, nothing is.

The words were seen with ExecuTorch 1.5; notes of other kinds have no node, nor have those of ``Copy`` beside
concatenations, which are noted as copies.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.formats.executorch.xnnpack import XnnpackNode

WORDS = {
    "FullyConnected": "Fully Connected",
    "Conv2d": "Convolution",
    "DepthwiseConv2d": "Convolution",
    "ConvTranspose2d": "Deconvolution",
    "BatchMatrixMultiply": "Batch Matrix Multiply",
    "MaxPooling2d": "Max Pooling",
    "AvgPooling2d": "Average Pooling",
    "StaticConstantPad": "Constant Pad",
    "StaticResizeBilinear2D": "Resize Bilinear",
    "StaticTranspose": "Transpose",
    "StaticReshape": "Static Reshape",
    "StaticSlice": "Slice",
    "Convert": "Convert",
    "Copy": "Copy",
    "Add": "Add",
    "Subtract": "Subtract",
    "Multiply": "Multiply",
    "Div": "Divide",
    "Maximum": "Maximum",
    "Minimum": "Minimum",
    "Abs": "Abs",
    "Ceiling": "Ceiling",
    "Clamp": "Clamp",
    "Cos": "Cosine",
    "Exp": "Exp",
    "Floor": "Floor",
    "Gelu": "GELU",
    "Hardswish": "HardSwish",
    "LeakyReLU": "LeakyReLU",
    "Log": "Log",
    "Negate": "Negate",
    "ReciprocalSquareRoot": "Reciprocal Square Root",
    "Sigmoid": "Sigmoid",
    "Sin": "Sine",
    "Softmax": "Softmax",
    "Square": "Square",
    "SquareRoot": "Square Root",
    "Tanh": "TanH",
}
"""What a note of each kind of node begins with, up to its first parenthesis."""
PRODUCTS = {"Convolution", "Fully Connected"}
"""Words that are counted together: a convolution with a kernel of one element runs as the other one."""
AS_PRODUCT = "Conv2d", "Fully Connected"
CONCATENATES, COPY = "Concatenate", "Copy"


def handles_of_notes(notes: Sequence[str], nodes: Sequence[XnnpackNode]) -> Mapping[str, int]:
    """The debug handles of the nodes that notes are of; those of which it is not known are left out.

    Args:
        notes: of one call, in the order in which they ran.
        nodes: of the call.
    """
    if len({*notes}) < len(notes):
        return {}
    noted, recorded = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for at, note in enumerate(notes):
        noted[_counted_as(_word(note))].append(at)
    for at, node in enumerate(nodes):
        recorded[_counted_as(WORDS.get(node.kind, node.kind))].append(at)
    if any(node.kind.startswith(CONCATENATES) for node in nodes):
        noted.pop(COPY, None)
    pairs = sorted(
        pair
        for word, places in noted.items()
        if len(places) == len(recorded.get(word, ()))
        and all(
            _may_be(_word(notes[at]), nodes[node].kind)
            for at, node in zip(places, recorded[word], strict=True)
        )
        for pair in zip(places, recorded[word], strict=True)
    )
    if any(one >= other for (_, one), (_, other) in pairwise(pairs)):
        return {}
    found = ((notes[at], nodes[node].handle) for at, node in pairs)
    return {note: handle for note, handle in found if handle is not None}


def _word(note: str) -> str:
    """What a note begins with."""
    return note.partition(" (")[0]


def _counted_as(word: str) -> str:
    return min(PRODUCTS) if word in PRODUCTS else word


def _may_be(word: str, kind: str) -> bool:
    """Whether a note that begins so may be of a node of some kind."""
    return WORDS.get(kind, kind) == word or (kind, word) == AS_PRODUCT
