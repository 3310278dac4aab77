"""Hooks as Python: ``models.halved``, ``partial(models.more_by, k=3)``, ``MethodType(models.A.f, self.a)``.

``copied(f, 1, k=2, closure=(x,))`` is a copy of a function with these defaults and this closure.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING, Protocol

from archive.formats.effects.hooks import hooks_of
from archive.formats.effects.model import Constant, Made, New, Op

if TYPE_CHECKING:
    from archive.formats.effects.model import Effect, Source, Value

HOOK_WORDS = ("MethodType", "partial", "copied", "put_on_backward_hooks")
"""Names that the texts of hooks use."""


class Printing(Protocol):
    """Prints what hooks are made of."""

    def source(self, source: Source) -> str:
        """A source as an expression."""

    def value(self, value: Value) -> str:
        """A value as an expression."""

    def reference(self, text: str) -> str:
        """A class or function ``module:qualname`` as an expression."""

    def word(self, word: str) -> str:
        """The name for one of ``HOOK_WORDS``, or for ``hooks``."""


def hooks_text(effect: Effect, printing: Printing) -> str:
    """An effect that puts on hooks, as a statement."""
    source, hooks = printing.source(effect.source), [hook_text(one, printing) for one in hooks_of(effect)]
    value = "" if effect.value is None else printing.value(effect.value)
    if effect.op is Op.REGISTER_BACKWARD_HOOKS:
        return f"{printing.word('put_on_backward_hooks')}({', '.join([source, value, *hooks])})"
    handle = value if isinstance(effect.value, New) else f"{printing.word('hooks')}[{value}]"
    return f"{handle} = {source}.{effect.op}({hooks[0]})"


def hook_text(hook: Value | None, printing: Printing) -> str:
    """A hook as an expression."""
    if not isinstance(hook, Made):
        return printing.reference(_text(hook))
    if hook.kind == "function":
        return _function_text(hook, printing)
    inner = hook_text(hook.items[0], printing)
    if hook.kind == "method":
        return f"{printing.word('MethodType')}({inner}, {printing.value(hook.items[1])})"
    args, named = (_items(one) for one in hook.items[1:])
    given = [inner, *map(printing.value, args), *_by_name(named, printing)]
    return f"{printing.word('partial')}({', '.join(given)})"


def _function_text(function: Made, printing: Printing) -> str:
    name, _, *rest = function.items
    reference = printing.reference(_text(name))
    defaults, named, cells, _ = map(_items, rest)
    if not (defaults or named or cells):
        return reference
    given = [reference, *map(printing.value, defaults), *_by_name(named, printing)]
    if cells:
        held = [printing.value(cell.items[0] if isinstance(cell, Made) else cell) for cell in cells]
        given.append(f"closure=({', '.join(held)}{',' * (len(held) == 1)})")
    return f"{printing.word('copied')}({', '.join(given)})"


def _by_name(pairs: tuple[Value, ...], printing: Printing) -> list[str]:
    keys, values = map(_text, pairs[::2]), map(printing.value, pairs[1::2])
    return [
        f"{key}={value}" if _is_keyword(key) else f"**{{{key!r}: {value}}}"
        for key, value in zip(keys, values, strict=False)
    ]


def _is_keyword(text: str) -> bool:
    """Whether an argument can have a text as its name."""
    return text.isascii() and text.isidentifier() and not iskeyword(text) and text != "__debug__"


def _items(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Made) else ()


def _text(value: Value | None) -> str:
    return str(value.value) if isinstance(value, Constant) else ""
