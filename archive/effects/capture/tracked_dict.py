"""A dict that was there before the call: what is done to it is noted, what is read of it relied on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from archive.effects.capture.guards import literal
from archive.formats.effects.model import Item, Look, Op

if TYPE_CHECKING:
    from archive.effects.capture.guards import Held
    from archive.effects.capture.recorder import Recorder
    from archive.formats.effects.model import Source

ALL = object()
"""Stands for all keys of a dict, where it has been cleared."""


class TrackedDict(dict[Any, Any]):
    """A dict: it holds what stands in for its items. In an open one keys come and go.

    Args:
        recorder: of the call.
        source: where the dict lives.
        is_open: whether its keys change.
    """

    def __init__(self, recorder: Recorder, source: Source, *, is_open: bool) -> None:
        super().__init__()
        self._recorder = recorder
        self._source = source
        self._open = is_open
        self._expected: dict[Any, Any] = {}
        self._held: dict[Any, Held] = {}
        self._known: set[Any] = set()
        self._set: set[Any] = set()

    def fill(self, values: dict[Any, object]) -> None:
        """Give it its items."""
        for key, value in values.items():
            with self._recorder.guards.held() as held:
                kept = self._recorder.wrap(value, Item(self._source, key))
            self._held[key] = held
            dict.__setitem__(self, key, kept)
        self._expected = dict(dict.items(self))

    def intact(self) -> bool:
        """Whether nobody has changed it past its methods."""
        ours = dict(dict.items(self))
        return list(ours) == list(self._expected) and all(
            one is other for one, other in zip(ours.values(), self._expected.values(), strict=True)
        )

    def _keys_change(self) -> None:
        self._recorder.resized.add(self._source)

    def _check(self) -> None:
        """Rely on the keys, and on all that is there."""
        guards = self._recorder.guards
        if self._open:
            self._recorder.refuse("len() or iteration of a dict whose keys differ from call to call")
        if all(map(literal, self._held)):
            guards.note(Look.TYPE, self._source, "dict")
            guards.note(Look.KEYS, self._source, tuple(self._held))
        for held in self._held.values():
            guards.release(held)

    def _has(self, key: Any) -> bool:  # noqa: ANN401
        """Whether a key is there; where the call has not set it, that is relied on, and what is there too."""
        found = dict.__contains__(self, key)
        if not self._set.intersection((key, ALL)) and literal(key):
            self._recorder.guards.note(Look.HAS, self._source, found, key)
        return found

    def _read(self, key: Any) -> bool:  # noqa: ANN401
        if self._held.get(key):
            self._recorder.guards.release(self._held[key])
            self._known.add(key)
        return dict.__contains__(self, key) if key in self._known else self._has(key)

    def __contains__(self, key: object) -> bool:
        return self._has(self._recorder.key(key))

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401
        key = self._recorder.key(key)
        self._read(key)
        return dict.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:  # noqa: ANN401
        key = self._recorder.key(key)
        return dict.__getitem__(self, key) if self._read(key) else default

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401
        key = self._recorder.key(key)
        if not dict.__contains__(self, key):
            self._keys_change()
        self._set.add(key)
        dict.__setitem__(self, key, value)
        self._expected[key] = value
        self._recorder.change(self, Op.SET_ITEM, key, value)

    def __delitem__(self, key: Any) -> None:  # noqa: ANN401
        self._has(key)
        self._set.add(key)
        dict.__delitem__(self, key)
        del self._expected[key]
        self._keys_change()
        self._recorder.change(self, Op.DELETE_ITEM, key)

    def pop(self, key: Any, *default: Any) -> Any:  # noqa: ANN401
        if default and not self._has(key):
            return default[0]
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> NoReturn:
        self._recorder.refuse("popitem: which item goes differs from call to call")

    def setdefault(self, key: Any, default: Any = None) -> Any:  # noqa: ANN401
        if not self._has(key):
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc] # noqa: ANN401
        self.update(other)
        return self

    def clear(self) -> None:
        if dict.__len__(self):
            self._keys_change()
        self._set.add(ALL)
        dict.clear(self)
        self._expected.clear()
        self._recorder.change(self, Op.CLEAR)

    def __len__(self) -> int:
        self._check()
        return dict.__len__(self)

    def __iter__(self) -> Any:  # noqa: ANN401
        self._check()
        return dict.__iter__(self)

    def __reversed__(self) -> Any:  # noqa: ANN401
        self._check()
        return dict.__reversed__(self)

    def keys(self) -> Any:  # noqa: ANN401
        self._check()
        return dict.keys(self)

    def values(self) -> Any:  # noqa: ANN401
        self._check()
        return dict.values(self)

    def items(self) -> Any:  # noqa: ANN401
        self._check()
        return dict.items(self)

    def copy(self) -> dict[Any, Any]:
        self._check()
        return dict(dict.items(self))

    def __bool__(self) -> bool:
        return len(self) > 0

    def __eq__(self, other: object) -> bool:
        self._check()
        return dict.__eq__(self, other)

    __hash__ = None

    def __reduce_ex__(self, _: object) -> Any:  # noqa: ANN401
        return dict, (self.copy(),)
