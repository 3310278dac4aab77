"""The checks that PyTorch 2.13 makes when it loads a ``.pt2``: ``torch.export.load``, ``load_pt2``.

PyTorch makes objects of the JSON while it reads; here the same is followed without PyTorch. Each fault has
its JSON path and PyTorch's message, and each kind of fault was tried with PyTorch 2.13.

Not checked:

- operators: whether they exist, and take such arguments (``needs`` names those of others);
- expressions of sizes, which PyTorch evaluates as Python;
- what is pickled: sample inputs, custom objects, subclasses of tensors, tables of PyTorch before 2.9;
- types of inputs and outputs that users register (the same), and what stands in such trees;
- whether this machine has a device.

Source: ``torch/export/pt2_archive/_package.py``, ``torch/_export/serde/serialize.py``,
``torch/_export/verifier.py``.

``graphs`` follows the graphs, ``signature`` compares inputs and outputs with them, ``values`` has the tables
of values and the arguments, ``files`` the records beside programs. Here stands what else a program says:
version, ranges of symbols, calls of modules, trees of values, verifiers.

Source of that: ``ExportedProgramDeserializer.deserialize`` and ``deserialize_module_call_graph`` in
``torch/_export/serde/serialize.py``, ``_json_to_treespec`` in ``torch/utils/_pytree.py``,
``_verify_exported_program_module_call_graph`` in ``torch/_export/verifier.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING, Any

from archive.base.diagnostics import Diagnostic, wrong
from archive.base.errors import shown
from archive.base.json_text import words
from archive.check.program_loader.graphs import GraphCheck, ProgramContext
from archive.check.program_loader.signature import SignatureCheck, named, spec_faults
from archive.check.program_loader.values import UNBACKED, Arguments, RowCheck
from archive.check.registered import NAMESPACES, is_unknown
from archive.formats.exported.loaded import OPERATORS
from archive.formats.exported.program import GRAPH, graph_of, nodes
from archive.formats.exported.schema import MAJOR, key_error, mismatches
from archive.formats.schema.json import short

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.check.program_loader.files import Payloads

# --- calls

CALLS = "graph_module.module_call_graph"
VERIFIERS = {"ATEN", "TRAINING", ""}
"""The verifiers that PyTorch brings; ExecuTorch and others add some when they are imported."""
NODE = {"type", "context", "children_spec"}
TREE_PROTOCOL = 1


def version_faults(program: dict[str, Any]) -> Iterator[Diagnostic]:
    """The faults of a program's version, ranges of symbols and verifiers."""
    version = program["schema_version"]
    if version["major"] != MAJOR and (version["major"], version["minor"]) != (0, 0):
        problem = other_schema(
            f"expected {MAJOR}, found {shown(version['major'])}", program.get("torch_version")
        )
        yield wrong("schema_version.major", problem, "does not match our current schema version")
    for name, constraint in program["range_constraints"].items():
        yield from _range_faults(name, constraint, f"range_constraints.{short(name)}")
    for number, name in enumerate(program.get("verifiers", [])):
        if not isinstance(name, str) or name not in VERIFIERS:
            problem = f"expected ATEN or TRAINING, found {shown(name)}"
            yield wrong(f"verifiers[{number}]", problem, key_error(name))
    text = program["graph_module"].get("metadata", {}).get("custom")  # what the user noted
    if text:
        try:
            json.loads(text)
        except (ValueError, TypeError, RecursionError):
            yield wrong("graph_module.metadata.custom", f"expected JSON, found {shown(text)}", "")


def other_schema(problem: str, release: object) -> str:
    """What is wrong with a program of another schema, and the way out: PyTorch 2.13 has no upgraders.

    Args:
        problem: what was expected and found.
        release: what the program says of the release that wrote it.
    """
    writer = (
        f"PyTorch {shown(release)}" if isinstance(release, str) and release else "a release of its schema"
    )
    return f"{problem}: load it with {writer}, and export the model again"


def _range_faults(name: str, constraint: dict[str, Any], place: str) -> Iterator[Diagnostic]:
    low, high = constraint["min_val"], constraint["max_val"]
    for key, bound in (("min_val", low), ("max_val", high)):
        if bound is not None and (not isinstance(bound, int | float) or isnan(bound)):
            yield wrong(f"{place}.{key}", f"expected a number or nothing, found {words(bound)}", "")
            return
    if low is not None and high is not None and low > high:
        yield wrong(place, f"expected a range, found {low} to {high}", "Invalid ranges [")
    prefix = next((beginning for beginning in UNBACKED if name.startswith(beginning)), "")
    if prefix and not name.removeprefix(prefix).isdecimal():
        problem = f"expected a number after {prefix}, found {shown(name)}"
        yield wrong(place, problem, "invalid literal for int() with base 10")


