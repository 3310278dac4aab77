"""Results of nodes: the values that each gives to its graph.

A node of one value has the value's name in PyTorch, whatever it is called itself. A node of several is a
value itself, under its own name, and has another node for each of them.

Source: ``deserialize_outputs`` and ``generate_getitems`` of PyTorch 2.13, in
``torch/_export/serde/serialize.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import shown
from archive.check.loading.programs.arguments import SYMBOLIC
from archive.formats.exported.json_text import words
from archive.formats.exported.mismatches import JsonFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.check.loading.programs.arguments import Faults

HIGHER_ORDER = "torch.ops.higher_order"
ARITHMETIC = (
    *("eq", "ne", "le", "ge", "lt", "gt", "and_", "or_", "lshift", "rshift"),
    *("neg", "pos", "mul", "add", "sub", "floordiv", "truediv", "mod", "pow"),
)
SYMBOLIC_TARGETS = {
    *(f"_operator.{name}" for name in ARITHMETIC),
    *(f"torch.sym_{name}" for name in ("not", "int", "float", "ite", "max", "min", "sqrt")),
    *("torch._sym_sqrt", "math.trunc", "torch.ops.aten.item.default"),
}
"""Targets that take and give numbers."""
PARTS = {"as_tensor", "as_sym_int", "as_sym_float"}
LISTS = {"as_tensors", "as_sym_ints", "as_sym_floats"}
"""Tags of what may stand beside other results."""
IN_NODE = "Failed deserializing node"
NO_NAME = "Field as_name is not set."


class Results:
    """The results of nodes.

    Args:
        add: adds the name of a value at a place to the graph; gives its faults.
        also: adds the name of a node of several values.
    """

    def __init__(self, add: Callable[[object, str], Faults], also: Callable[[str], object]) -> None:
        self._add = add
        self._also = also

    def faults(self, node: dict[str, Any], place: str) -> Faults:
        """The faults of a node's results, which are there from now on.

        Args:
            node: as the schema has it.
            place: its JSON path.
        """
        name = node.get("name")
        if name and not isinstance(name, str):
            yield JsonFault(f"{place}.name", f"expected a text, found {words(name)}", IN_NODE)
        elif node["target"] in SYMBOLIC_TARGETS:
            yield from self._symbolic(node, place)
        elif len(node["outputs"]) == 1:
            yield from self._only(node, place)
        else:
            yield from self._several(node, place)

    def _symbolic(self, node: dict[str, Any], place: str) -> Faults:
        """The result of a node that gives a number."""
        tag = next(iter(node["outputs"][0])) if node["outputs"] else "nothing"
        if tag in SYMBOLIC:
            yield from self._one(node, place)
        else:
            yield JsonFault(f"{place}.outputs", f"expected a number, found {tag}", IN_NODE)

    def _only(self, node: dict[str, Any], place: str) -> Faults:
        """The only result of a node: one value, or several in a list."""
        ((tag, value),) = node["outputs"][0].items()
        in_list = node["target"].startswith(HIGHER_ORDER) and not node.get("is_hop_single_tensor_return")
        if tag == "as_none":
            return
        if tag in PARTS if in_list else tag == "as_tensors" and value:
            yield from self._several(node, place)
        elif not in_list and (tag == "as_tensor" or tag in SYMBOLIC):
            yield from self._one(node, place)
        else:
            yield JsonFault(f"{place}.outputs[0]", f"expected a tensor or number, found {tag}", IN_NODE)

    def _one(self, node: dict[str, Any], place: str) -> Faults:
        ((tag, value),) = node["outputs"][0].items()
        yield from self._value(tag, value, f"{place}.outputs[0].{tag}")
        name, own = value.get("name", value.get("as_name")), node.get("name")
        if own and isinstance(name, str) and own != name:
            problem = f"expected the name of its value, {shown(name)}, found {shown(own)}"
            yield JsonFault(f"{place}.name", problem, None)

    def _several(self, node: dict[str, Any], place: str) -> Faults:
        for number, output in enumerate(node["outputs"]):
            yield from self._part(output, f"{place}.outputs[{number}]")
        if node["outputs"] and node.get("name"):
            self._also(node["name"])

    def _part(self, output: dict[str, Any], place: str) -> Faults:
        """One of several results of a node; it may be a list itself."""
        ((tag, value),) = output.items()
        place = f"{place}.{tag}"
        if tag in PARTS:
            yield from self._value(tag, value, place)
        elif tag in LISTS:
            for number, one in enumerate(value):
                yield from self._value(tag[:-1], one, f"{place}[{number}]")
        elif tag != "as_none" and value != []:
            yield JsonFault(place, f"expected a tensor, a number or a list, found {tag}", IN_NODE)

    def _value(self, tag: str, value: dict[str, Any], place: str) -> Faults:
        if tag == "as_tensor":
            yield from self._add(value["name"], f"{place}.name")
        elif "as_name" in value:
            yield from self._add(value["as_name"], f"{place}.as_name")
        else:
            yield JsonFault(place, "expected a name, found a number", NO_NAME)
