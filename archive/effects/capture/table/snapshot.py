"""The values before a call: the real ones, and above them those that an earlier call would have left."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.function_code import contents_of
from archive.effects.capture.graph.variables import ABSENT, DELETED
from archive.effects.places import base_of, items_of

if TYPE_CHECKING:
    from types import CellType


REGISTERED = ("_parameters", "_buffers", "_modules")


class Snapshot:
    """Reads real objects, and never changes them.

    Attributes:
        alive: objects whose identities are keys. An identity is only unique for as long as its object lives.
    """

    def __init__(self) -> None:
        self.alive: list[object] = []
        self._names: dict[int, dict[str, object]] = {}
        self._contents: dict[int, Any] = {}
        self._registered: dict[tuple[int, str], list[str]] = {}

    def copy(self) -> Snapshot:
        """A snapshot of the same values, to be changed on its own."""
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
        """Note that an attribute of a module, which is set, is one of its parameters, buffers or modules."""
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

    def class_attribute(self, cls: type, name: str) -> Any:  # noqa: ANN401
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

    def contents(self, owner: Any) -> Any:  # noqa: ANN401
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

    def tensor(self, tensor: Any) -> Any:  # noqa: ANN401 (a tensor)
        """A tensor with the contents before the call: itself, or the one that overrides them."""
        return self._contents.get(id(tensor), tensor)


def instance_dict(owner: object) -> dict[str, Any]:
    """An object's ``__dict__``; empty if it has none."""
    try:
        found: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found
