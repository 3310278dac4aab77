"""Proxies of dicts: they note what is changed, and guard what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from archive.effects.capture.graph.variables import is_literal, key_literal
from archive.formats.effects.model import Item, Look, Op

if TYPE_CHECKING:
    from archive.effects.capture.graph.guards import Held
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


UNKNOWN_KEYS = "len() or iteration of a dict whose keys differ from call to call"
ALL = object()
"""Stands for all keys, once the dict has been cleared."""


class TrackedDict(dict[Any, Any]):
    """The proxy of a dict. It holds the wrapped values.

    Attributes:
        creates: whether reading a missing key makes an item, as in a ``defaultdict``.
    """

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a plain dict to code that makes another dict of this one's class: ``type(items)(…)``."""
        return super().__new__(cls) if len(args) > 1 else dict(*args, **named)

    def __init__(self, call: CapturedCall, source: Source, *, is_open: bool) -> None:
        super().__init__()
        self._call = call
        self._source = source
        self._open = is_open
        self.creates = False
        self._expected: dict[Any, Any] = {}
        self._held: dict[Any, Held] = {}
        self._known: set[Any] = set()
        self._set: set[Any] = set()

    def fill(self, values: dict[Any, object]) -> None:
        """Give it its items, wrapped; their guards are held back until they are read."""
        for key, value in values.items():
            with self._call.guards.held() as held:
                wrapped = self._call.wrap(value, Item(self._source, key_literal(key)))
            self._held[key] = held
            dict.__setitem__(self, key, wrapped)
        self._expected = dict(dict.items(self))

    def intact(self) -> bool:
        """Whether all changes went through its methods."""
        ours = dict(dict.items(self))
        return list(ours) == list(self._expected) and all(
            item is expected for item, expected in zip(ours.values(), self._expected.values(), strict=True)
        )

    def _keys_change(self) -> None:
        self._call.seen.resized.add(self._source)

    def _check(self) -> None:
        """Guard the keys and all values."""
        guards = self._call.guards
        keys = tuple(map(key_literal, self._held))
        if is_literal(keys):
            guards.note(Look.TYPE, self._source, "dict")
            guards.note(Look.KEYS, self._source, keys, reason=UNKNOWN_KEYS if self._open else "")
        elif self._open:
            self._call.refuse(UNKNOWN_KEYS)
        for held in self._held.values():
            guards.release(held)

    def _has(self, key: Any) -> bool:
        """Whether a key exists, guarded unless the call itself has set or deleted it."""
        is_there = dict.__contains__(self, key)
        literal = key_literal(key)
        if not self._set.intersection((key, ALL)) and is_literal(literal):
            self._call.guards.note(Look.HAS, self._source, is_there, literal)
        return is_there

    def _read(self, key: Any) -> bool:
        if self.creates and not self._has(key):
            return False
        if self._held.get(key) and not self._set.intersection((key, ALL)):
            self._call.guards.release(self._held[key])
            self._known.add(key)
        return dict.__contains__(self, key) if key in self._known else self._has(key)

    def __contains__(self, key: object) -> bool:
        return self._has(self._call.constant_key(key))

    def __getitem__(self, key: Any) -> Any:
        key = self._call.constant_key(key)
        self._read(key)
        return dict.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        key = self._call.constant_key(key)
        return dict.__getitem__(self, key) if self._read(key) else default

    def __setitem__(self, key: Any, value: Any) -> None:
        key = self._call.constant_key(key)
        if not dict.__contains__(self, key):
            self._keys_change()
        self._set.add(key)
        dict.__setitem__(self, key, value)
        self._expected[key] = value
        self._call.mutate(self, Op.SET_ITEM, key, value)

    def __delitem__(self, key: Any) -> None:
        self._has(key)
        self._set.add(key)
        dict.__delitem__(self, key)
        del self._expected[key]
        self._keys_change()
        self._call.mutate(self, Op.DELETE_ITEM, key)

    def pop(self, key: Any, *default: Any) -> Any:
        if default and not self._has(key):
            return default[0]
        value = self[key]
        del self[key]
        return value

    def popitem(self, last: bool = True) -> tuple[Any, Any]:  # noqa: FBT001, FBT002 (as OrderedDict's)
        keys = list(self)
        if not keys:
            raise KeyError("popitem(): dictionary is empty")
        key = keys[-1 if last else 0]
        return key, self.pop(key)

    def move_to_end(self, key: Any, last: bool = True) -> None:  # noqa: FBT001, FBT002 (the same)
        """Put an item after all others, or before them; all that follow it are then put there again."""
        key = self._call.constant_key(key)
        if not self._has(key):
            raise KeyError(key)
        others = [] if last else [other for other in self if other != key]
        for moved in (key, *others):
            self[moved] = self.pop(moved)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if not self._has(key):
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def clear(self) -> None:
        if dict.__len__(self):
            self._keys_change()
        self._set.add(ALL)
        dict.clear(self)
        self._expected.clear()
        self._call.mutate(self, Op.CLEAR)

    def __len__(self) -> int:
        self._check()
        return dict.__len__(self)

    def __iter__(self) -> Any:
        self._check()
        return dict.__iter__(self)

    def __reversed__(self) -> Any:
        self._check()
        return dict.__reversed__(self)

    def keys(self) -> Any:
        self._check()
        return dict.keys(self)

    def values(self) -> Any:
        self._check()
        return dict.values(self)

    def items(self) -> Any:
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

    def __ne__(self, other: object) -> bool:
        self._check()
        return dict.__ne__(self, other)

    def __or__(self, other: Any) -> Any:
        return self.copy() | other if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return other | self.copy() if isinstance(other, dict) else NotImplemented

    def __repr__(self) -> str:
        self._check()
        return dict.__repr__(self)

    __hash__ = None

    def __reduce_ex__(self, _: object) -> Any:
        return dict, (self.copy(),)
