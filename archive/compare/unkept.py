"""What PyTorch itself does not keep of an exported program that is loaded and saved again.

Such facts aren't part of the model:

- the ``storage_offset`` of a graph's values: the tensors that a loader makes of them begin at 0;
- the range of a symbol that no size, stride, number or condition names: it is left out;
- the name of a node that makes no value: ``…_unused`` is added to it, or another number.

``tests/compare/test_saved_again.py`` finds them, by saving every fixture twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from archive.formats.exported.program import graph_of, nodes
from archive.formats.exported.sites import named_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OFFSET, RANGES = "storage_offset", "range_constraints"
TENSORS = "tensor_values"
SYMBOL = re.compile(r"Symbol\('(\w+)'")
"""A symbol in an expression: ``Add(Symbol('u0', integer=True), Integer(-1))``."""


def strip_unkept(tree: dict[str, Any]) -> None:
    """Take these facts out of a program's JSON."""
    for meta in _metas(tree):
        meta.pop(OFFSET, None)
    for _, node, *_ in nodes(graph_of(tree)):
        if not named_values(node.get("outputs", [])):
            node["name"] = ""
    if isinstance(tree.get(RANGES), dict):
        tree[RANGES] = kept_ranges(tree)


def offsets_of(tree: Mapping[str, Any]) -> list[object]:
    """The offsets of all values, in the order of the JSON."""
    return [meta.get(OFFSET) for meta in _metas(tree)]


def kept_ranges(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges of symbols that something else in a program names."""
    named = {
        symbol
        for key, text in _texts({key: value for key, value in tree.items() if key != RANGES})
        if key != OFFSET
        for symbol in SYMBOL.findall(text)
    }
    ranges = tree.get(RANGES)
    return {name: one for name, one in ranges.items() if name in named} if isinstance(ranges, dict) else {}


def _metas(tree: object) -> Iterator[dict[str, Any]]:
    """What is said of each tensor that a graph's value is, in all graphs."""
    stack: list[object] = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += reversed(value)
        elif isinstance(value, dict):
            metas = value.get(TENSORS)
            if isinstance(metas, dict):
                yield from (meta for meta in metas.values() if isinstance(meta, dict))
            stack += reversed(value.values())


def _texts(tree: object) -> Iterator[tuple[str, str]]:
    """All texts but those of metadata, each with its key; with ``OFFSET`` for all that is below that."""
    stack: list[tuple[str, object]] = [("", tree)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            stack += [(key, part) for part in value]
        elif isinstance(value, dict):
            stack += [
                (OFFSET if key == OFFSET else name, part)
                for name, part in value.items()
                if name != "metadata"
            ]
