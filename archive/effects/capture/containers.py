"""Lists and dicts that were there before the call: what is done to them is noted, and done to a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

from archive.effects.capture.open_list import OpenList
from archive.effects.capture.tracked_dict import TrackedDict
from archive.formats.effects.model import Item, Op

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.guards import Held
    from archive.effects.capture.recorder import Recorder
    from archive.formats.effects.model import Source


class TrackedList(list[Any]):
    """A list whose length stays: it holds what stands in for its items.

    Args:
        recorder: of the call.
        source: where the list lives.
    """

    def __init__(self, recorder: Recorder, source: Source) -> None:
        super().__init__()
        self._recorder = recorder
        self._source = source
        self._expected: list[Any] = []
        self._held: list[Held] = []

    def fill(self, values: Iterable[object]) -> None:
        """Give it its items."""
        guards = self._recorder.guards
        for place, value in enumerate(values):
            with guards.held() as held:
                list.append(self, self._recorder.wrap(value, Item(self._source, place)))
            self._held.append(held)
        self._expected = list(list.__iter__(self))

    def _read(self, which: Any = None) -> None:  # noqa: ANN401
        """Rely on what is read: an item, or all, and then on how many there are."""
        guards, held = self._recorder.guards, self._held
        if isinstance(which, int) and which >= 0:
            held = self._held[which : which + 1]
        else:
            guards.items(self._expected, self._source)
        for one in held:
            guards.release(one)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        self._read(index.__index__() if hasattr(index, "__index__") else None)
        return list.__getitem__(self, index)

    def __iter__(self) -> Any:  # noqa: ANN401
        self._read()
        return list.__iter__(self)

    def __len__(self) -> int:
        self._recorder.guards.items(self._expected, self._source)
        return list.__len__(self)

    def index(self, *args: Any) -> int:  # noqa: ANN401
        self._read()
        return list.index(self, *args)

    def count(self, value: object) -> int:
        self._read()
        return list.count(self, value)

    def __reversed__(self) -> Any:  # noqa: ANN401
        self._read()
        return list.__reversed__(self)

    def __contains__(self, value: object) -> bool:
        self._read()
        return list.__contains__(self, value)

    def __eq__(self, other: object) -> bool:
        self._read()
        return list.__eq__(self, other)

    __hash__ = None

    def __add__(self, other: Any) -> Any:  # noqa: ANN401
        self._read()
        return list.__add__(self, other)

    def __mul__(self, count: Any) -> Any:  # noqa: ANN401
        self._read()
        return list.__mul__(self, count)

    __rmul__ = __mul__

    def copy(self) -> list[Any]:
        self._read()
        return list.copy(self)

    def intact(self) -> bool:
        """Whether nobody has changed it past its methods."""
        return same(list(list.__iter__(self)), self._expected)

    def _resized(self, name: str, *args: Any) -> Any:  # noqa: ANN401
        """A change of length: the call is captured again, with an ``OpenList``."""
        self._recorder.resized.add(self._source)
        result = getattr(list, name)(self, *args)
        self._expected = list(list.__iter__(self))
        return result

    def append(self, value: object) -> None:
        self._resized("append", value)

    def extend(self, values: Iterable[object]) -> None:
        self._resized("extend", values)

    def insert(self, index: SupportsIndex, value: object) -> None:
        self._resized("insert", index, value)

    def pop(self, index: SupportsIndex = -1) -> Any:  # noqa: ANN401
        return self._resized("pop", index)

    def remove(self, _: object) -> None:
        self._recorder.refuse("remove: which item goes differs from call to call")

    def clear(self) -> None:
        self._resized("clear")

    def __iadd__(self, values: Iterable[object]) -> Self:  # type: ignore[misc]
        self._resized("extend", values)
        return self

    def __imul__(self, count: SupportsIndex) -> NoReturn:  # type: ignore[misc]
        self._recorder.refuse("a list that is repeated in place")

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        self._resized("__delitem__", index)

    def __setitem__(self, index: Any, value: Any) -> None:  # noqa: ANN401
        if isinstance(index, slice):
            self._resized("__setitem__", index, value)
            return
        list.__setitem__(self, index, value)
        self._expected = list(list.__iter__(self))
        self._recorder.change(self, Op.SET_ITEM, index, value)

    def sort(self, **_: object) -> None:
        self._recorder.refuse("a list that is sorted: which item goes where differs from call to call")

    def reverse(self) -> None:
        self._recorder.refuse("a list that is reversed in place")

    def __reduce_ex__(self, _: object) -> Any:  # noqa: ANN401
        return list, (list(self),)


def same(ours: list[Any], others: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return len(ours) == len(others) and all(one is other for one, other in zip(ours, others, strict=True))


def plain(value: Any) -> Any:  # noqa: ANN401
    """Arguments with lists and dicts of their items in place of what stands in for them."""
    if isinstance(value, OpenList | TrackedList):
        return [plain(one) for one in value]
    if isinstance(value, TrackedDict):
        return {key: plain(one) for key, one in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(one) for key, one in value.items()}
    return value


def contents(stand_in: Any) -> Any:  # noqa: ANN401
    """What a list or dict holds after the call, without asking whether that may be known."""
    if isinstance(stand_in, OpenList):
        return stand_in.contents()
    if isinstance(stand_in, TrackedDict):
        return dict(dict.items(stand_in))
    return list(list.__iter__(stand_in))
