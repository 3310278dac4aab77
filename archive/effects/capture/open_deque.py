"""Proxies of deques: as of lists whose length differs from call to call, with two ends and a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.capture.open_list import OpenList
from archive.effects.capture.variables import ABSENT
from archive.formats.effects.model import Attribute, Look, Op

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.call import CapturedCall
    from archive.formats.effects.model import Source


AT_ENDS: dict[tuple[Op, object], Op] = {
    (Op.POP, 0): Op.POP_LEFT,
    (Op.POP, -1): Op.POP,
    (Op.INSERT, 0): Op.APPEND_LEFT,
}
"""Methods of a deque in the place of a list's, by the index."""


class OpenDeque(OpenList):
    """The items of a deque.

    Args:
        call: the captured call.
        source: where the deque lives.
        maxlen: its greatest length; None if it has none.
    """

    def __init__(self, call: CapturedCall, source: Source, maxlen: int | None) -> None:
        super().__init__(call, source)
        self._maxlen = maxlen

    def _note(self, op: Op, key: object = ABSENT, value: object = ABSENT) -> None:
        """Note a change by the methods that a deque has."""
        if (op, key) in AT_ENDS:
            super()._note(AT_ENDS[op, key], ABSENT, value)
        else:
            super()._note(op, key, value)

    def bound(self) -> int | None:
        """The greatest length, guarded."""
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
        for one in list(values):
            self._push(1, one)

    def extendleft(self, values: Iterable[object]) -> None:
        for one in list(values):
            self._push(0, one)

    def insert(self, index: Any, value: object) -> None:  # noqa: ANN401
        if self._is_full():
            raise IndexError("deque already at its maximum size")
        super().insert(index, value)

    def pop(self) -> Any:  # type: ignore[override] # noqa: ANN401
        return self._popped(-1)

    def popleft(self) -> Any:  # noqa: ANN401
        return self._popped(0)

    def _popped(self, index: int) -> Any:  # noqa: ANN401
        try:
            return super().pop(index)
        except IndexError:
            raise IndexError("pop from an empty deque") from None

    def rotate(self, count: Any = 1) -> None:  # noqa: ANN401
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

    def __imul__(self, count: Any) -> Any:  # type: ignore[misc] # noqa: ANN401
        self._refill(self._whole() * count)
        return self

    def _refill(self, values: list[Any]) -> None:
        self.clear()
        self.extend(values)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        _check_index(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:  # noqa: ANN401
        _check_index(index)
        super().__setitem__(index, value)

    def __delitem__(self, index: Any) -> None:  # noqa: ANN401
        _check_index(index)
        super().__delitem__(index)


def _check_index(index: Any) -> None:  # noqa: ANN401
    if isinstance(index, slice):
        raise TypeError("sequence index must be integer, not 'slice'")
