"""Graphs: each value is named once, is in a table of values, and is there before it is used.

PyTorch 2.13 gives a graph its inputs, then its nodes one after the other; a node's arguments are values that
are there by then. Graphs inside of a graph have values of their own. Whether a node's target exists, and
takes such arguments, is not checked: that would need PyTorch's operators.

A node of one value has the value's name in PyTorch, whatever it is called itself. A node of several is a
value itself, under its own name, and has another node for each of them.

PyTorch reads some texts of a node's metadata again, and refuses those that are laid out in another way. It
takes a stack trace as it is, splits ``nn_module_stack`` and ``source_fn_stack``, and reads ``from_node`` and
``custom`` as JSON. Empty texts are ignored.

Source: ``deserialize_graph``, ``deserialize_node``, ``deserialize_outputs``, ``deserialize_metadata`` and
``generate_getitems`` in ``torch/_export/serde/serialize.py``; ``NodeSource._from_dict`` in
``torch/fx/traceback.py``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.diagnostics import wrong
from archive.base.errors import shown
from archive.base.json_text import words
from archive.check.program_loader.values import SYMBOLIC, TABLES, Arguments, missing
from archive.formats.exported.modules import PARTS, split_instance
from archive.formats.exported.node_metadata import CUSTOM, FUNCTION, FUNCTIONS, MODULES, ORIGINS
from archive.formats.schema.json import short

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.check.program_loader.values import Faults, Names, RowCheck


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
SINGLE = {"as_tensor", "as_sym_int", "as_sym_float"}
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
        """The faults of a node's results, which are there from now on."""
        name, outputs = node.get("name"), node["outputs"]
        if name and not isinstance(name, str):
            yield wrong(f"{place}.name", f"expected a text, found {words(name)}", IN_NODE)
        elif node["target"] in SYMBOLIC_TARGETS:
            tag = next(iter(outputs[0])) if outputs else "nothing"
            if tag in SYMBOLIC:
                yield from self._only(node, place)
            else:
                yield wrong(f"{place}.outputs", f"expected a number, found {tag}", IN_NODE)
        elif len(outputs) != 1:
            yield from self._several(node, place)
        else:
            ((tag, value),) = outputs[0].items()
            in_list = node["target"].startswith(HIGHER_ORDER) and not node.get("is_hop_single_tensor_return")
            if tag == "as_none":
                return
            if tag in SINGLE if in_list else tag == "as_tensors" and value:
                yield from self._several(node, place)
            elif not in_list and (tag == "as_tensor" or tag in SYMBOLIC):
                yield from self._only(node, place)
            else:
                yield wrong(f"{place}.outputs[0]", f"expected a tensor or number, found {tag}", IN_NODE)

    def _only(self, node: dict[str, Any], place: str) -> Faults:
        """The only value of a node, which has its name."""
        ((tag, value),) = node["outputs"][0].items()
        yield from self._value(tag, value, f"{place}.outputs[0].{tag}")
        name, own = value.get("name", value.get("as_name")), node.get("name")
        if own and isinstance(name, str) and own != name:
            problem = f"expected the name of its value, {shown(name)}, found {shown(own)}"
            yield wrong(f"{place}.name", problem, None)

    def _several(self, node: dict[str, Any], place: str) -> Faults:
        """Several results of a node, each of which may be a list itself."""
        for number, output in enumerate(node["outputs"]):
            ((tag, value),) = output.items()
            at = f"{place}.outputs[{number}].{tag}"
            if tag in SINGLE:
                yield from self._value(tag, value, at)
            elif tag in LISTS:
                for index, item in enumerate(value):
                    yield from self._value(tag[:-1], item, f"{at}[{index}]")
            elif tag != "as_none" and value != []:
                yield wrong(at, f"expected a tensor, a number or a list, found {tag}", IN_NODE)
        if node["outputs"] and node.get("name"):
            self._also(node["name"])

    def _value(self, tag: str, value: dict[str, Any], place: str) -> Faults:
        if tag == "as_tensor":
            yield from self._add(value["name"], f"{place}.name")
        elif "as_name" in value:
            yield from self._add(value["as_name"], f"{place}.as_name")
        else:
            yield wrong(place, "expected a name, found a number", NO_NAME)


# --- graphs

PREFIXES = ("_operator", "torch", "math", "#")
"""How targets begin that PyTorch looks up."""
PLAIN_INPUTS = {"as_int", "as_float", "as_bool", "as_none", "as_string"}
PLAIN_OUTPUTS = PLAIN_INPUTS - {"as_string"}
TWICE = "has already been deserialized before."


