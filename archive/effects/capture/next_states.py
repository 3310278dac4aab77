"""States that later calls may find: the one after a captured call, and those where it takes another branch.

The real objects stay unchanged. A call takes another branch when a counter is at its threshold, say, or a
list is full.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.following.autograd import HookHandle, LaterHandle
from archive.effects.capture.graph.guards import copied
from archive.effects.capture.graph.scalars import ShapeProxy, is_scalar, value_of
from archive.effects.capture.graph.sites import contents_of
from archive.effects.capture.graph.variables import (
    DELETED,
    WITH_CONTENTS,
    MadeList,
    VariableKind,
    inner_of,
    is_container_proxy,
    key_of,
    real_class,
)
from archive.effects.capture.proxies.containers import ContainerType, contents
from archive.effects.capture.proxies.type_proxies import NumberType, ObjectType
from archive.effects.looking import operation
from archive.effects.placeholders import ABSENT
from archive.effects.places import base_of, is_container
from archive.formats.effects.model import (
    At,
    Attribute,
    Computed,
    Constant,
    GlobalName,
    Item,
    Length,
    Look,
    Output,
)
from archive.formats.effects.parts import is_under_argument, parts_of, reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.effects.capture.attempt import Attempt
    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.call import CapturedCall
    from archive.effects.capture.table.snapshot import Snapshot
    from archive.formats.effects.model import Source, Value


# --- other arms

Decision = tuple[Computed, bool]
NEAR = 64
"""How many numbers after the present one are tried one by one."""
LARGEST_EXPONENT = 40
LONGEST_LIST = 4096
"""Length of the longest list built to take another branch."""


def decisions_of(attempt: Attempt) -> list[Decision]:
    """The conditions on state that decided a call's branches, in order."""
    return [
        (guard.subject, guard.value.value)
        for guard in attempt.flat.effects.guards
        if guard.look is Look.EQUAL and isinstance(guard.subject, Computed)
        if isinstance(guard.value, Constant) and isinstance(guard.value.value, bool)
    ]


def decides_by_results(attempt: Attempt) -> bool:
    """Whether a call's branches depend on what its graph computes: on the size of a result."""
    guards = attempt.flat.effects.guards
    return any(guard.look is Look.EQUAL and isinstance(guard.subject, Output) for guard in guards)


def state_for_other(attempt: Attempt, number: int) -> Snapshot | None:
    """A state in which a call takes the other branch at a decision, and the same ones before.

    Returns:
        The state of the call with another number or length at one place; None if no such state is found.
    """
    decisions = decisions_of(attempt)[: number + 1]
    values = {
        given.source: attempt.call.snapshot.tensor(given.original)
        if isinstance(given.original, torch.Tensor)
        else given.original
        for given in attempt.call.builder.inputs
    }
    subject, wanted = decisions[-1][0], not decisions[-1][1]
    parts = parts_of([decided for decided, _ in decisions])
    constants = [part.value for part in parts if isinstance(part, Constant)]
    for source in dict.fromkeys(reads(subject)):
        if is_under_argument(source) or type(values.get(source)) not in (int, float):
            continue
        for candidate in _candidates(values[source], constants):
            tried = values | {source: candidate}
            before = all(_is(decided, tried, value) for decided, value in decisions[:-1])
            if before and _is(subject, tried, wanted):
                snapshot = _with_number(attempt.call, source, candidate)
                if snapshot is not None:
                    return snapshot
    return None


def _candidates(now: float, constants: Iterable[Any]) -> Iterator[Any]:
    """Numbers to try: the next ones, then those near constants, then larger and larger steps."""
    kind = type(now)
    yield from (now + step for step in range(1, NEAR + 1))
    for constant in constants:
        yield from (kind(constant + step) for step in (-1, 0, 1))
    for exponent in range(LARGEST_EXPONENT):
        yield now + 2**exponent
        yield now - 2**exponent
    if kind is float:
        yield from (now / 2**exponent for exponent in range(1, LARGEST_EXPONENT))


def _is(subject: Computed, values: dict[Source, Any], wanted: bool) -> bool:  # noqa: FBT001
    try:
        return _evaluated(subject, values) is wanted
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False


def _evaluated(value: Value, values: dict[Source, Any]) -> Any:
    if isinstance(value, Computed):
        return operation(value.op)(*(_evaluated(item, values) for item in value.items))
    if isinstance(value, At):
        return values[value.source]
    assert isinstance(value, Constant)  # noqa: S101 (the other operands of computed numbers)
    return value.value


