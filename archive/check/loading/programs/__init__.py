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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.check.loading.programs.arguments import Arguments
from archive.check.loading.programs.calls import call_faults, version_faults
from archive.check.loading.programs.graphs import GraphCheck, Shared
from archive.check.loading.programs.signature import GRAPH, SignatureCheck
from archive.check.loading.programs.values import RowCheck
from archive.formats.exported.mismatches import JsonFault, mismatches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.check.loading.programs.payloads import Payloads

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
