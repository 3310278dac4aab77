"""Proxies of sets: an element is known once the model asks for it; the order of several is refused."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import torch

from archive.effects.capture.set_order import ORDER
from archive.effects.capture.sources import is_literal
from archive.effects.capture.variables import ABSENT
from archive.formats.effects.model import Look, Op

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.effects.capture.call import CapturedCall
    from archive.formats.effects.model import Source

CODE = (type, FunctionType)
"""Types of elements that are part of the model's code."""
READING = (
    "__and__", "__rand__", "__or__", "__ror__", "__sub__", "__rsub__", "__xor__", "__rxor__",
    "__eq__", "__ne__", "__le__", "__lt__", "__ge__", "__gt__",
    "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
)  # fmt: skip
"""Methods that read all elements, and change none."""
UPDATES = {
    "__ior__": "union",
    "__iand__": "intersection",
    "__isub__": "difference",
    "__ixor__": "symmetric_difference",
    "intersection_update": "intersection",
    "symmetric_difference_update": "symmetric_difference",
}
"""Methods that change a set to what another method gives."""


class TrackedSet:
    """The proxy of a set or frozenset of constants. It derives from neither, so that C code asks its methods.

    Args:
        call: the captured call.
        source: where the set lives.
        kind: ``set`` or ``frozenset``.

    Attributes:
        is_code: whether some elements are classes or functions.
    """

    def __init__(self, call: CapturedCall, source: Source, kind: type) -> None:
        self._call, self._source, self._kind = call, source, kind
        self._old: set[Any] = set()
        self._now: dict[Any, bool] = {}
        self._is_old = True
        self.is_code = False

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # noqa: ANN401
        """The set's class, so that ``isinstance`` sees it."""
        return self._kind

    def fill(self, values: Iterable[object]) -> None:
        """Give it the elements that it has before the call."""
        self._old = set(values)
        self.is_code = any(isinstance(one, CODE) for one in self._old)
        if not all(is_literal(one) or isinstance(one, CODE) for one in self._old):
            self._call.refuse("a set whose elements are no constants")

    @staticmethod
    def intact() -> bool:
        """Whether all changes went through its methods: there is no other way."""
        return True

    def contents(self) -> set[Any]:
        """Its elements after the captured call."""
        old = {one for one in self._old if self._now.get(one, True)} if self._is_old else set()
        return old | {one for one, there in self._now.items() if there}

    # --- reading -----------------------------------------------------------------------------------

    def _was(self, element: Any) -> bool:  # noqa: ANN401
        """Whether an element was there before the call, guarded; classes and functions are no state."""
        if self.is_code:
            original = self._call.functions.original(element)
            return (self._call.objects.real_of(element) if original is None else original) in self._old
        if not is_literal(element):
            return False
        found = element in self._old
        self._call.guards.note(Look.HAS, self._source, found, element)
        return found

    def _refuse_code(self) -> None:
        """Refuse all but membership in a set of classes or functions, such as a registry."""
        if self.is_code:
            self._call.refuse("a set whose elements are no constants")

    def __contains__(self, element: object) -> bool:
        if self.is_code:
            return self._was(element)
        element = self._call.constant_key(element)
        if element in self._now:
            return self._now[element]
        return self._is_old and self._was(element)

    def length(self) -> Any:  # noqa: ANN401
        """The number of elements: a number of the graph where calls change it."""
        self._refuse_code()
        now = sum(self._now.values())
        if not self._is_old:
            return now
        call = self._call
        changed = now - sum(map(self._was, self._now))
        if self._source not in call.resized:
            call.guards.note(Look.LENGTH, self._source, len(self._old))
            return len(self._old) + changed
        if not call.deciding:
            call.refuse("len() of a set whose elements differ from call to call")
        old = call.length_of(self._source, len(self._old))
        return old + changed if changed else old

    def whole(self) -> set[Any]:
        """All elements, guarded."""
        self._refuse_code()
        if self._is_old:
            if self._source in self._call.resized and not self._call.deciding:
                self._call.refuse("iteration of a set whose elements differ from call to call")
            self._call.guards.note(Look.LENGTH, self._source, len(self._old))
            for one in sorted(self._old, key=repr):
                self._was(one)
        return self.contents()

    def __len__(self) -> int:
        return int(self.length())

    def __bool__(self) -> bool:
        return bool(self.length())

    def __iter__(self) -> Iterator[Any]:
        found = self.whole()
        if len(found) > 1:
            self._call.refuse(ORDER)
        return iter(found)

    def __hash__(self) -> int:
        if self._kind is set:
            raise TypeError("unhashable type: 'set'")
        return hash(frozenset(self.whole()))

    def __repr__(self) -> str:
        found = self.whole()
        if len(found) > 1:
            self._call.refuse(ORDER)
        return repr(self._kind(found))

    def copy(self) -> Any:  # noqa: ANN401
        return self._kind(self.whole())

    def __reduce_ex__(self, _: object) -> Any:  # noqa: ANN401
        return self._kind, (self.whole(),)

    def __deepcopy__(self, _: object) -> Any:  # noqa: ANN401
        return self.copy()

    __copy__ = copy

    # --- changes -----------------------------------------------------------------------------------

    def _check(self, name: str) -> None:
        if self._kind is frozenset:
            raise AttributeError(f"'frozenset' object has no attribute {name!r}")

    def add(self, element: object) -> None:
        self._check("add")
        self._note(Op.ADD, element, there=True)

    def discard(self, element: object) -> None:
        self._check("discard")
        self._note(Op.DISCARD, element, there=False)

    def _note(self, op: Op, element: Any, *, there: bool) -> None:  # noqa: ANN401
        self._refuse_code()
        if not isinstance(element, torch.Tensor):
            element = self._call.constant_key(element)
        if not is_literal(element):
            self._call.refuse("an element of a set that is no constant")
        self._call.resized.add(self._source)
        self._now[element] = there
        self._call.mutate(self, op, ABSENT, element)

    def remove(self, element: object) -> None:
        self._check("remove")
        if element not in self:
            raise KeyError(element)
        self.discard(element)

    def pop(self) -> Any:  # noqa: ANN401
        self._check("pop")
        found = self.whole()
        if len(found) > 1:
            self._call.refuse(ORDER)
        if not found:
            raise KeyError("pop from an empty set")
        (element,) = found
        self.discard(element)
        return element

    def clear(self) -> None:
        self._check("clear")
        self._refuse_code()
        self._call.resized.add(self._source)
        self._is_old, self._now = False, {}
        self._call.mutate(self, Op.CLEAR)

    def update(self, *others: Iterable[Any]) -> None:
        self._check("update")
        for other in others:
            for one in elements(other):
                self.add(one)

    def difference_update(self, *others: Iterable[Any]) -> None:
        self._check("difference_update")
        for other in others:
            for one in elements(other):
                self.discard(one)

    def _become(self, wanted: set[Any]) -> Self:
        """Change to other elements."""
        found = self.whole()
        for one in sorted(found - wanted, key=repr):
            self.discard(one)
        for one in sorted(wanted - found, key=repr):
            self.add(one)
        return self


def elements(values: Any) -> list[Any]:  # noqa: ANN401
    """The elements of an iterable; those of sets in an order that is the same in each process."""
    if type(values) is TrackedSet:
        values = values.whole()
    return sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)


def _plain(value: Any) -> Any:  # noqa: ANN401
    return value.whole() if type(value) is TrackedSet else value


def _reading(name: str) -> None:
    def method(self: TrackedSet, *others: Any) -> Any:  # noqa: ANN401
        own = self._kind(self.whole())
        return getattr(own, name)(*map(_plain, others))

    setattr(TrackedSet, name, method)


def _updating(name: str, reading: str) -> None:
    def method(self: TrackedSet, *others: Any) -> Any:  # noqa: ANN401
        if self._kind is frozenset:
            return NotImplemented if name[:2] == "__" else self._check(name)
        changed = self._become(getattr(self.whole(), reading)(*map(_plain, others)))
        return changed if name[:2] == "__" else None

    setattr(TrackedSet, name, method)


for _name in READING:
    _reading(_name)
for _name, _read in UPDATES.items():
    _updating(_name, _read)
