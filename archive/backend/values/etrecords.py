"""Loads the programs of an ETRecord into PyTorch, without ExecuTorch.

A method's program is in ExecuTorch's edge dialect: its operators are PyTorch's, under another name. Those of
``dim_order_ops`` are PyTorch's, too, with the order of dimensions in memory, which changes no value.
ExecuTorch 1.5 writes version 5.4 of PyTorch's schema of programs, whose parts all are in version 8; but what
``cond`` returns is one list there, and a tensor each in version 8.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import torch
import torch.ao.quantization.fx._decomposed  # the operators of quantised programs

from archive.backend.pytorch import IMPORTING, not_loaded
from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.json_text import read_json
from archive.formats.etrecord import edge_program
from archive.formats.exported.loaded import HIGHER_ORDER, OPERATORS
from archive.formats.exported.program import graph_of
from archive.formats.exported.sites import named_values
from archive.formats.record_kinds import BESIDE
from archive.reader.lookups.nodes import EDGE_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.exported.program import Program
    from archive.reader.archive import Archive

ORDERED = f"{OPERATORS}dim_order_ops."
UNORDERED = {
    "_clone_dim_order.default": "clone.default",
    "_empty_dim_order.default": "empty.memory_format",
    "_to_dim_order_copy.default": "_to_copy.default",
}
"""Operators of ``dim_order_ops``, each with PyTorch's."""
ORDER = "dim_order"
"""The argument that PyTorch's do not have."""
SCHEMAS = ("5", "8")
"""The major versions of the schema that PyTorch reads here."""
VERIFIERS = ["ATEN"]
"""Those of programs in PyTorch's operators."""


def method_program(opened: Archive, method: str) -> Program:
    """The program of a method, or of a name."""
    programs = opened.programs
    name = method if method in programs else edge_program(method, programs)
    if name is None:
        found = ", ".join(map(one_line, programs)) or "none"
        raise ArchiveError(
            expected="--method with a method, or one of the programs", found=found, file=opened.file
        )
    return programs[name]


def identity(opened: Archive, name: str) -> str:
    """What identifies a program: two with the same have the same nodes."""
    return digest_of(opened.records[name].view()).hex()


def returned_by(opened: Archive, program: Program) -> list[str]:
    """The key of the node that makes each result of a program; "" for what no node makes."""
    tree = read_json(opened.records[program.name].view())
    values = named_values(graph_of(tree).get("outputs"))
    makers = {
        value: key
        for key, site in program.sites.items()
        if not site.scopes and site.record
        for value in (site.name, *named_values(site.record.get("outputs")))
    }
    given = [values[number] for number in program.outputs.results if number < len(values)]
    return [makers.get(value, "") for value in given]


def loaded_program(opened: Archive, program: Program) -> torch.export.ExportedProgram:
    """A program as PyTorch loads it; no pickle is executed."""
    from torch._export.serde.serialize import (  # noqa: PLC0415 (takes as long as torch itself)
        SerializedArtifact,
        deserialize,
    )

    name = program.name
    if program.schema.partition(".")[0] not in SCHEMAS:
        raise ArchiveError(
            expected=f"schema {' or '.join(SCHEMAS)} of programs",
            found=program.schema or "none",
            file=opened.file,
        )
    with in_file(opened.file, name):
        tree = read_json(opened.records[name].view())
        for node in _nodes(tree):
            _in_pytorchs_operators(node)
            if node["target"].startswith(HIGHER_ORDER):
                _return_each(node)
    tree["verifiers"] = VERIFIERS
    try:
        beside = [_tensors(opened, name + ending) for ending in BESIDE]
        # ExecuTorch's version of the schema is older than PyTorch's, which has all of it.
        artifact = SerializedArtifact(json.dumps(tree).encode(), *beside)
        loaded = deserialize(artifact, _unsafe_skip_version_check=True)
    except Exception as error:  # broken programs make PyTorch raise errors of any kind
        why = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise not_loaded(why, opened.file, one_line(name)) from error
    unknown = [node.target for node in loaded.graph.nodes if isinstance(node.target, str) and _calls(node)]
    if unknown:
        message = f"PyTorch has no operator {one_line(unknown[0])}; {IMPORTING}"
        raise ArchiveError(message, place=name, file=opened.file)
    return loaded


def _calls(node: torch.fx.Node) -> bool:
    return bool(node.op == "call_function")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 (JSON)
    """The nodes of a program's graph, and of those in it."""
    left = [tree]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if isinstance(value.get("target"), str) and isinstance(value.get("inputs"), list):
                yield value
            left += value.values()
        elif isinstance(value, list):
            left += value


def _in_pytorchs_operators(node: dict[str, Any]) -> None:
    """Make a node call PyTorch's operator in place of ExecuTorch's."""
    target: str = node["target"]
    if target.startswith(EDGE_OPERATORS):
        target = OPERATORS + target.removeprefix(EDGE_OPERATORS)
    if target.startswith(ORDERED) and target.removeprefix(ORDERED) in UNORDERED:
        target = f"{OPERATORS}aten.{UNORDERED[target.removeprefix(ORDERED)]}"
        node["inputs"] = [
            each for each in node["inputs"] if not (isinstance(each, dict) and each.get("name") == ORDER)
        ]
    node["target"] = target


def _return_each(node: dict[str, Any]) -> None:
    """Make a node that holds graphs return a tensor each in place of one list."""
    match node.get("outputs"):
        case [{"as_tensors": [*tensors]}]:
            node["outputs"] = [{"as_tensor": tensor} for tensor in tensors]


def _tensors(opened: Archive, record: str) -> Any:  # noqa: ANN401 (of tensors)
    """What PyTorch has saved in a record: tensors and plain containers; empty without a record."""
    if record not in opened.records or not opened.records[record].size:
        return {}
    return torch.load(io.BytesIO(opened.records[record].view()), map_location="cpu", weights_only=True)
