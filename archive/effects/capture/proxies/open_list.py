"""Proxies of lists whose length differs from call to call.

Such a list has items that the call put in front (the head), old items of unknown number, and items that the
call put at the end (the tail). An old item is known by its distance from the front or the back, whichever the
model uses. Where several entries are captured, the length is a number of the graph; what needs all items gets
them, with a guard on their number.

Deques are such lists with two ends and a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from archive.effects.capture.proxies.open_part import (
    UNKNOWN_LENGTH,
    OpenPart,
    Rest,
    is_plain_part,
    pieces_of,
)
from archive.effects.placeholders import ABSENT
from archive.formats.effects.model import Attribute, Look, Op

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- open list

UNKNOWN_ITEM = "which item that is depends on the length of a list, which differs from call to call"


class OpenList(list[Any]):
    """The proxy of a list. The list that it derives from stays empty.

    Args:
        is_open: whether its length differs from call to call; otherwise whatever needs the length guards it.
    """

    def __new__(cls, *args: Any, **_: object) -> Any:
        """Return a plain list to code that makes another list of this one's class: ``type(items)(…)``."""
        return super().__new__(cls) if len(args) > 1 else list(*args)

    def __init__(self, call: CapturedCall, source: Source, *, is_open: bool) -> None:
        super().__init__()
        self._call = call
        self._source = source
        self._differs = is_open
        self._old: list[object] = []
        self._is_old = True
        self._middle: OpenPart | None = None
        self._head: list[Any] = []
        self._tail: list[Any] = []
        self._removed = [0, 0]
        self._set: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        self._seen: dict[int, Any] = {}

    def fill(self, values: Iterable[object]) -> None:
        """Give it its old items, as they are in the captured call."""
        self._old = list(values)

    def intact(self) -> bool:
        """Whether all changes went through its methods."""
        return list.__len__(self) == 0

    def contents(self) -> list[Any]:
        """Its items after the captured call."""
        middle: list[Any] = []
        if self._is_old:
            front, back = self._removed
            places = range(front, len(self._old) - back)
            middle = [
                self._set[0].get(place, self._set[1].get(len(self._old) - 1 - place, self._old[place]))
                for place in places
            ]
        elif self._middle is not None:
            middle = self._middle.contents()
        return [*self._head, *middle, *self._tail]

    def _note(self, op: Op, key: object = ABSENT, value: object = ABSENT) -> None:
        """Note a change; the next attempt knows that calls change the length."""
        if not self._differs and op is not Op.SET_ITEM:
            self._call.seen.resized.add(self._source)
        self._call.mutate(self, op, key, value)

    @property
    def _is_open(self) -> bool:
        """Whether there are items of unknown number between the head and the tail."""
        return self._is_old or self._middle is not None

    # --- single items ------------------------------------------------------------------------------

    def _find(self, index: Any) -> tuple[list[Any] | dict[int, Any], int, int]:
        """The place of an item.

        Returns:
            The head or tail, the index there and 0; for an old item the dict of old items that were set, the
            distance from an end, and that end: 0 for the front, 1 for the back.
        """
        index = index.__index__()
        if not self._differs and index < 0:
            self._fix()
        if self._middle is not None and not -len(self._tail) <= index < len(self._head):
            self._fix(UNKNOWN_ITEM)
        if not self._is_old:
            known = [*self._head, *self._tail]
            if not -len(known) <= index < len(known):
                raise IndexError("list index out of range")
            index %= len(known)
            if index < len(self._head):
                return self._head, index, 0
            return self._tail, index - len(self._head), 0
        end = 0 if index >= 0 else 1
        near = self._head if end == 0 else self._tail
        distance = index if end == 0 else -index - 1
        if distance < len(near):
            return near, distance if end == 0 else len(near) - 1 - distance, 0
        distance += self._removed[end] - len(near)
        if distance >= len(self._old) - self._removed[1 - end]:
            self._fix(UNKNOWN_ITEM)
            return self._find(index)
        return self._set[end], distance, end

    def _read(self, where: list[Any] | dict[int, Any], place: int, end: int) -> Any:
        if isinstance(where, list):
            return where[place]
        if place not in where:
            if self._set[1 - end]:
                self._call.refuse(UNKNOWN_ITEM)
            index = place if end == 0 else -1 - place
            read = self._call.wrap_item(self._old[index], self._source, index)
            return self._seen.setdefault(index % len(self._old), read)
        return where[place]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            items = self.as_part()
            return items[index]
        return self._read(*self._find(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            if index != slice(None) and index != slice(0, None):
                self._fix("a part of a list whose length differs from call to call")
                items = [*self._head, *self._tail]
                items[index] = list(value)
                value = items
            self._put(pieces_of(value))
            return
        where, place, _ = self._find(index)
        where[place] = value
        self._note(Op.SET_ITEM, index, value)

    def _put(self, values: list[Any] | OpenPart) -> None:
        """Replace all items."""
        self.clear()
        if isinstance(values, OpenPart):
            self._middle = values
            self._note(Op.EXTEND, ABSENT, values.copy())
        else:
            self.extend(values)

    # --- changes of length -------------------------------------------------------------------------

    def append(self, value: object) -> None:
        self._tail.append(value)
        self._note(Op.APPEND, ABSENT, value)

    def extend(self, values: Iterable[object]) -> None:
        new = list(values)
        self._tail += new
        self._note(Op.EXTEND, ABSENT, new)

    def __iadd__(self, values: Iterable[object]) -> Self:  # type: ignore[misc]
        self.extend(values)
        return self

    def insert(self, index: Any, value: object) -> None:
        index = index.__index__()
        if self._is_open and (index > len(self._head) or -index > len(self._tail)):
            self._fix(UNKNOWN_ITEM)
        if self._is_open and index < 0:
            self._tail.insert(index, value)
        elif self._is_open:
            self._head.insert(index, value)
        else:
            self._tail, self._head = [*self._head, *self._tail], []
            self._tail.insert(index, value)
        self._note(Op.INSERT, index, value)

    def pop(self, index: Any = -1) -> Any:
        where, place, end = self._found(index)
        value = self._read(where, place, end)
        self._take(where, place, end)
        self._note(Op.POP, index)
        return value

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            if index in (slice(None), slice(0, None)):
                self.clear()
            elif is_plain_part(index) and (index.start is None or index.stop is None):
                # What follows the end of the slice stays, or what precedes its start.
                self._put(self[index.stop :] if index.start is None else self[: index.start])
            else:
                self[index] = []
            return
        self._take(*self._found(index))
        self._note(Op.DELETE_ITEM, index)

    def _found(self, index: Any) -> tuple[list[Any] | dict[int, Any], int, int]:
        """The place of an item that can be removed: at an end, or among items that are all known."""
        where, place, end = self._find(index)
        if isinstance(where, dict) and (place != self._removed[end] or self._set[1 - end]):
            self._fix("an item that is taken out of the middle of a list")
            return self._find(index)
        return where, place, end

    def _take(self, where: list[Any] | dict[int, Any], place: int, end: int) -> None:
        if isinstance(where, list):
            del where[place]
            return
        where.pop(place, None)
        self._removed[end] += 1

    def clear(self) -> None:
        self._is_old, self._middle = False, None
        self._head, self._tail = [], []
        self._note(Op.CLEAR)

    # --- everything that needs the length ----------------------------------------------------------

    def _fix(self, message: str = "") -> None:
        """Make all items known, with a guard on the number of old ones; ``message`` says why they must be."""
        if self._middle is not None:
            self._head, self._middle = [*self._head, *self._middle], None
            return
        if not self._is_old:
            return
        self._call.guards.items(self._old, self._source, message if self._differs else "")
        front, back = self._removed
        for place in range(front, len(self._old) - back):
            from_back = len(self._old) - 1 - place
            if place in self._set[0] or from_back in self._set[1]:
                self._head.append(self._set[0].get(place, self._set[1].get(from_back)))
            elif place in self._seen:
                self._head.append(self._seen[place])
            else:
                self._head.append(self._call.wrap_item(self._old[place], self._source, place))
        self._is_old = False

    def length(self) -> Any:
        """The number of items: a number of the graph where old ones are among them."""
        new = len(self._head) + len(self._tail)
        if self._middle is not None:
            old = self._middle.length()
            return old + new if new else old
        if not self._is_old:
            return new
        if not self._differs:
            self._call.guards.items(self._old, self._source)
            return new + len(self._old) - sum(self._removed)
        old = self._call.length_of(self._source, len(self._old))
        more = new - sum(self._removed)
        return old + more if more else old

    def _whole(self) -> list[Any]:
        if self._is_open:
            self._fix(UNKNOWN_LENGTH)
        return [*self._head, *self._tail]

    def __bool__(self) -> bool:
        return bool(self._head or self._tail or self.length())

    __hash__ = None

    def as_part(self) -> list[Any]:
        """The same items as a new list."""
        if not self._differs:
            self._fix()
        if self._is_old and (self._set[0] or self._set[1]):
            self._fix(UNKNOWN_LENGTH)
        if self._middle is not None:
            return OpenPart(self._call, [self._head[:], self._middle.copy(), self._tail[:]])
        if not self._is_old:
            return [*self._head, *self._tail]
        rest = Rest(self._call, self._source, self._old, (self._removed[0], self._removed[1]), self._seen)
        return OpenPart(self._call, [self._head[:], rest, self._tail[:]])

    def __add__(self, other: Any) -> Any:
        return self.as_part() + pieces_of(other)

    def __radd__(self, other: Any) -> Any:
        return pieces_of(other) + self.as_part()

    def copy(self) -> list[Any]:
        return self.as_part()

    def __reduce_ex__(self, _: object) -> Any:
        return list, (self._whole(),)

    def remove(self, value: object) -> None:
        del self[self._whole().index(value)]

    def reverse(self) -> None:
        self._put_in_order(self._whole()[::-1])

    def sort(self, **how: Any) -> None:
        self._put_in_order(sorted(self._whole(), **how))

    def _put_in_order(self, values: list[Any]) -> None:
        if self._differs:
            self[:] = values
            return
        for index, value in enumerate(values):
            self[index] = value

    def __imul__(self, count: Any) -> Self:  # type: ignore[misc]
        self[:] = self._whole() * count
        return self


def _needing(name: str) -> None:
    """Add a method of lists that needs all items."""
    function = getattr(list, name)
    setattr(OpenList, name, lambda self, *args: function(self._whole(), *args))


for _name in ("__len__", "__iter__", "__reversed__", "__contains__", "__mul__", "__rmul__", "__repr__"):
    _needing(_name)
for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "index", "count"):
    _needing(_name)


# --- open deque

AT_ENDS: dict[tuple[Op, object], Op] = {
    (Op.POP, 0): Op.POP_LEFT,
    (Op.POP, -1): Op.POP,
    (Op.INSERT, 0): Op.APPEND_LEFT,
}
"""Methods of a deque in place of a list's, by the index."""


class OpenDeque(OpenList):
    """The items of a deque."""

    def __init__(self, call: CapturedCall, source: Source, maxlen: int | None) -> None:
        super().__init__(call, source, is_open=True)
        self._maxlen = maxlen

    def _note(self, op: Op, key: object = ABSENT, value: object = ABSENT) -> None:
        """Note a change by the methods that a deque has."""
        if (op, key) in AT_ENDS:
            super()._note(AT_ENDS[op, key], ABSENT, value)
        else:
            super()._note(op, key, value)

    def bound(self) -> int | None:
        """The maximum length, guarded."""
        self._call.guards.note(Look.EQUAL, Attribute(self._source, "maxlen"), self._maxlen)
        return self._maxlen

    def _is_full(self) -> bool:
        bound = self.bound()
        return bound is not None and bool(self.length() >= bound)

    def _push(self, end: int, value: object) -> None:
        """Add an item at an end: 0 for the front, 1 for the back. A full deque loses one at the other end."""
        if self._is_full():
            if self._maxlen == 0:
                return
            super().pop(-1 if end == 0 else 0)
        if end == 0:
            super().insert(0, value)
        else:
            super().append(value)

    def append(self, value: object) -> None:
        self._push(1, value)

    def appendleft(self, value: object) -> None:
        self._push(0, value)

    def extend(self, values: Iterable[object]) -> None:
        for value in list(values):
            self._push(1, value)

    def extendleft(self, values: Iterable[object]) -> None:
        for value in list(values):
            self._push(0, value)

    def insert(self, index: Any, value: object) -> None:
        if self._is_full():
            raise IndexError("deque already at its maximum size")
        super().insert(index, value)

    def pop(self) -> Any:  # type: ignore[override]
        return self._popped(-1)

    def popleft(self) -> Any:
        return self._popped(0)

    def _popped(self, index: int) -> Any:
        try:
            return super().pop(index)
        except IndexError:
            raise IndexError("pop from an empty deque") from None

    def rotate(self, count: Any = 1) -> None:
        count = count.__index__()
        if not self:
            return
        for _ in range(abs(count)):
            if count > 0:
                super().insert(0, super().pop(-1))
            else:
                super().append(super().pop(0))

    def reverse(self) -> None:
        self._refill(self._whole()[::-1])

    def __imul__(self, count: Any) -> Any:  # type: ignore[misc]
        self._refill(self._whole() * count)
        return self

    def _refill(self, values: list[Any]) -> None:
        self.clear()
        self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        _check_index(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _check_index(index)
        super().__setitem__(index, value)

    def __delitem__(self, index: Any) -> None:
        _check_index(index)
        super().__delitem__(index)


def _check_index(index: Any) -> None:
    if isinstance(index, slice):
        raise TypeError("sequence index must be integer, not 'slice'")
