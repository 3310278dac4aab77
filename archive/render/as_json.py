"""Facts → JSON.

The keys of an object are its fields. A class with other keys lists them in ``_json_``: ``within?`` is left
out where it's "" or None, and ``text=data`` is the attribute ``data``. ``docs/schemas`` is made of the same.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from archive.base.errors import escaped
from archive.base.strings import StringView, Text


def as_json(value: object) -> str:
    """Facts (dataclasses, mappings, sequences) as indented JSON; no two texts become one."""
    import json  # noqa: PLC0415 (texts do without)

    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


class DocumentKey(NamedTuple):
    """A key of a class's objects, and the attribute that it shows."""

    name: str
    attribute: str
    is_optional: bool


@cache
def keys_of(kind: Any) -> tuple[DocumentKey, ...]:  # noqa: ANN401 (any class)
    """The keys of a class's objects; none where these aren't objects of JSON."""
    names = getattr(kind, "_json_", None)
    if names is None:
        names = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    parts = [name.partition("=") for name in names]
    return tuple(
        DocumentKey(key.removesuffix("?"), attribute or key.removesuffix("?"), key.endswith("?"))
        for key, _, attribute in parts
    )


def document_of(facts: Any) -> dict[str, Any]:  # noqa: ANN401 (any class)
    """The keys of an object and their values, as :func:`as_json` prints them."""
    values = {key: getattr(facts, key.attribute) for key in keys_of(facts.__class__)}
    left_out = {key for key, value in values.items() if key.is_optional and (value is None or value == "")}
    return {key.name: value for key, value in values.items() if key not in left_out}


def json_escape(character: str) -> str:
    """A character as an escape of JSON: one, or two for a character beyond U+FFFF."""
    import json  # noqa: PLC0415 (texts do without)

    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def _plain(value: Any) -> Any:  # noqa: ANN401 (JSON; one return a type)
    if isinstance(value, Enum):
        return value.value
    if keys_of(value.__class__):
        value = document_of(value)
    if isinstance(value, dict):
        return {escaped(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | StringView | Text):
        return escaped(bytes(value).decode(errors="surrogateescape"))
    if isinstance(value, str):
        return escaped(value)
    return value
