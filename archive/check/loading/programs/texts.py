"""Texts of a node's metadata that PyTorch reads again, and refuses where they are laid out in another way.

PyTorch 2.13 takes a stack trace as it is. It splits ``nn_module_stack`` and ``source_fn_stack``, and reads
``from_node`` and ``custom`` as JSON. Empty texts are left alone. Source: ``deserialize_metadata`` in
``torch/_export/serde/serialize.py``, ``NodeSource._from_dict`` in ``torch/fx/traceback.py``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from archive.base.errors import shown
from archive.base.json_text import words
from archive.formats.exported.kinds import CUSTOM, FUNCTION, FUNCTIONS, MODULES, ORIGINS
from archive.formats.exported.mismatches import JsonFault
from archive.formats.exported.modules import PARTS, split_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Problem = tuple[str, str]
    """What is wrong with a text, and what PyTorch says."""


def text_faults(metadata: Any, place: str) -> Iterator[JsonFault]:  # noqa: ANN401 (of the schema)
    """The faults of a node's metadata.

    Args:
        metadata: the texts by key.
        place: the JSON path.
    """
    for key, check in CHECKS.items():
        text = metadata.get(key)
        if not text:
            continue
        if not isinstance(text, str):
            yield JsonFault(f"{place}.{key}", f"expected a text, found {words(text)}", "")
        elif problem := check(text):
            yield JsonFault(f"{place}.{key}", *problem)


def _modules(text: str) -> Problem | None:
    for item in text.split(";"):
        parts = len(split_instance(item))
        if parts != PARTS:
            found = f"expected a key, a path and a class, found {shown(item)}"
            return found, f"expected metadata_split to return 3 parts, got {parts}"
    return None


def _functions(text: str) -> Problem | None:
    for item in text.split(";"):
        commas = item.count(",")
        if commas != 1:
            message = "too many values to unpack" if commas else "not enough values to unpack"
            return f"expected a name and a function, found {shown(item)}", message
    return None


def _function(_: str) -> Problem | None:
    return None


def _json(text: str) -> Problem | None:
    return (
        None if _parsed(text)[0] else (f"expected JSON, found {shown(text)}", "json.decoder.JSONDecodeError")
    )


def _origins(text: str) -> Problem | None:
    is_json, tree = _parsed(text)
    if not is_json:
        return _json(text)
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


def _parsed(text: str) -> tuple[bool, Any]:
    """Whether a text is JSON, and its value."""
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


CHECKS: dict[str, Callable[[str], Problem | None]] = {
    MODULES: _modules,
    FUNCTIONS: _functions,
    FUNCTION: _function,
    CUSTOM: _json,
    ORIGINS: _origins,
}
"""The keys whose texts PyTorch reads, in its order."""
