"""What a state consists of: the parts of each value, and whether anything in it has changed."""

from __future__ import annotations

import hashlib
import logging
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.parameter import UninitializedParameter
from torch.utils.hooks import RemovableHandle

from archive.effects.looking import WITHOUT_MODES
from archive.effects.places import CONTAINERS, REGISTERED, base_of, is_code, is_foreign, items_of
from archive.effects.trial.child import UntriedError

if TYPE_CHECKING:
    from collections.abc import Iterable

CODE = (type, FunctionType, BuiltinFunctionType, ModuleType, type(torch.ops), logging.Logger, torch.autocast)
"""What isn't state: code, and whatever leads to code."""
ATOMS = (bool, int, float, complex, str, bytes, type(None), range, slice)
IMMUTABLE = (*ATOMS, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
HOLDERS = (tuple, *CONTAINERS)
MOST_PARTS = 1_000_000
"""Most parts of a state, each of which takes some hundred bytes."""
INTERNAL = frozenset(vars(torch.nn.Module())) - {"training"}
"""What PyTorch keeps in each module; its parameters, buffers and modules are parts of their own."""


class Step(NamedTuple):
    """A step from a value to a part of it.

    Attributes:
        kind: ``attribute``, ``item``, ``key`` of a dict, ``element`` of a set or ``cell``.
        name: of the attribute; index or key.
    """

    kind: str
    name: Any

    @property
    def text(self) -> str:
        """The step as Python writes it."""
        if self.kind == "attribute":
            return f".{self.name}"
        return f"[{self.name!r}]" if isinstance(self.name, ATOMS) else "[…]"


Path = tuple[Step, ...]


class Names(dict[str, Any]):
    """Values by name, where no object has them: globals, variables of functions."""


class ClassNames(Names):
    """The data of a class by name, without what it inherits."""

    cls: type


def path_text(path: Path) -> str:
    """A path as Python writes it."""
    return "".join(step.text for step in path).removeprefix(".")


def is_immutable(value: object) -> bool:
    """Whether a value never changes, and is compared by its own text."""
    return isinstance(value, IMMUTABLE)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object that are data: its own, those of slots, and what a module registers."""
    if isinstance(value, Names):
        return dict(value)
    if isinstance(value, CellType):
        try:
            return {"cell_contents": value.cell_contents}
        except ValueError:
            return {}
    held = dict(_own(value))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name[:2] != "__" and hasattr(value, name):
                held[name] = getattr(value, name)
    if isinstance(value, torch.nn.Module):
        for kind in REGISTERED:
            held |= _own(value).get(kind, {})
        held = {name: one for name, one in held.items() if name not in INTERNAL}
    return {name: one for name, one in held.items() if not isinstance(one, CODE) and not is_code(one)}


def _own(value: object) -> dict[str, Any]:
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if isinstance(own, dict) else {}


def class_data(cls: type) -> ClassNames:
    """The attributes of a class that are data, and its classes inside."""
    held = ClassNames()
    held.cls = cls
    for name, value in vars(cls).items():
        if name[:2] == "__":
            continue
        if isinstance(value, type):
            if value.__qualname__.startswith(f"{cls.__qualname__}."):
                held[name] = class_data(value)
        elif isinstance(value, (*IMMUTABLE, *HOLDERS, torch.Tensor)):
            held[name] = value
    return held


def items(value: Any) -> list[tuple[Step, Any]]:
    """The items of a container; keys of a dict aren't parts, but are in the steps."""
    if isinstance(value, Names):
        return []
    if isinstance(value, dict):
        return [(Step("key", key), one) for key, one in items_of(value)]
    if isinstance(value, set | frozenset):
        return [(Step("element", None), one) for one in sorted(items_of(value), key=repr)]
    if isinstance(value, tuple):
        return [(Step("item", n), one) for n, one in enumerate(tuple.__iter__(value))]
    if base_of(type(value)) in CONTAINERS:
        return [(Step("item", n), one) for n, one in enumerate(items_of(value))]
    return []


def parts(value: Any) -> list[tuple[Step, Any]]:
    """All parts of a value; objects of Python's library have none that count."""
    if isinstance(value, (torch.Tensor, RemovableHandle, *IMMUTABLE, *CODE)) or is_code(value):
        return []
    found: list[tuple[Step, Any]] = items(value)
    kind: Any = type(value)
    if kind not in HOLDERS and (isinstance(value, Names | CellType) or not is_foreign(kind)):
        found += [(Step("attribute", name), one) for name, one in attributes(value).items()]
    return found


def digest(tensor: Any) -> tuple[object, ...]:
    """A tensor's contents, in few bytes; only the metadata of anything but a plain CPU tensor."""
    with WITHOUT_MODES(), torch.no_grad():
        if isinstance(tensor, UninitializedParameter):
            return ("uninitialized",)
        look = (tuple(tensor.shape), str(tensor.dtype), str(tensor.layout), tensor.requires_grad)
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            return (*look, tensor._version)
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        data = plain.view(torch.uint8).numpy() if plain.numel() else b""
        return (*look, hashlib.blake2b(data, digest_size=16).hexdigest())


class Before:
    """The initial values of a state, to see whether a part of it has changed since."""

    def __init__(self, root: Names) -> None:
        self._looks: dict[object, list[object]] = {}
        self._alive: list[object] = []
        waiting: list[tuple[Path, Any]] = [((), root)]
        count = 0
        while waiting:
            path, value = waiting.pop()
            key = _key(value, path)
            if is_immutable(value) or isinstance(value, CODE) or key in self._looks:
                continue
            inside = parts(value)
            self._alive.append(value)
            count += len(inside)
            if count > MOST_PARTS:
                raise UntriedError(f"its state has more than {MOST_PARTS:,} parts")
            self._looks[key] = _look(value, inside)
            waiting += [((*path, step), one) for step, one in inside]

    def was(self, holder: object, path: Path, name: str, value: object) -> bool:
        """Whether a value was an attribute of what holds it, by this name, and the same object."""
        return (Step("attribute", name), _token(value)) in self._looks.get(_key(holder, path), ())

    def changed(self, value: object, path: Path, known: Iterable[int] = ()) -> Path | None:
        """The path to the first part of a value that has changed, or None.

        Args:
            known: identities of objects that are skipped.
        """
        waiting, seen = [(path, value)], set(known)
        while waiting:
            where, one = waiting.pop()
            if is_immutable(one) or isinstance(one, CODE) or id(one) in seen:
                continue
            seen.add(id(one))
            inside = parts(one)
            before, now = self._looks.get(_key(one, where)), _look(one, inside)
            if before != now:
                return where + _first_other(before, now, inside)
            waiting += [((*where, step), part) for step, part in inside]
        return None


def _key(value: object, path: Path) -> object:
    """What identifies a value; ``Names`` are made each time, and identified by their path."""
    return path if isinstance(value, Names) else id(value)


def _first_other(before: list[object] | None, now: list[object], inside: list[tuple[Step, Any]]) -> Path:
    """The step to the first part that differs; no step if none of the parts does."""
    for number, (step, _) in enumerate(inside):
        if before is not None and now[number + 1] not in before:
            return (step,)
    return ()


def _look(value: Any, inside: list[tuple[Step, Any]]) -> list[object]:
    """A value without the contents of its parts: which these are, and what kind it is."""
    kind = digest(value) if isinstance(value, torch.Tensor) else type(value)
    return [kind, *((step, _token(one)) for step, one in inside)]


def _token(value: object) -> object:
    if isinstance(value, Names):
        return Names
    return (type(value), repr(value)) if is_immutable(value) else id(value)