class ProgramContext(NamedTuple):
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
        program: what it refers to.

    Attributes:
        values: the names of the values that are there so far.
        names: those of all nodes so far.
    """

    def __init__(self, graph: dict[str, Any], place: str, program: ProgramContext) -> None:
        self.values: set[str] = set()
        self.names: set[str] = set()
        self._graph = graph
        self._place = place
        self._program = program
        self._arguments = Arguments(self.values, program.constants, self._inner)
        self._results = Results(self._defined, self.values.add)
        self._checked: set[str] = set()

    def faults(self) -> Faults:
        """The faults of the graph and of those inside of it, in the order in which PyTorch meets them."""
        for number, argument in enumerate(self._graph["inputs"]):
            place = f"{self._place}.inputs[{number}]"
            ((tag, value),) = argument.items()
            place = f"{place}.{tag}"
            if tag in ("as_tensor", "as_custom_obj"):
                yield from self._defined(value["name"], f"{place}.name")
            elif tag == "as_sym_int" and "as_name" in value:
                yield from self._defined(value["as_name"], f"{place}.as_name")
            elif tag == "as_sym_int":
                yield wrong(place, "expected a name, found a number", "Deserializing a constant symint")
            elif tag not in PLAIN_INPUTS:
                yield wrong(place, f"expected an input, found {tag}", "Invalid input type")
            elif number >= self._program.specs:
                problem = (
                    f"expected one of {self._program.specs} inputs in the signature, found number {number}"
                )
                yield wrong(place, problem, "list index out of range")
        for number, node in enumerate(self._graph["nodes"]):
            yield from self._node(node, f"{self._place}.nodes[{number}]")
        yield from self._outputs()

    def _defined(self, name: object, place: str) -> Faults:
        """A value is there from now on; the faults of its name and of its row in a table."""
        if not isinstance(name, str):
            yield wrong(place, f"expected a text, found {words(name)}", "")
            return
        if name in self.values:
            yield wrong(place, f"expected a new name, found {shown(name)} again", TWICE)
        self.values.add(name)
        self.names.add(name)
        table = next((table for table in reversed(TABLES) if name in self._graph.get(table, ())), None)
        if table is None:
            yield missing(name, place, "a name in a table of values")
        elif name not in self._checked:
            self._checked.add(name)
            row, at = self._graph[table][name], f"{self._place}.{table}.{short(name)}"
            yield from self._program.rows.faults(table, row, at)

    def _node(self, node: dict[str, Any], place: str) -> Faults:
        target = node["target"]
        if not isinstance(target, str) or not target.startswith(PREFIXES):
            problem = f"expected the name of an operator, found {shown(target)}"
            yield wrong(f"{place}.target", problem, IN_NODE)
            return
        for number, argument in enumerate(node["inputs"]):
            yield from self._arguments.faults(argument["arg"], f"{place}.inputs[{number}].arg")
        yield from text_faults(node["metadata"], f"{place}.metadata")
        yield from self._results.faults(node, place)
        name = node.get("name")
        if isinstance(name, str):
            self.names.add(name)
        elif name:
            yield wrong(f"{place}.name", f"expected a text, found {words(name)}", IN_NODE)

    def _inner(self, argument: dict[str, Any], place: str) -> Faults:
        """The faults of a graph that is an argument."""
        name = argument["name"]
        if not isinstance(name, str) or not name or "." in name:
            problem = f"expected a name without dots, found {shown(name)}"
            yield wrong(f"{place}.name", problem, "module name")
        yield from GraphCheck(argument["graph"], f"{place}.graph", self._program).faults()

    def _outputs(self) -> Faults:
        outputs, at = self._graph["outputs"], f"{self._place}.outputs"
        for number, argument in enumerate(outputs):
            ((tag, value),) = argument.items()
            place = f"{at}[{number}].{tag}"
            if tag == "as_tensor" or (tag in SYMBOLIC and "as_name" in value):
                yield from self._arguments.faults(argument, f"{at}[{number}]")
            elif tag in SYMBOLIC:
                yield wrong(place, "expected a name, found a number", NO_NAME)
            elif tag not in PLAIN_OUTPUTS:
                problem = f"expected a tensor or number, found {tag}"
                yield wrong(place, problem, "Unable to deserialize output node")
        if not self._graph.get("is_single_tensor_return"):
            return
        if len(outputs) != 1:
            problem = f"expected one output, found {len(outputs)}"
            yield wrong(at, problem, "expected single output for single_tensor_return")
        elif PLAIN_OUTPUTS & outputs[0].keys():
            problem = "expected a value of the graph, found another"
            yield wrong(f"{at}[0]", problem, "Expected Node for single tensor return")


# --- metadata


def text_faults(metadata: Any, place: str) -> Faults:  # noqa: ANN401 (of the schema)
    """The faults of a node's metadata, in the order in which PyTorch reads it.

    Args:
        metadata: the texts by key.
    """
    for key in (MODULES, FUNCTIONS, FUNCTION, CUSTOM, ORIGINS):
        text = metadata.get(key)
        at = f"{place}.{key}"
        if text and not isinstance(text, str):
            yield wrong(at, f"expected a text, found {words(text)}", "")
        elif text and (problem := _text_problem(key, text)):
            yield wrong(at, *problem)


def _text_problem(key: str, text: str) -> tuple[str, str] | None:
    """What is wrong with a text, and what PyTorch says."""
    if key == MODULES:
        for item in text.split(";"):
            count = len(split_instance(item))
            if count != PARTS:
                problem = f"expected a key, a path and a class, found {shown(item)}"
                return problem, f"expected metadata_split to return 3 parts, got {count}"
    elif key == FUNCTIONS:
        for item in text.split(";"):
            commas = item.count(",")
            if commas != 1:
                refusal = "too many values to unpack" if commas else "not enough values to unpack"
                return f"expected a name and a function, found {shown(item)}", refusal
    elif key in (CUSTOM, ORIGINS):
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            return f"expected JSON, found {shown(text)}", "json.decoder.JSONDecodeError"
        return _origins_problem(tree) if key == ORIGINS else None
    return None


def _origins_problem(tree: Any) -> tuple[str, str] | None:  # noqa: ANN401 (JSON)
    if tree is None:
        return None
    if not isinstance(tree, list):
        return f"expected a list, found {words(tree)}", "expected list, got "
    below = list(tree)
    while below:
        value = below.pop()
        if isinstance(value, dict):
            inner = value.get("from_node")
            if inner is not None and not isinstance(inner, list):
                return f"expected a list in from_node, found {words(inner)}", ""
            below += inner or ()
        elif value is not None:
            return f"expected an object, found {words(value)}", "Expected a dict, got "
    return None
