"""Effects with other paths: a model that logs or warns names its file in them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from archive.formats.effects import EFFECTS

if TYPE_CHECKING:
    from archive.formats.effects.model import Literal
    from archive.privacy.redact.rules import Removed, Rules
    from archive.reader.archive import Archive

T = TypeVar("T")


def redacted_effects(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes]:
    """The record of effects with other paths, as source ranges have them; none where that changes nothing.

    Guards and state stay: the model computes with their values.

    Args:
        opened: the archive.
        rules: what becomes of paths.
        removed: what became of the paths of source ranges.
    """
    del rules  # those of source ranges have been followed
    table = opened.effects
    if table is None:
        return {}
    from archive.formats.effects.record import build_effects  # noqa: PLC0415 (few archives have some)

    became = {
        old.decode(errors="replace"): new.decode(errors="replace") for old, new in removed.became.items()
    }
    methods = tuple(replace(one, effects=_renamed(one.effects, became)) for one in table.methods)
    if methods == table.methods:
        return {}
    data = build_effects(replace(table, methods=methods))
    opened.allowance.take(len(data), "bytes of a record", record=EFFECTS)
    return {EFFECTS: data}


def _renamed(value: T, became: dict[str, str]) -> T:
    """A part of the table; constants, and items of constants, that are a path have the other one."""
    from archive.formats.effects.model import Constant  # noqa: PLC0415 (the same)

    if isinstance(value, Constant):
        return replace(value, value=_literal(value.value, became))
    if isinstance(value, tuple):
        return type(value)(_renamed(one, became) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: _renamed(getattr(value, one.name), became) for one in fields(value)}
        return replace(value, **parts)
    return value


def _literal(value: Literal, became: dict[str, str]) -> Literal:
    if isinstance(value, tuple):
        return tuple(_literal(one, became) for one in value)
    return became.get(value, value) if isinstance(value, str) else value
