"""Folded data as they were: the other way round than ``archive.page.folding``, without its code."""

from __future__ import annotations

from typing import Any


def unfolded(data: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Data with all columns and call stacks as lists."""
    if isinstance(data, list):
        return [unfolded(part) for part in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"once", "of"}:
        return [data["once"][number] for number in data["of"]]
    if data.keys() == {"parent", "record", "position", "text", "of"}:
        tree = {name: unfolded(column) for name, column in data.items()}
        return [stack_of(tree, frame) for frame in tree["of"]]
    return {key: unfolded(value) for key, value in data.items()}


def stack_of(tree: dict[str, list[Any]], frame: int) -> list[list[Any]]:
    """The frames up to one, the outermost first."""
    stack = []
    while frame >= 0:
        stack.append([tree[name][frame] for name in ("record", "position", "text")])
        frame = tree["parent"][frame]
    return stack[::-1]
