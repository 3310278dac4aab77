"""What a program needs that does not come with PyTorch: operators of others, types of inputs and outputs.

PyTorch 2.13 refuses a program whose operators are not registered, or whose trees have types that are not.
Both are registered by importing what defines them, which no archive tells. Source: ``deserialize_node`` in
``torch/_export/serde/serialize.py``, ``_json_to_treespec`` in ``torch/utils/_pytree.py``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from archive.formats.exported.program import graph_of, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATORS = "torch.ops."
NAMESPACES = {
    *("aten", "prims", "prim", "higher_order", "quantized", "_quantized", "sparse", "profiler", "export"),
    *("inductor", "inductor_prims", "rngprims", "debugprims", "mkl", "mkldnn", "onednn", "static_runtime"),
    *("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "symm_mem", "fsdp"),
    *("_dtensor", "streams", "quantization", "mkldnn_prepacked", "onnx", "onnx_symbolic", "flex_lib"),
}
"""Where the operators of PyTorch are."""
NAMED_TUPLE = "collections.namedtuple"
TYPES = {
    *("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "torch.Size"),
    *("collections.defaultdict", "collections.deque", "torch.fx.immutable_collections.immutable_list"),
    "torch.fx.immutable_collections.immutable_dict",
}
"""The types that PyTorch registers itself."""


def needs(program: dict[str, Any]) -> list[str]:
    """The names of types and operators that others register, each once.

    Args:
        program: the record's value, in which nothing is refused.
    """
    found: dict[str, None] = {}
    for call in program["graph_module"]["module_call_graph"]:
        for key in ("in_spec", "out_spec") if call.get("signature") else ():
            found |= dict.fromkeys(_types(call["signature"][key]))
    for _, node, *_ in nodes(graph_of(program)):
        target = node["target"]
        if target.startswith(OPERATORS) and target.split(".")[2] not in NAMESPACES:
            found[target] = None
    return list(found)


def _types(text: str) -> Iterator[str]:
    """The types in a tree of values that PyTorch does not register itself."""
    below = [json.loads(text)[1]]
    while below:
        tree = below.pop()
        kind, context = tree["type"], tree["context"]
        if kind == NAMED_TUPLE:
            yield str(context)
        elif kind is not None and not (isinstance(kind, str) and kind in TYPES):
            yield str(kind)
        below += reversed(tree["children_spec"])
