"""Hooks as values: what an effect registers on a tensor, where a name is not enough.

A hook is a function, or made from one. The key of an effect that registers a hook is the constant
``module:qualname``, or a ``Made`` of one of these kinds, which occur nowhere else:

=============  ==========================================================================================
kind           items
=============  ==========================================================================================
``partial``    hook, tuple of arguments, dict of arguments by name: ``functools.partial``
``method``     hook, object: a method bound to the object
``function``   constant ``module:qualname``, constant digest, tuple of defaults, dict of defaults by name,
               tuple of cells, tuple of sources
=============  ==========================================================================================

The qualname of a ``function`` is its place, such as ``Model.forward.<locals>.<lambda>``; the digest is that
of :func:`archive.effects.code.digest_of`. A cell is the source of a variable of the model's own functions,
which the hook shares with them, or ``cell`` of one value. The sources are what the code itself reads.

An effect ``register_backward_hooks`` puts the full backward hooks of its source, a module, on tensors of the
graph. Its key is two tuples of hooks: the hooks, and those to be called before them. Its value is two tuples,
the module's positional arguments and what it returns; in each, at most one item is an alias of a tensor, and
all others are None.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.formats.effects.model import At, ClosureCell, Constant, Made, Op
from archive.formats.effects.words import HOOK_OPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.effects.model import Effect, Value

CELL = "cell"
ITEM_COUNTS = {"partial": 3, "method": 2, "function": 6, CELL: 1}
HOOK_KINDS = tuple(ITEM_COUNTS)
"""Kinds of :class:`Made` that hooks are made from."""
QUALIFIED_NAME = re.compile(r"[^:]+:[^:]+")
"""A class or function: ``module:qualname``."""
DIGEST = re.compile(r"[0-9a-f]{32}")


def hook_problem(hook: Value | None) -> str | None:
    """The rule that a hook breaks, as text; None if it breaks none.

    Values inside a hook are not checked.
    """
    while isinstance(hook, Made) and hook.kind in ("partial", "method") and _has_its_items(hook):
        if hook.kind == "partial" and not (
            _are_made(hook.items[1:], "tuple", "dict") and _is_by_name(hook.items[2])
        ):
            return "a partial function without its arguments"
        hook = hook.items[0]
    if isinstance(hook, Constant):
        named = isinstance(hook.value, str) and QUALIFIED_NAME.fullmatch(hook.value)
        return None if named else "a hook that is not module:qualname"
    if not isinstance(hook, Made) or hook.kind != "function" or not _has_its_items(hook):
        return "no hook"
    return _function_problem(hook)


def _function_problem(function: Made) -> str | None:
    name, digest, *rest = function.items
    if not _is_text(name, QUALIFIED_NAME) or not _is_text(digest, DIGEST):
        return "a function without its name and digest"
    if not (_are_made(tuple(rest), "tuple", "dict", "tuple", "tuple") and _is_by_name(rest[1])):
        return "a function without defaults, cells and sources"
    cells, sources = rest[2], rest[3]
    assert isinstance(cells, Made)  # noqa: S101 (checked)
    assert isinstance(sources, Made)  # noqa: S101 (checked)
    if not all(_is_cell(one) for one in cells.items):
        return "a function with a cell that isn't one"
    return None if all(isinstance(one, At) for one in sources.items) else "a function that reads no source"


def _has_its_items(made: Made) -> bool:
    return len(made.items) == ITEM_COUNTS[made.kind]


def _are_made(values: tuple[Value, ...], *kinds: str) -> bool:
    return [one.kind if isinstance(one, Made) else None for one in values] == list(kinds)


def _is_by_name(value: Value) -> bool:
    """Whether a dict has distinct texts as keys."""
    keys = value.items[::2] if isinstance(value, Made) else ()
    names = [key.value for key in keys if isinstance(key, Constant) and isinstance(key.value, str)]
    return len(names) == len(keys) == len(set(names))


def _is_text(value: Value, pattern: re.Pattern[str]) -> bool:
    return (
        isinstance(value, Constant)
        and isinstance(value.value, str)
        and pattern.fullmatch(value.value) is not None
    )


def _is_cell(value: Value) -> bool:
    if isinstance(value, Made):
        return value.kind == CELL and len(value.items) == 1
    return isinstance(value, At) and isinstance(value.source, ClosureCell)


def hooks_of(effect: Effect) -> list[Value]:
    """The hooks that an effect registers."""
    if effect.key is None:
        return []
    if effect.op is Op.REGISTER_BACKWARD_HOOKS and isinstance(effect.key, Made):
        return [hook for hooks in effect.key.items if isinstance(hooks, Made) for hook in hooks.items]
    return [effect.key] if effect.op in HOOK_OPS else []


def backward_problem(key: Value | None, value: Value | None) -> str | None:
    """The rule that an effect ``register_backward_hooks`` breaks, as text; None if it breaks none."""
    for pair in (key, value):
        if not isinstance(pair, Made) or pair.kind != "tuple" or not _are_made(pair.items, "tuple", "tuple"):
            return "not two tuples"
    assert isinstance(value, Made)  # noqa: S101 (checked)
    for given in value.items:
        tensors = [one for one in given.items if one != Constant(None)] if isinstance(given, Made) else []
        if len(tensors) > 1:
            return "several tensors"
    return None


def functions_of(hook: Value | None) -> Iterator[tuple[str, str]]:
    """Name and digest of the function that a hook is made from; no digest for functions known by name."""
    while isinstance(hook, Made) and hook.kind in ("partial", "method"):
        hook = hook.items[0]
    if isinstance(hook, Constant):
        yield str(hook.value), ""
    elif isinstance(hook, Made):
        name, digest, *_ = hook.items
        if isinstance(name, Constant) and isinstance(digest, Constant):
            yield str(name.value), str(digest.value)


def values_in_hook(hook: Value) -> Iterator[Value]:
    """The plain values in a hook: arguments, owners, defaults, contents of cells, sources."""
    while isinstance(hook, Made) and hook.kind in ("partial", "method"):
        yield from hook.items[1:]
        hook = hook.items[0]
    if not isinstance(hook, Made) or hook.kind != "function":
        return
    _, _, defaults, named, cells, sources = hook.items
    yield from (defaults, named, sources)
    for cell in cells.items if isinstance(cells, Made) else ():
        yield cell.items[0] if isinstance(cell, Made) else cell
