"""The snapshot that the next call would find, after a captured one; the real objects stay as they are."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.autograd import HookHandle, LaterHandle
from archive.effects.capture.container_types import ContainerType
from archive.effects.capture.containers import contents
from archive.effects.capture.function_code import contents_of
from archive.effects.capture.inputs import copied
from archive.effects.capture.made_list import MadeList
from archive.effects.capture.proxy_bases import class_behind, inner_of, is_container_proxy
from archive.effects.capture.scalars import is_scalar, value_of
from archive.effects.capture.shape import Shape
from archive.effects.capture.type_proxies import NumberType, ObjectType
from archive.effects.capture.variables import ABSENT, DELETED, VALUES, MutationType, VariableKind
from archive.effects.python_containers import base_of

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.snapshot import Snapshot
    from archive.effects.capture.variables import Variable


def snapshot_after(call: CapturedCall) -> Snapshot:
    """The values after a call."""
    return _After(call).snapshot()


class _After:
    """Puts real values in the place of proxies."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._snapshot = call.snapshot.copy()
        self._made: dict[int, Any] = {}

    def snapshot(self) -> Snapshot:
        """The values after the call."""
        effects = self._call.side_effects
        for variable, pending in list(effects.store_attr_mutations.items()):
            if variable in self._call.real and variable.kind is VariableKind.OBJECT:
                for name, value in pending.items():
                    self._snapshot.set_name(self._call.real[variable], name, self._real(value))
                    self._register(variable, name)
        for variable, proxy in list(self._call.proxies.items()):
            if variable.kind in VALUES and effects.is_modified(variable):
                self._snapshot.set_contents(self._call.real[variable], self._inside(contents(proxy)))
        for one in self._call.builder.changed():
            changed = one.proxy if one.proxy.is_leaf else one.proxy.detach()
            self._snapshot.set_contents(one.original, copied(changed))
        self._functions()
        return self._snapshot

    def _register(self, variable: Variable, name: str) -> None:
        """Note an attribute that has become a buffer or a part of a module."""
        effects, owner = self._call.side_effects, self._call.real[variable]
        if (variable, name) in effects.registrations:
            self._snapshot.set_registered(owner, name, "_buffers")
        elif isinstance(self._snapshot.attribute(owner, name), torch.nn.Module):
            self._snapshot.set_registered(owner, name, "_modules")

    def _functions(self) -> None:
        """Take over the globals and cells of copied functions."""
        for names, name, value in self._call.functions.stored_globals():
            self._snapshot.set_name(names, name, self._real(value))
        for cell, fresh in self._call.functions.cells():
            value = contents_of(fresh)
            if value is not ABSENT:
                self._snapshot.set_contents(cell, self._real(value))

    def _real(self, value: Any) -> Any:  # noqa: ANN401
        if value is DELETED:
            return value
        if type(value) in (ObjectType, NumberType, ContainerType):
            return object if type(value) is ObjectType else value._kind
        if is_scalar(value):
            return value_of(value)
        if isinstance(value, torch.Tensor):
            given = self._call.builder.input_of(value)
            return value if given is None else given.original
        variable = self._call.side_effects.variable_of(value)
        if variable is not None:
            return self._of_variable(variable, value)
        return self._inside(value)

    def _of_variable(self, variable: Variable, proxy: Any) -> Any:  # noqa: ANN401
        call = self._call
        if variable.mutation_type is not MutationType.ATTRIBUTE_NEW:
            return call.real.get(variable, proxy)
        if isinstance(proxy, HookHandle):
            return self._noted(proxy, LaterHandle())
        if id(proxy) not in self._made:
            made = self._object(proxy)
            for name, value in call.side_effects.store_attr_mutations.get(variable, {}).items():
                self._snapshot.set_name(made, name, self._real(value))
        return self._made[id(proxy)]

    def _object(self, proxy: Any) -> Any:  # noqa: ANN401
        """An object in the place of one that the call has made."""
        cls = class_behind(proxy)
        if not is_container_proxy(proxy):
            return self._noted(proxy, object.__new__(cls))
        inner, base = inner_of(proxy), base_of(cls)
        made = base.__new__(cls)
        if base is deque:
            deque.__init__(made, maxlen=inner.maxlen)
        self._snapshot.set_contents(self._noted(proxy, made), self._inside(inner))
        return made

    def _inside(self, value: Any) -> Any:  # noqa: ANN401 (one a kind)
        """A list, tuple or dict with real items; other values as they are."""
        if isinstance(value, tuple):
            items = list(map(self._real, value))
            if type(value) is Shape:
                return torch.Size(items)
            return tuple(items) if type(value) is tuple else tuple.__new__(type(value), items)
        if id(value) in self._made:
            return self._made[id(value)]
        if type(value) is list or isinstance(value, MadeList):
            made = self._noted(value, [])
            made.extend(map(self._real, value.contents() if isinstance(value, MadeList) else value))
            return made
        if type(value) is deque:
            made = self._noted(value, deque(maxlen=value.maxlen))
            made.extend(map(self._real, value))
            return made
        if type(value) in (dict, OrderedDict, defaultdict):
            factory = (self._real(value.default_factory),) if isinstance(value, defaultdict) else ()
            made = self._noted(value, type(value)(*factory))
            made.update({key: self._real(one) for key, one in value.items()})
            return made
        return value

    def _noted(self, value: object, made: Any) -> Any:  # noqa: ANN401
        """Note the copy of a list or dict before it is filled, since it may hold itself; or of a handle."""
        if id(value) not in self._made:
            self._made[id(value)] = made
            self._snapshot.alive.append(value)
        return self._made[id(value)]
