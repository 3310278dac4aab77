"""Graphs: each value is named once, is in a table of values, and is there before it is used.

PyTorch 2.13 gives a graph its inputs, then its nodes one after the other; a node's arguments are values that
are there by then. Graphs inside of a graph have values of their own. Whether a node's target exists, and
takes such arguments, is not checked: that would need PyTorch's operators.

A node of one value has the value's name in PyTorch, whatever it is called itself. A node of several is a
value itself, under its own name, and has another node for each of them.

Source: ``deserialize_graph``, ``deserialize_node``, ``deserialize_outputs`` and ``generate_getitems`` in
``torch/_export/serde/serialize.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import shown
from archive.base.json_text import words
from archive.check.loading.programs.arguments import SYMBOLIC, Arguments, missing
from archive.check.loading.programs.texts import text_faults
from archive.check.loading.programs.values import TABLES
from archive.formats.exported.mismatches import JsonFault, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.check.loading.programs.arguments import Faults, Names
    from archive.check.loading.programs.values import RowCheck


# --- results

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


# --- graphs

PREFIXES = ("_operator", "torch", "math", "#")
"""How targets begin that PyTorch looks up."""
PLAIN_INPUTS = {"as_int", "as_float", "as_bool", "as_none", "as_string"}
PLAIN_OUTPUTS = PLAIN_INPUTS - {"as_string"}
TWICE = "has already been deserialized before."


class Shared(NamedTuple):
    """What all graphs of a program refer to.

    Attributes:
        specs: the number of inputs in its signature.
        constants: the names of its constants; None where they are not known.
        rows: compares the rows of tables with its ranges of symbols.
    """

    specs: int
    constants: Names
    rows: RowCheck


class GraphCheck:
    """A graph, followed as PyTorch follows it.

    Args:
        graph: as the schema has it.
        place: its JSON path.
        shared: what it refers to.

    Attributes:
        values: the names of the values that are there so far.
        names: those of all nodes so far.
    """

    def __init__(self, graph: dict[str, Any], place: str, shared: Shared) -> None:
        self.values: set[str] = set()
        self.names: set[str] = set()
        self._graph = graph
        self._place = place
        self._shared = shared
        self._arguments = Arguments(self.values, shared.constants, self._inner)
        self._results = Results(self._defined, self.values.add)
        self._checked: set[str] = set()

    def faults(self) -> Iterator[JsonFault]:
        """The faults of the graph and of those inside of it, in the order in which PyTorch meets them."""
        for number, one in enumerate(self._graph["inputs"]):
            yield from self._input(one, number, f"{self._place}.inputs[{number}]")
        for number, node in enumerate(self._graph["nodes"]):
            yield from self._node(node, f"{self._place}.nodes[{number}]")
        yield from self._outputs()

    # Inputs

    def _input(self, argument: dict[str, Any], number: int, place: str) -> Iterator[JsonFault]:
        ((tag, value),) = argument.items()
        place = f"{place}.{tag}"
        if tag in ("as_tensor", "as_custom_obj"):
            yield from self._defined(value["name"], f"{place}.name")
        elif tag == "as_sym_int" and "as_name" in value:
            yield from self._defined(value["as_name"], f"{place}.as_name")
        elif tag == "as_sym_int":
            yield JsonFault(place, "expected a name, found a number", "Deserializing a constant symint")
        elif tag not in PLAIN_INPUTS:
            yield JsonFault(place, f"expected an input, found {tag}", "Invalid input type")
        elif number >= self._shared.specs:
            problem = f"expected one of {self._shared.specs} inputs in the signature, found number {number}"
            yield JsonFault(place, problem, "list index out of range")

    def _defined(self, name: object, place: str) -> Iterator[JsonFault]:
        """A value is there from now on; the faults of its name and of its row in a table."""
        if not isinstance(name, str):
            yield JsonFault(place, f"expected a text, found {words(name)}", "")
            return
        if name in self.values:
            yield JsonFault(place, f"expected a new name, found {shown(name)} again", TWICE)
        self.values.add(name)
        self.names.add(name)
        table = next((table for table in reversed(TABLES) if name in self._graph.get(table, ())), None)
        if table is None:
            yield missing(name, place, "a name in a table of values")
        elif name not in self._checked:
            self._checked.add(name)
            yield from self._shared.rows.faults(
                table, self._graph[table][name], f"{self._place}.{table}.{short(name)}"
            )

    # Nodes

    def _node(self, node: dict[str, Any], place: str) -> Iterator[JsonFault]:
        target = node["target"]
        if not isinstance(target, str) or not target.startswith(PREFIXES):
            problem = f"expected the name of an operator, found {shown(target)}"
            yield JsonFault(f"{place}.target", problem, IN_NODE)
            return
        for number, named in enumerate(node["inputs"]):
            yield from self._arguments.faults(named["arg"], f"{place}.inputs[{number}].arg")
        yield from text_faults(node["metadata"], f"{place}.metadata")
        yield from self._results.faults(node, place)
        name = node.get("name")
        if isinstance(name, str):
            self.names.add(name)
        elif name:
            yield JsonFault(
                f"{place}.name", f"expected a text, found {words(name)}", "Failed deserializing node"
            )

    def _inner(self, held: dict[str, Any], place: str) -> Iterator[JsonFault]:
        """The faults of a graph that is an argument."""
        name = held["name"]
        if not isinstance(name, str) or not name or "." in name:
            yield JsonFault(
                f"{place}.name", f"expected a name without dots, found {shown(name)}", "module name"
            )
        yield from GraphCheck(held["graph"], f"{place}.graph", self._shared).faults()

    # Outputs

    def _outputs(self) -> Iterator[JsonFault]:
        outputs = self._graph["outputs"]
        for number, one in enumerate(outputs):
            ((tag, value),) = one.items()
            place = f"{self._place}.outputs[{number}].{tag}"
            if tag == "as_tensor" or (tag in SYMBOLIC and "as_name" in value):
                yield from self._arguments.faults(one, f"{self._place}.outputs[{number}]")
            elif tag in SYMBOLIC:
                yield JsonFault(place, "expected a name, found a number", NO_NAME)
            elif tag not in PLAIN_OUTPUTS:
                problem = f"expected a tensor or number, found {tag}"
                yield JsonFault(place, problem, "Unable to deserialize output node")
        if self._graph.get("is_single_tensor_return"):
            yield from self._single(outputs)

    def _single(self, outputs: list[dict[str, Any]]) -> Iterator[JsonFault]:
        if len(outputs) != 1:
            problem = f"expected one output, found {len(outputs)}"
            yield JsonFault(
                f"{self._place}.outputs", problem, "expected single output for single_tensor_return"
            )
        elif PLAIN_OUTPUTS & outputs[0].keys():
            problem = "expected a value of the graph, found another"
            yield JsonFault(f"{self._place}.outputs[0]", problem, "Expected Node for single tensor return")
