"""The data of a page → the same in fewer bytes, which a browser also keeps in less memory.

A column whose values repeat becomes ``{"once": […], "of": […]}``: each value once, and for each row its
number there. ``frames``, a call stack a row, become a tree, because stacks share their outer frames:
``{"parent", "record", "position", "text", "of"}``; ``of`` is each row's innermost frame, or -1, and
``parent`` the frame around a frame, or -1. ``tools/page/src/unpack.js`` unfolds columns, and walks the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.keys import text_key

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 64
"""The least rows of a column that is folded: shorter lists hold columns, sections or parts of a row."""
FRAMES = "frames"


def folded(data: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Data with columns and call stacks folded."""
    if isinstance(data, dict):
        return {key: folded(part_of(key, value)) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    if len(data) < LEAST:
        return [folded(part) for part in data]
    is_column = all(value is None or isinstance(value, str) for value in data) or all(map(_is_link, data))
    return _column(data) if is_column else data


def part_of(key: str, value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """A section or column by its name: call stacks as a tree."""
    return _tree(value) if key == FRAMES and isinstance(value, list) else value


def _is_link(value: object) -> bool:
    """Whether a value is null, or numbers: a file's, and a position there."""
    return value is None or (isinstance(value, list | tuple) and all(isinstance(part, int) for part in value))


def _column(values: Sequence[Any]) -> Any:  # noqa: ANN401 (any JSON)
    numbers: dict[str | None, int] = {}
    once: list[Any] = []
    of = []
    for value in values:
        key = text_key(*value) if isinstance(value, list | tuple) else value
        number = numbers.setdefault(key, len(numbers))
        if number == len(once):
            once.append(value)
        of.append(number)
    return {"once": once, "of": of} if 2 * len(once) <= len(values) else values


def _tree(stacks: Sequence[Sequence[Sequence[Any]]]) -> dict[str, Any]:
    numbers: dict[tuple[Any, ...], int] = {}
    of = []
    for stack in stacks:
        frame = -1
        for record, position, text in stack:
            frame = numbers.setdefault((frame, record, position, text), len(numbers))
        of.append(frame)
    names = "parent", "record", "position", "text"
    columns = zip(*numbers, strict=True) if numbers else ([] for _ in names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)} | {"of": of}
