"""Records of effects whose rows lead from what a table makes to Python's own objects and shell commands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from archive.formats.effects import EFFECTS
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Effect,
    EffectTable,
    GlobalName,
    Guard,
    Local,
    Look,
    Made,
    MethodEffects,
    Op,
    Output,
)
from tests.attacks.attack import Attack
from tests.attacks.zips import LITE, archive_of
from tests.support.forged import SELF, STATE_ATTACKS, forged

if TYPE_CHECKING:
    from collections.abc import Iterable

CODE = {**LITE, "code/m.py": b"pass\n"}
COMMANDS = (
    "inspect m.pt",
    "inspect m.pt --effects",
    "verify m.pt",
    "digest m.pt",
    "leaks m.pt",
    "split m.pt -o s.pt -c s.ptdbg",
    "redact m.pt -o r.pt -c r.ptdbg --for publish --partial",
)


def model(table: EffectTable) -> dict[str, bytes]:
    """A model whose table of effects is hostile."""
    return {"m.pt": archive_of({**CODE, EFFECTS: forged(table)})}


def _method(effects: Iterable[Effect] = (), guards: Iterable[Guard] = ()) -> EffectTable:
    method = MethodEffects("forward", (Local("x"),), Output(0), tuple(effects), tuple(guards))
    return EffectTable((method,), ())


CLASS = Attribute(SELF, "__class__")
TABLES = {
    **{f"state: {name}": EffectTable((), (row,)) for name, row in STATE_ATTACKS.items()},
    "effect: a special method is set": _method([Effect(Op.SET_ATTRIBUTE, CLASS, Constant("f"), At(SELF))]),
    "effect: a shell command is called": _method(
        [Effect(Op.CALL, GlobalName("os", "system"), Constant(("", "")), Made("tuple", ()))]
    ),
    "guard: a special name is read": _method(guards=[Guard(Look.LENGTH, At(CLASS), Constant(1))]),
    "hook: a method of a function's globals": _method(
        [Effect(Op.REGISTER_HOOK, Local("x"), Constant("m:f.__globals__.update"), Constant(0))]
    ),
}
ATTACKS = {
    f"effects, {name}": Attack(f"A record of effects: {name}.", partial(model, table), COMMANDS)
    for name, table in TABLES.items()
}
"""Attacks by what they try."""
