"""Tables of effects without what tells of places: what the effects do, wherever the model's source lies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from archive.formats.effects.known_calls import without_place
from archive.formats.effects.model import Op

if TYPE_CHECKING:
    from archive.formats.effects.model import EffectTable, MethodEffects


def without_handles(table: EffectTable) -> EffectTable:
    """The table without debug handles, which PyTorch counts per process."""
    return replace(table, methods=tuple(map(_without_handles, table.methods)))


def without_places(table: EffectTable) -> EffectTable:
    """The table without debug handles, and without files and lines of calls: what the effects do."""
    return replace(table, methods=tuple(map(_without_places, without_handles(table).methods)))


def _without_places(method: MethodEffects) -> MethodEffects:
    effects = (without_place(one) if one.op is Op.CALL else one for one in method.effects)
    return replace(method, effects=tuple(effects))


def _without_handles(method: MethodEffects) -> MethodEffects:
    return replace(
        method,
        effects=tuple(replace(one, handle=-1) for one in method.effects),
        guards=tuple(replace(one, handle=-1) for one in method.guards),
    )