def call_faults(
    calls: list[dict[str, Any]], nodes: Collection[object], arguments: Arguments
) -> Iterator[Diagnostic]:
    """The faults of the calls of modules.

    Args:
        calls: as the schema has them.
        nodes: the names of all nodes of the program's own graph.
        arguments: compares arguments with the values of that graph.
    """
    for index, call in enumerate(calls):
        signature = call.get("signature")
        if signature is None:
            continue
        place = f"{CALLS}[{index}].signature"
        for key in ("inputs", "outputs"):
            for number, argument in enumerate(signature[key]):
                at = f"{place}.{key}[{number}]"
                faults = list(spec_faults(argument, at, arguments))
                yield from faults
                value = named(argument)
                known = isinstance(value.name, str) and value.name in nodes
                if not faults and value.is_name and value.name and not known:
                    problem = f"expected the name of a node, found {shown(value.name)}"
                    yield wrong(at, problem, "does not exist in the graph.")
        for key in ("in_spec", "out_spec"):
            problem = tree_problem(signature[key])
            if problem:
                yield wrong(f"{place}.{key}", problem, "")


def tree_problem(text: object) -> str:
    """What is wrong with the text of a tree of values; "" where nothing is.

    Types and their contexts are not checked: users register types of their own.
    """
    if not isinstance(text, str):
        return f"expected a text, found {words(text)}"
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return f"expected JSON, found {shown(text)}"
    if not isinstance(tree, list) or len(tree) != 2 or tree[0] != TREE_PROTOCOL:  # noqa: PLR2004 (a pair)
        return f"expected a list of {TREE_PROTOCOL} and a tree, found {shown(text)}"
    below = [tree[1]]
    while below:
        value = below.pop()
        if (
            not isinstance(value, dict)
            or not value.keys() >= NODE
            or not isinstance(value["children_spec"], list)
        ):
            return f"expected objects of type, context and children_spec, found {words(value)}"
        below += value["children_spec"]
    return ""


# --- programs

__all__ = ["needs", "program_faults", "unknown_operators"]

PROGRAM = "ExportedProgram"
PLACES = 1_000
"""Places whose reported faults are remembered."""


def program_faults(program: Any, payloads: Payloads) -> Iterator[Diagnostic]:  # noqa: ANN401 (any value)
    """The faults of a program: errors where PyTorch refuses it, warnings where its schema says otherwise.

    Where a value is not of the schema and refused, PyTorch looks no further, and so does this.

    Args:
        payloads: the rows of its tables of weights and constants.
    """
    refused, others = False, False
    for fault in mismatches(program, PROGRAM):
        if fault.severity == "error":
            refused = True
            yield fault
        else:
            others = True
    places: set[str] = set()
    if not refused:
        for fault in _uses(program, payloads):
            if len(places) < PLACES:
                places.add(fault.place)
            yield fault
    if others:
        for fault in mismatches(program, PROGRAM):
            if fault.severity != "error" and fault.place not in places:
                yield fault


def _uses(program: dict[str, Any], payloads: Payloads) -> Iterator[Diagnostic]:
    """The faults of values that are of the schema, in the order in which PyTorch meets them."""
    module = program["graph_module"]
    yield from version_faults(program)
    signature = SignatureCheck(module, payloads)
    facts = ProgramContext(signature.inputs, payloads.constants, RowCheck(program["range_constraints"]))
    graph = GraphCheck(module["graph"], GRAPH, facts)
    yield from signature.own_faults()
    yield from graph.faults()
    arguments = Arguments(graph.values, payloads.constants)
    yield from call_faults(module["module_call_graph"], graph.names, arguments)
    yield from signature.faults()


# --- needs

NAMED_TUPLE = "collections.namedtuple"
TYPES = {
    *("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "torch.Size"),
    *("collections.defaultdict", "collections.deque", "torch.fx.immutable_collections.immutable_list"),
    "torch.fx.immutable_collections.immutable_dict",
}
"""The types that PyTorch registers itself."""


def needs(program: dict[str, Any]) -> list[str]:
    """The names of types and operators that do not come with PyTorch, each once.

    PyTorch 2.13 refuses a program whose operators are not registered, or whose trees have types that are
    not. Both are registered by importing what defines them, which no archive names. Source:
    ``deserialize_node`` in ``torch/_export/serde/serialize.py``, ``_json_to_treespec`` in
    ``torch/utils/_pytree.py``.

    Args:
        program: the record's value, in which nothing is refused.
    """
    names: dict[str, None] = {}
    for call in program["graph_module"]["module_call_graph"]:
        for key in ("in_spec", "out_spec") if call.get("signature") else ():
            names |= dict.fromkeys(_types(call["signature"][key]))
    for _, node, *_ in nodes(graph_of(program)):
        target = node["target"]
        if target.startswith(OPERATORS) and target.split(".")[2] not in NAMESPACES:
            names[target] = None
    return list(names)


def unknown_operators(program: dict[str, Any]) -> Iterator[Diagnostic]:
    """The calls of operators that PyTorch 2.13 lacks, of its own namespaces."""
    for place, node, *_ in nodes(graph_of(program)):
        target = node["target"]
        if target.startswith(OPERATORS) and is_unknown(*[*target.split("."), ""][2:4]):
            problem = f"expected an operator of PyTorch 2.13, found {shown(target)}"
            yield wrong(f"{place}.target", problem, f"We failed to resolve {target} to an operator")


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
