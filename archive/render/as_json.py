"""Facts → JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from archive.base.errors import escaped
from archive.base.strings import StringView, Text


def as_json(value: object) -> str:
    """Facts (dataclasses, mappings, sequences) as indented JSON; no two texts become one."""
    import json  # noqa: PLC0415 (texts do without)

    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


def json_escape(character: str) -> str:
    """A character as an escape of JSON: one, or two for a character beyond U+FFFF."""
    import json  # noqa: PLC0415 (texts do without)

    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def _plain(value: object) -> Any:  # noqa: ANN401 (JSON; one return a type)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {escaped(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | StringView | Text):
        return escaped(bytes(value).decode(errors="surrogateescape"))
    if isinstance(value, str):
        return escaped(value)
    return value
