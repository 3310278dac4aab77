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

What else a program says: version, ranges of symbols, calls of modules, trees of values, verifiers.

Source: ``ExportedProgramDeserializer.deserialize`` and ``deserialize_module_call_graph`` in
``torch/_export/serde/serialize.py``, ``_json_to_treespec`` in ``torch/utils/_pytree.py``,
``_verify_exported_program_module_call_graph`` in ``torch/_export/verifier.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING, Any

from archive.base.errors import shown
from archive.base.json_text import words
from archive.check.loading.programs.arguments import Arguments
from archive.check.loading.programs.graphs import GraphCheck, Shared
from archive.check.loading.programs.signature import GRAPH, SignatureCheck, named, spec_faults
from archive.check.loading.programs.values import UNBACKED, RowCheck
from archive.formats.exported.mismatches import JsonFault, key_error, mismatches, short
from archive.formats.exported.schema import MAJOR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.check.loading.programs.payloads import Payloads

# --- calls

CALLS = "graph_module.module_call_graph"
VERIFIERS = {"ATEN", "TRAINING", ""}
"""The verifiers that PyTorch brings; ExecuTorch and others add some when they are imported."""
NODE = {"type", "context", "children_spec"}
TREE_PROTOCOL = 1


def version_faults(program: dict[str, Any]) -> Iterator[JsonFault]:
    """The faults of a program's version, ranges of symbols and verifiers."""
    version = program["schema_version"]
    if version["major"] != MAJOR and (version["major"], version["minor"]) != (0, 0):
        problem = f"expected {MAJOR}, found {shown(version['major'])}"
        yield JsonFault("schema_version.major", problem, "does not match our current schema version")
    for name, one in program["range_constraints"].items():
        yield from _range_faults(name, one, f"range_constraints.{short(name)}")
    for number, name in enumerate(program.get("verifiers", [])):
        if not isinstance(name, str) or name not in VERIFIERS:
            problem = f"expected ATEN or TRAINING, found {shown(name)}"
            yield JsonFault(f"verifiers[{number}]", problem, key_error(name))
    yield from _custom_faults(program["graph_module"].get("metadata", {}))


def _custom_faults(metadata: dict[str, Any]) -> Iterator[JsonFault]:
    """The faults of what the user noted about the program."""
    text = metadata.get("custom")
    if text:
        place = "graph_module.metadata.custom"
        try:
            json.loads(text)
        except (ValueError, TypeError, RecursionError):
            yield JsonFault(place, f"expected JSON, found {shown(text)}", "")


def _range_faults(name: str, constraint: dict[str, Any], place: str) -> Iterator[JsonFault]:
    low, high = constraint["min_val"], constraint["max_val"]
    for key, bound in (("min_val", low), ("max_val", high)):
        if bound is not None and (not isinstance(bound, int | float) or isnan(bound)):
            yield JsonFault(f"{place}.{key}", f"expected a number or nothing, found {words(bound)}", "")
            return
    if low is not None and high is not None and low > high:
        yield JsonFault(place, f"expected a range, found {low} to {high}", "Invalid ranges [")
    prefix = next((one for one in UNBACKED if name.startswith(one)), "")
    if prefix and not name.removeprefix(prefix).isdecimal():
        problem = f"expected a number behind {prefix}, found {shown(name)}"
        yield JsonFault(place, problem, "invalid literal for int() with base 10")


def call_faults(
    calls: list[dict[str, Any]], nodes: Collection[object], arguments: Arguments
) -> Iterator[JsonFault]:
    """The faults of the calls of modules.

    Args:
        calls: as the schema has them.
        nodes: the names of all nodes of the program's own graph.
        arguments: compares arguments with the values of that graph.
    """
    for number, call in enumerate(calls):
        signature = call.get("signature")
        if signature is not None:
            place = f"{CALLS}[{number}].signature"
            yield from _signature_faults(signature, place, nodes, arguments)


def _signature_faults(
    signature: dict[str, Any], place: str, nodes: Collection[object], arguments: Arguments
) -> Iterator[JsonFault]:
    for key in ("inputs", "outputs"):
        values = signature[key]
        for number, one in enumerate(values):
            at = f"{place}.{key}[{number}]"
            found = list(spec_faults(one, at, arguments))
            yield from found
            name = named(one)
            known = isinstance(name.name, str) and name.name in nodes
            if not found and name.is_name and name.name and not known:
                problem = f"expected the name of a node, found {shown(name.name)}"
                yield JsonFault(at, problem, "does not exist in the graph.")
    for key in ("in_spec", "out_spec"):
        problem = tree_problem(signature[key])
        if problem:
            yield JsonFault(f"{place}.{key}", problem, "")


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

__all__ = ["JsonFault", "program_faults"]

PROGRAM = "ExportedProgram"
PLACES = 1_000
"""Places of which is remembered that a fault was told."""


def program_faults(program: Any, payloads: Payloads) -> Iterator[JsonFault]:  # noqa: ANN401 (any value)
    """The faults of a program. Where one is not of the schema, PyTorch looks no further, and so does this.

    Args:
        program: the record's value.
        payloads: the rows of its tables of weights and constants.

    Raises:
        ArchiveError: values are nested too deeply.
    """
    refused, others = False, False
    for fault in mismatches(program, PROGRAM):
        others |= fault.message is None
        if fault.message is not None:
            refused = True
            yield fault
    places: set[str] = set()
    if not refused:
        for fault in _uses(program, payloads):
            if len(places) < PLACES:
                places.add(fault.place)
            yield fault
    if others:
        found = mismatches(program, PROGRAM)
        yield from (one for one in found if one.message is None and one.place not in places)


def _uses(program: dict[str, Any], payloads: Payloads) -> Iterator[JsonFault]:
    """The faults of values that are of the schema, in the order in which PyTorch meets them."""
    module = program["graph_module"]
    yield from version_faults(program)
    signature = SignatureCheck(module, payloads)
    shared = Shared(signature.inputs, payloads.constants, RowCheck(program["range_constraints"]))
    graph = GraphCheck(module["graph"], GRAPH, shared)
    yield from signature.own_faults()
    yield from graph.faults()
    arguments = Arguments(graph.values, payloads.constants)
    yield from call_faults(module["module_call_graph"], graph.names, arguments)
    yield from signature.faults()
