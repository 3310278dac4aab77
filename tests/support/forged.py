"""Hostile tables of effects, and records of them that nobody checked before they were written."""

from __future__ import annotations

import builtins
import logging
import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from archive.effects.placeholders import Plain
from archive.formats.effects import EFFECTS, record
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    EffectTable,
    GlobalName,
    Item,
    Local,
    Made,
    Op,
    Stored,
)
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from archive.formats.effects.model import Source, Value


HOSTILE_NAMES = (
    *("__class__", "__globals__", "__builtins__", "__dict__", "__reduce__", "__init__", "__getattr__"),
    *("__subclasses__", "__mro__", "__loader__", "__self__", "__func__", "__call__", "__code__"),
    *("register_buffer", "register_hook", "forward", "append", "pop", "update", "format", "load_state_dict"),
    *("_parameters", "_forward_hooks", "_modules", "hooks_dict_ref", "data", "grad_fn", "save", "remove"),
    *(
        "os",
        "sys",
        "modules",
        "system",
        "builtins",
        "logging",
        "getLogger",
        "import_module",
        "eval",
        "sorted",
    ),
)
"""Names that lead from an object to code, or that are code themselves."""
HOSTILE_CODE = (
    *("os:system", "builtins:eval", "builtins:exec", "builtins:__import__", "subprocess:Popen"),
    *("builtins:list", "collections:OrderedDict", "torch:Tensor.register_hook", "logging:getLogger"),
    *("m:f.<locals>.g", "m:C.__init__.__globals__.update", "m:C.__subclasses__", "m:C.__class__.mro"),
    *("torch.utils.hooks:RemovableHandle", "torch.autograd.function:FunctionCtx", "os:environ.__class__"),
)
"""Code that a record may name."""
SELF = Local("self")


def forged(table: EffectTable) -> bytes:
    """The record of a table that breaks whatever rule it breaks."""
    with mock.patch.object(record, "check_table"):
        return record.build_effects(table)


def with_forged(path: Path, table: EffectTable) -> bytes:
    """The bytes of an archive whose table of effects is another one."""
    return tampered(path, {EFFECTS: forged(table)})


def path_of(text: str) -> Source:
    """A source below ``self``: ``register_buffer.__globals__[sys].modules``."""
    found: Source = SELF
    for part in text.split("."):
        name, *keys = part.split("[")
        found = Attribute(found, name)
        for key in keys:
            found = Item(found, key.removesuffix("]"))
    return found


MODULES = "register_buffer.__globals__[__loader__].get_data.__globals__[sys].modules"
SYSTEM = At(path_of(f"{MODULES}[os].system"))
STATE_ATTACKS: dict[str, tuple[Source, Value]] = {
    "a shell command in the place of a special method": (path_of("__class__.__getattr__"), SYSTEM),
    "a shell command in the place of logging.getLogger": (path_of(f"{MODULES}[logging].getLogger"), SYSTEM),
    "a shell command among the builtins": (
        path_of("register_buffer.__globals__[__builtins__][sorted]"),
        SYSTEM,
    ),
    "a special name that is set": (path_of("__class__"), Constant(None)),
    "a special name that is read": (path_of("stolen"), At(path_of("__class__"))),
    "a special name of a Python module": (GlobalName("models", "__builtins__"), Constant(None)),
}
"""Rows of the state by what they try; none may pass the gate."""
LATE_ATTACKS: dict[str, tuple[tuple[Source, Value], ...]] = {
    "a method of a list": (
        (path_of("items"), Made("list", ())),
        (path_of("stolen"), At(path_of("items.append"))),
        (path_of("stolen.here"), Constant(1)),
    ),
    "a method of a list that is replaced": (
        (path_of("items"), Made("list", ())),
        (path_of("items.append"), Constant(1)),
    ),
    "a method of a class that derives from a dict": (
        (path_of("items"), Made("subclass", (Constant("m:Output"), Made("dict", ())))),
        (path_of("items.keys"), Constant(1)),
    ),
    "a method of a tensor that is replaced": (
        (path_of("kept"), Stored(0)),
        (path_of("kept.register_hook"), Constant(1)),
    ),
    "elements of a tensor": ((path_of("kept"), Stored(0)), (path_of("kept.data"), Constant(1))),
    "an attribute of a number": ((path_of("kept"), Constant(1)), (path_of("kept.real.more"), Constant(1))),
}
"""States whose names may be honest, and are not where they stand; none can be made."""


def with_state(table: EffectTable, *rows: tuple[Source, Value]) -> EffectTable:
    """A table with more rows of state."""
    return replace(table, state=(*table.state, *rows))


def renamed(fact: Any, pick: Callable[[str, str], str]) -> Any:  # noqa: ANN401
    """A fact with names replaced: of attributes, globals, variables, keys, and of code.

    Args:
        fact: of a table.
        pick: gives the new one of a kind of name and the old one.
    """
    if isinstance(fact, tuple):
        return tuple(renamed(one, pick) for one in fact)
    if isinstance(fact, str) and not isinstance(fact, Op):
        return fact
    if not is_dataclass(fact):
        return fact
    made = {}
    for field in fields(fact):
        value = getattr(fact, field.name)
        if isinstance(fact, Made | Constant) and isinstance(value, str) and field.name == "value":
            made[field.name] = pick("code" if ":" in value else "text", value)
        elif isinstance(value, str) and field.name in ("name", "module", "function", "key"):
            made[field.name] = pick("code" if field.name == "function" else "name", value)
        else:
            made[field.name] = renamed(value, pick)
    return type(fact)(**made)


# --- What runs while something is watched: audit events of code, processes and files, and changed namespaces


STARTS = ("os.", "subprocess.", "shutil.", "socket.", "ctypes.", "pickle.", "marshal.", "code.", "function.")
"""Beginnings of the names of events by which code, processes and files are reached."""
QUIET = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")
NAMES = ("exec", "compile", "import", "open")
HELD: tuple[Any, ...] = (builtins, logging, os, sys, warnings, Plain, torch.Tensor, torch.nn.Module, torch)
"""Namespaces that nobody may change."""

_seen: list[list[tuple[str, object]]] = []


def _hook(event: str, args: tuple[object, ...]) -> None:
    if _seen and event not in QUIET and (event in NAMES or event.startswith(STARTS)):
        _seen[-1].append((event, args[0] if args else None))


@cache
def _listen() -> None:
    """Add the hook when something is watched at first: it is never taken off, and each event calls it."""
    sys.addaudithook(_hook)


def _namespaces() -> list[dict[str, int]]:
    return [{name: id(value) for name, value in vars(one).items()} for one in HELD]


@contextmanager
def watched() -> Iterator[list[tuple[str, object]]]:
    """The events of a ``with`` block; behind it, no namespace of ``HELD`` is another one."""
    _listen()
    before = _namespaces()
    events: list[tuple[str, object]] = []
    _seen.append(events)
    try:
        yield events
    finally:
        _seen.remove(events)
    assert _namespaces() == before
