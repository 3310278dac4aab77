"""Compares the eager module's results and state with those of the captured form, call by call."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from archive.effects.capture.graph.guards import same_elements
from archive.effects.looking import WITHOUT_MODES, same_literal
from archive.effects.places import base_of
from archive.effects.trial.parts import (
    CODE,
    HOLDERS,
    ClassNames,
    Names,
    Path,
    Step,
    attributes,
    digest,
    is_immutable,
    items,
    path_text,
)

if TYPE_CHECKING:
    from archive.effects.trial.parts import Before

UNSEEN = "has changed, and no effect was captured that changes it"
MOST_SHOWN = 60
"""Most letters of a value in a message."""


class DifferentError(Exception):
    """Something differs.

    Attributes:
        line: of the model; ``("", 0)`` if it must still be found.
    """

    def __init__(self, path: Path, said: str, line: tuple[str, int] = ("", 0)) -> None:
        super().__init__(f"{path_text(path)} {said}".strip())
        self.path, self.line = path, line


class Comparing:
    """Compares values of the eager module with those of the captured form.

    What is one object on one side is one object on the other, in all calls. The captured form may lack what
    no call changes; see ``check_missing``.
    """

    def __init__(self, before: Before) -> None:
        self._before = before
        self._pairs: dict[int, Any] = {}
        self._back: dict[int, Any] = {}
        self._alive: list[Any] = []
        self._done: set[int] = set()
        self._missing: dict[Path, tuple[Any, Any]] = {}

    def same(self, ours: Any, theirs: Any, path: Path) -> None:
        """Compare two values, and everything in them."""
        self._done = set()
        self._same(ours, theirs, path)

    def counterpart(self, ours: Any) -> Any:
        """The other side's object for one on this side; None if none is known."""
        return self._pairs.get(id(ours))

    def check_missing(self) -> None:
        """Make sure that nothing that the captured form lacks has changed."""
        for path, (holder, value) in self._missing.items():
            if not self._before.was(holder, path[:-1], path[-1].name, value):
                raise DifferentError(path, UNSEEN)
            changed = self._before.changed(value, path, self._pairs)
            if changed is not None:
                raise DifferentError(changed, UNSEEN)

    def _same(self, ours: Any, theirs: Any, path: Path) -> None:
        if is_immutable(ours):
            if type(theirs) is not type(ours) or not (
                theirs == ours if isinstance(ours, torch.Size) else _equal(ours, theirs)
            ):
                raise DifferentError(path, f"is {shown(theirs)}; in the module it is {shown(ours)}")
            return
        if isinstance(ours, CODE):
            return
        if not isinstance(ours, tuple | frozenset | Names):
            if self._pairs.setdefault(id(ours), theirs) is not theirs:
                raise DifferentError(path, "is another object than before; in the module it is the same one")
            if self._back.setdefault(id(theirs), ours) is not ours:
                raise DifferentError(path, "is an object that is somewhere else; in the module these are two")
            self._alive += [ours, theirs]
            if id(ours) in self._done:
                return
            self._done.add(id(ours))
        if isinstance(ours, RemovableHandle):
            if _is_on(ours) != _is_on(theirs):
                raise DifferentError(path, "is a hook that is on in one of both")
        elif isinstance(ours, torch.Tensor):
            self._tensors(ours, theirs, path)
        elif isinstance(ours, HOLDERS) and not isinstance(ours, Names):
            self._containers(ours, theirs, path)
        else:
            self._named(ours, theirs, path)

    def _tensors(self, ours: Any, theirs: Any, path: Path) -> None:
        if not isinstance(theirs, torch.Tensor):
            raise DifferentError(path, f"is {shown(theirs)}; in the module it is a tensor")
        with WITHOUT_MODES():
            look, other = digest(ours)[:-1], digest(theirs)[:-1]
            if look != other:
                raise DifferentError(path, f"is {shown(theirs)}; in the module it is {shown(ours)}")
            if not same_elements(ours, theirs):
                raise DifferentError(path, "has other elements than in the module")
            if theirs.is_inference() != ours.is_inference():
                raise DifferentError(path, "is a tensor of inference mode in one of both")

    def _containers(self, ours: Any, theirs: Any, path: Path) -> None:
        base = base_of(type(ours))
        own: Any = tuple if isinstance(ours, tuple) else base
        is_alike = isinstance(theirs, own) and type(theirs).__name__ == type(ours).__name__
        if not is_alike or getattr(theirs, "maxlen", None) != getattr(ours, "maxlen", None):
            raise DifferentError(path, f"is {shown(theirs)}; in the module it is {shown(ours)}")
        mine, its = items(ours), items(theirs)
        if len(mine) != len(its):
            raise DifferentError(path, f"has {len(its)} items; in the module it has {len(mine)}")
        for (step, one), (there, other) in zip(mine, its, strict=True):
            if step.kind == "key":
                self._same(_key(step.name), _key(there.name), (*path, Step("key", "…")))
            self._same(one, other, (*path, step))
        if type(ours) not in HOLDERS:
            self._named(ours, theirs, path)

    def _named(self, holder: Any, other: Any, path: Path) -> None:
        ours, theirs, cls = attributes(holder), attributes(other), type(holder)
        for name in theirs.keys() - ours.keys():
            if isinstance(holder, ClassNames) and hasattr(holder.cls, name):
                # What a call reads through a class is written there, even if it is inherited.
                where = (*path, Step("attribute", name))
                self._same(getattr(holder.cls, name), theirs[name], where)
                continue
            raw = inspect.getattr_static(cls, name, theirs)
            if not (is_immutable(raw) and is_immutable(theirs[name]) and _equal(raw, theirs[name])) and not (
                type(raw) is type(theirs[name]) and isinstance(raw, (*HOLDERS, torch.Tensor))
            ):
                where = (*path, Step("attribute", name))
                raise DifferentError(where, "is there; the module has nothing by this name")
        for name, one in ours.items():
            where = (*path, Step("attribute", name))
            if name in theirs:
                self._same(one, theirs[name], where)
            elif not isinstance(one, CODE):
                self._missing[where] = holder, one


def _key(key: object) -> object:
    """The key of a dict; sizes are equal to tuples, which a table has."""
    return tuple(map(_key, key)) if type(key) in (tuple, torch.Size) else key  # type: ignore[call-overload]


def _equal(one: object, other: object) -> bool:
    """Whether two values that never change are the same; nan is itself, and -0.0 isn't 0.0."""
    return same_literal(one, other) if isinstance(one, float) else repr(one) == repr(other)


def _is_on(handle: Any) -> bool:
    """Whether a hook has not been removed, and its tensor is alive."""
    return isinstance(handle, RemovableHandle) and handle.id in (handle.hooks_dict_ref() or ())


def shown(value: Any) -> str:
    """A value in a message."""
    if isinstance(value, torch.Tensor):
        look = ", ".join(map(str, (tuple(value.shape), value.dtype)))
        return f"a tensor of {look}{' with gradient' if value.requires_grad else ''}"
    text = repr(value) if is_immutable(value) else f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
