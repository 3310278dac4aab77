"""Exported programs among the fixtures, and their nodes as the standard library reads them."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPORTED = FIXTURES / "exported"
PROGRAMS = sorted(EXPORTED.glob("*.pt2"))
METADATA = ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack", "from_node", "custom")


@cache
def trees(path: Path) -> dict[str, Any]:
    """The JSON of each program of an archive, by the program's name."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.partition("/")[2].startswith("models/")]
        return {Path(name).stem: json.loads(archive.read(name)) for name in names}


def nodes(value: object) -> Iterator[dict[str, Any]]:
    """All nodes, wherever they stand in the JSON: slow, and with no idea of graphs."""
    if isinstance(value, dict):
        if {"target", "inputs", "metadata"} <= value.keys():
            yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


@cache
def texts(key: str) -> list[str]:
    """The different texts of a kind of metadata in all fixtures."""
    found = {
        node["metadata"][key]
        for path in PROGRAMS
        for tree in trees(path).values()
        for node in nodes(tree)
        if key in node["metadata"]
    }
    return sorted(found)
