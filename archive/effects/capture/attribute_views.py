"""Views of an object's ``__dict__``, and what ``torch.nn.Module`` registers.

A view reads and sets attributes as the model's own code does, past properties. The table sets attributes with
``setattr``; so a view refuses to set one that ``setattr`` would set another way.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.hook_sets import (
    refuse_hook,
    register_forward_hook,
    register_forward_pre_hook,
)
from archive.effects.capture.module_hooks import call_module
from archive.effects.capture.proxy_bases import class_behind
from archive.effects.capture.snapshot import REGISTERED
from archive.effects.capture.variables import ABSENT, DELETED
from archive.formats.effects.model import Look, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.call import CapturedCall

STANDARD_SETTERS = (object.__setattr__, torch.nn.Module.__setattr__, SimpleNamespace.__setattr__)


class AttributeView(MutableMapping[str, Any]):
    """The proxy of an object's ``__dict__``, or of what a module registers.

    Args:
        call: the captured call.
        proxy: of the object.
        names: of the attributes before the call.
        kind: ``__dict__``, or the dict of a module, such as ``_buffers``, which is only read.
    """

    def __init__(self, call: CapturedCall, proxy: Any, names: list[str], kind: str) -> None:  # noqa: ANN401
        self._call, self._proxy, self._before, self._kind = call, proxy, names, kind
        self._variable = call.side_effects[proxy]

    def _names(self) -> list[str]:
        """The names that are there now."""
        effects = self._call.side_effects
        pending = effects.store_attr_mutations.get(self._variable, {})
        new = [
            name
            for name, value in pending.items()
            if self._kind == _kind_of(value, registered=(self._variable, name) in effects.registrations)
        ]
        return [one for one in dict.fromkeys([*self._before, *new]) if pending.get(one) is not DELETED]

    def __contains__(self, name: object) -> bool:
        text, source = str(name), self._variable.source
        if name in self._names():
            self._call.objects.load_own(self._proxy, text)  # guards what is there
            return True
        pending = self._call.side_effects.has_pending_mutation_of_attr(self._variable, text)
        if source is not None and not pending and text[:2] != "__":
            self._call.guards.note(Look.ATTRIBUTE, source, value=False, key=text)
        return False

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name not in self:
            raise KeyError(name)
        return self._call.objects.load_own(self._proxy, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _check(self, name: str, value: object = None) -> None:
        cls = class_behind(self._proxy)
        real = self._call.real.get(self._variable)
        if self._kind != "__dict__":
            self._call.refuse(f"what a module registers is changed past its methods: {self._kind}")
        raw = next((one.__dict__[name] for one in cls.__mro__ if name in one.__dict__), ABSENT)
        described = hasattr(type(raw), "__set__") and not isinstance(raw, MemberDescriptorType)
        registered = isinstance(real, torch.nn.Module) and (
            isinstance(value, torch.nn.Module | torch.nn.Parameter)
            or any(name in self._call.snapshot.registered(real, kind) for kind in REGISTERED)
        )
        if described or registered or cls.__setattr__ not in STANDARD_SETTERS:
            self._call.refuse(f"__dict__[{name!r}] is set, which is not what setattr would set")

    def __setitem__(self, name: str, value: object) -> None:
        self._check(name, value)
        self._call.store(self._variable, name, value)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        if name not in self:
            raise KeyError(name)
        self._call.store(self._variable, name, DELETED)


def _kind_of(value: object, *, registered: bool) -> str:
    """The dict that an attribute of this value is in."""
    if isinstance(value, torch.nn.Module):
        return "_modules"
    return "_buffers" if registered else "__dict__"


def register_buffer(
    call: CapturedCall,
    proxy: Any,  # noqa: ANN401
    name: str,
    tensor: Any,  # noqa: ANN401
    persistent: bool = True,  # noqa: FBT001, FBT002 (PyTorch's signature)
) -> None:
    """Register a buffer as ``torch.nn.Module.register_buffer`` does.

    Raises:
        TypeError: the value is no tensor.
        KeyError: the name is no name, or is taken.
    """
    _check_name(call, proxy, name, "_buffers")
    if tensor is not None and not isinstance(tensor, torch.Tensor):
        raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer {name!r}")
    if isinstance(tensor, torch.nn.Parameter):
        call.refuse("a parameter that is registered as a buffer")
    variable = call.side_effects[proxy]
    call.store(variable, name, tensor)
    op = Op.REGISTER_BUFFER if persistent else Op.REGISTER_TRANSIENT
    call.side_effects.registrations[variable, name] = op


def register_module(call: CapturedCall, proxy: Any, name: str, module: Any) -> None:  # noqa: ANN401
    """Register a module as ``torch.nn.Module.add_module`` does.

    Raises:
        TypeError: the value is no module.
        KeyError: the name is no name, or is taken.
    """
    _check_name(call, proxy, name, "_modules")
    if module is not None and not isinstance(module, torch.nn.Module):
        raise TypeError(f"{type(module).__name__} is not a Module subclass")
    call.store(call.side_effects[proxy], name, module)


def _check_name(call: CapturedCall, proxy: Any, name: Any, kind: str) -> None:  # noqa: ANN401
    if not isinstance(name, str) or not name or "." in name:
        raise KeyError(f"no name for {kind}: {name!r}")
    variable = call.side_effects[proxy]
    real = call.real[variable]
    if name in set(AttributeView(call, proxy, call.snapshot.registered(real, kind), kind)):
        return
    pending = call.side_effects.store_attr_mutations.get(variable, {}).get(name, ABSENT)
    own = call.snapshot.attribute(real, name) if pending is ABSENT else pending
    if not (own is ABSENT or own is DELETED) or hasattr(type(real), name):
        raise KeyError(f"attribute '{name}' already exists")


METHODS: dict[Any, Any] = {
    torch.nn.Module.__call__: call_module,
    torch.nn.Module.register_forward_hook: register_forward_hook,
    torch.nn.Module.register_forward_pre_hook: register_forward_pre_hook,
    torch.nn.Module.register_full_backward_hook: refuse_hook,
    torch.nn.Module.register_full_backward_pre_hook: refuse_hook,
    torch.nn.Module.register_backward_hook: refuse_hook,
    torch.nn.Module.register_buffer: register_buffer,
    torch.nn.Module.add_module: register_module,
    torch.nn.Module.register_module: register_module,
}
"""Methods of modules as this package does them."""