def _with_number(call: CapturedCall, source: Source, value: Any) -> Snapshot | None:
    """The state before a call with another number at a source; None if it cannot be made."""
    snapshot, owner = call.snapshot.copy(), None
    if isinstance(source, GlobalName):
        owner = call.functions.names(source.module)
    elif isinstance(source, Attribute | Item | Length):
        owner = call.originals.get(source.base)
    if isinstance(source, Attribute | GlobalName) and owner is not None:
        snapshot.set_name(owner, source.name, value)
        return snapshot
    contents = snapshot.contents(owner) if is_container(owner) else None
    if isinstance(source, Item) and contents is not None:
        contents[key_of(source.key)] = value
    elif not isinstance(source, Length) or not _resize(contents, value):
        return None
    snapshot.set_contents(owner, contents)
    return snapshot


def _resize(contents: Any, length: int) -> bool:
    """Give a list another length, by copies of its last item; False if that is impossible."""
    if type(contents) is not list or not 0 <= length <= LONGEST_LIST or (length and not contents):
        return False
    del contents[length:]
    for _ in range(length - len(contents)):
        last = contents[-1]
        contents.append(copied(last) if isinstance(last, torch.Tensor) else last)
    return True


# --- next snapshot


def snapshot_after(call: CapturedCall) -> Snapshot:
    """The values after a call."""
    return _After(call).snapshot()


class _After:
    """Replaces proxies with real values."""

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
                    owner = self._call.real[variable]
                    self._snapshot.set_name(owner, name, self._real(value))
                    if (variable, name) in effects.registrations:
                        self._snapshot.set_registered(owner, name, "_buffers")
                    elif isinstance(self._snapshot.attribute(owner, name), torch.nn.Module):
                        self._snapshot.set_registered(owner, name, "_modules")
        for variable, proxy in list(self._call.proxies.items()):
            if variable.kind in WITH_CONTENTS and effects.is_modified(variable):
                self._snapshot.set_contents(self._call.real[variable], self._inside(contents(proxy)))
        for given in self._call.builder.changed():
            changed = given.proxy if given.proxy.is_leaf else given.proxy.detach()
            self._snapshot.set_contents(given.original, copied(changed))
        for names, name, value in self._call.functions.stored_globals():
            self._snapshot.set_name(names, name, self._real(value))
        for cell, fresh in self._call.functions.stored_cells():
            value = contents_of(fresh)
            if value is not ABSENT:
                self._snapshot.set_contents(cell, self._real(value))
        return self._snapshot

    def _real(self, value: Any) -> Any:
        if value is DELETED:
            return value
        if type(value) in (ObjectType, NumberType, ContainerType):
            return object if type(value) is ObjectType else value._kind
        if is_scalar(value):
            return value_of(value)
        if isinstance(value, torch.Tensor):
            given = self._call.builder.input_of(value)
            return value if given is None else given.original
        if isinstance(value, MethodType):
            return MethodType(self._real(value.__func__), self._real(value.__self__))
        variable = self._call.side_effects.variable_of(value)
        if variable is not None:
            return self._of_variable(variable, value)
        return self._inside(value)

    def _of_variable(self, variable: Variable, proxy: Any) -> Any:
        call = self._call
        if not variable.is_new:
            return call.real.get(variable, proxy)
        if isinstance(proxy, HookHandle):
            return self._noted(proxy, LaterHandle())
        if id(proxy) not in self._made:
            made = self._object(proxy)
            for name, value in call.side_effects.store_attr_mutations.get(variable, {}).items():
                self._snapshot.set_name(made, name, self._real(value))
        return self._made[id(proxy)]

    def _object(self, proxy: Any) -> Any:
        """A real object in place of one that the call created."""
        cls = real_class(proxy)
        if not is_container_proxy(proxy):
            return self._noted(proxy, object.__new__(cls))
        inner, base = inner_of(proxy), base_of(cls)
        made = base.__new__(cls)
        if base is deque:
            deque.__init__(made, maxlen=inner.maxlen)
        self._snapshot.set_contents(self._noted(proxy, made), self._inside(inner))
        return made

    def _inside(self, value: Any) -> Any:
        """A list, tuple or dict with real items; other values as they are."""
        if isinstance(value, tuple):
            items = list(map(self._real, value))
            if type(value) is ShapeProxy:
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
            made.update({key: self._real(item) for key, item in value.items()})
            return made
        return value

    def _noted(self, value: object, made: Any) -> Any:
        """Note the copy of a list or dict before it is filled, as it may contain itself; or of a handle."""
        if id(value) not in self._made:
            self._made[id(value)] = made
            self._snapshot.alive.append(value)
        return self._made[id(value)]
