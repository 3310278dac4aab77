"""The values before a call, read from the real objects, and those that other values override."""

from __future__ import annotations

from types import CellType, MemberDescriptorType
from typing import Any

import torch

from archive.effects.capture.graph.sites import contents_of
from archive.effects.capture.graph.variables import (
    DELETED,
)
from archive.effects.placeholders import ABSENT
from archive.effects.places import REGISTERED, base_of, items_of


class Snapshot:
    """Reads real objects without changing them.

    Attributes:
        alive: objects whose identities are keys. An identity is only unique for as long as its object lives.
    """

    def __init__(self) -> None:
        self.alive: list[object] = []
        self._names: dict[int, dict[str, object]] = {}
        self._contents: dict[int, Any] = {}
        self._registered: dict[tuple[int, str], list[str]] = {}

    def copy(self) -> Snapshot:
        """A snapshot of the same values, which may change independently."""
        copy = Snapshot()
        copy.alive = list(self.alive)
        copy._names = {number: dict(names) for number, names in self._names.items()}
        copy._contents = dict(self._contents)
        copy._registered = {key: list(names) for key, names in self._registered.items()}
        return copy

    def set_name(self, owner: object, name: str, value: object) -> None:
        """Override an attribute of an object, or a name of globals."""
        self.alive.append(owner)
        self._names.setdefault(id(owner), {})[name] = value

    def set_registered(self, owner: object, name: str, kind: str) -> None:
        """Note that a set attribute of a module is one of its parameters, buffers or modules."""
        self._registered.setdefault((id(owner), kind), []).append(name)

    def set_contents(self, owner: object, value: object) -> None:
        """Override the contents of a list, dict, cell or tensor."""
        self.alive.append(owner)
        self._contents[id(owner)] = value

    def attribute(self, owner: object, name: str) -> object:
        """An object's own attribute, not its class's; ``ABSENT`` if it has none."""
        changed = self._names.get(id(owner), {}).get(name, ABSENT)
        if changed is not ABSENT:
            return ABSENT if changed is DELETED else changed
        own = instance_dict(owner)
        if name in own:
            return own[name]
        if isinstance(owner, torch.nn.Module):
            for kind in REGISTERED:
                if name in own.get(kind, ()):
                    return own[kind][name]
        for cls in type(owner).__mro__:
            slot = cls.__dict__.get(name)
            if isinstance(slot, MemberDescriptorType):
                return getattr(owner, name, ABSENT)
        return ABSENT

    def class_attribute(self, cls: type, name: str) -> Any:
        """A class's own attribute, unbound; ``ABSENT`` if it has none."""
        changed = self._names.get(id(cls), {}).get(name, ABSENT)
        if changed is not ABSENT:
            return ABSENT if changed is DELETED else changed
        return cls.__dict__.get(name, ABSENT)

    def names(self, owner: object) -> list[str]:
        """The names of an object's own attributes."""
        changed = self._names.get(id(owner), {})
        registered = {name for kind in REGISTERED for name in self.registered(owner, kind)}
        names = dict.fromkeys([*instance_dict(owner), *changed])
        return [name for name in names if changed.get(name) is not DELETED and name not in registered]

    def registered(self, owner: object, kind: str) -> list[str]:
        """The names of a module's parameters, buffers or modules."""
        new = self._registered.get((id(owner), kind), ())
        names = dict.fromkeys([*instance_dict(owner).get(kind, ()), *new])
        changed = self._names.get(id(owner), {})
        return [name for name in names if changed.get(name) is not DELETED]

    def global_name(self, names: dict[str, object], name: str) -> object:
        """The value of a global; ``ABSENT`` if there is none."""
        changed = self._names.get(id(names), {}).get(name, ABSENT)
        return names.get(name, ABSENT) if changed is ABSENT else changed

    def contents(self, owner: Any) -> Any:
        """The contents of a container: a list, dict or set of its own."""
        base = base_of(type(owner))
        held = self._contents.get(id(owner), ABSENT)
        items = items_of(owner) if held is ABSENT else items_of(held)
        if issubclass(base, dict):
            return dict(items)
        return set(items) if base in (set, frozenset) else items

    def cell(self, cell: CellType) -> object:
        """The contents of a cell; ``ABSENT`` if it is empty."""
        if id(cell) in self._contents:
            return self._contents[id(cell)]
        return contents_of(cell)

    def tensor(self, tensor: Any) -> Any:
        """A tensor with the contents before the call: itself, or the one that overrides them."""
        return self._contents.get(id(tensor), tensor)

    def put(self) -> None:
        """Put the values into the real objects; only in a process where they may change."""
        owners = {id(owner): owner for owner in self.alive}
        for number, names in self._names.items():
            for name, value in names.items():
                self._put_name(owners[number], name, value)
        for number, value in self._contents.items():
            _put_contents(owners[number], value)

    def _put_name(self, owner: Any, name: str, value: object) -> None:
        if type(owner) is dict:  # globals
            owner.pop(name, None) if value is DELETED else owner.__setitem__(name, value)
            return
        own = instance_dict(owner)
        kinds = REGISTERED if isinstance(owner, torch.nn.Module) else ()
        kind = next((kind for kind in kinds if name in self.registered(owner, kind)), None)
        if isinstance(owner, type):
            type.__delattr__(owner, name) if value is DELETED else type.__setattr__(owner, name, value)
        elif kind is not None or any(name in own.get(kind, ()) for kind in kinds):
            held = own[kind or next(kind for kind in kinds if name in own.get(kind, ()))]
            held.pop(name, None) if value is DELETED else held.__setitem__(name, value)
        elif value is DELETED:
            object.__delattr__(owner, name)
        else:
            object.__setattr__(owner, name, value)


def _put_contents(owner: Any, value: Any) -> None:
    base: Any = base_of(type(owner))
    if isinstance(owner, torch.Tensor):
        with torch.no_grad():
            owner.copy_(value)
    elif isinstance(owner, CellType):
        owner.cell_contents = value
    elif issubclass(base, dict | set):
        base.clear(owner)
        base.update(owner, value)
    else:
        base.clear(owner)
        base.extend(owner, value)


def instance_dict(owner: object) -> dict[str, Any]:
    """An object's ``__dict__``, that of a class, too; empty if it has none."""
    try:
        own: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return own
