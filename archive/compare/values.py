"""Two inert values, compared part by part: attributes of modules, constants, saved objects, JSON.

Parts are paired by name or number. What is reached twice in one value must be reached at the same two places
in the other. :mod:`archive.compare.tensors` compares tensors, except their classes and attributes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.base.errors import shown
from archive.compare.changes import Change, Status, changed
from archive.compare.pairing import Pairing
from archive.compare.sameness import Level
from archive.formats.lowered import handles_in, without_handles
from archive.formats.tensors.pickled import STATE, class_of, tensor_of, tensor_parts
from archive.formats.tensors.tensor import Tensor
from archive.pickles.ops import float_bytes
from archive.pickles.values import HOLDERS, Global, Inert, bytes_of, set_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Path = tuple[Any, object] | None

SHARED = (Inert, dict, list)
"""Values that can be held at several places."""
PATH_PARTS = 64
"""Parts of a path that a row shows; of a longer one the last ones."""
SHOWN = 60
"""Characters of a text that a row shows."""
SHOWN_BYTES = 16
"""Bytes that are shown one by one."""
MOST_HANDLES = 3
"""Debug handles that a row shows."""
NOTHING = object()


class Values:
    """The comparison of values of two archives.

    Args:
        what: the kind of thing that each part is, for the rows.
        names: pairs the classes of objects.
        ordered: whether the order of keys counts.
        in_blobs: whether texts have debug handles in them.
    """

    def __init__(
        self,
        what: str,
        names: Pairing | None = None,
        *,
        ordered: bool = True,
        in_blobs: bool = False,
    ) -> None:
        self._what = what
        self._names = names or Pairing()
        self._ordered = ordered
        self._in_blobs = in_blobs
        self._seen: tuple[dict[int, int], dict[int, int]] = {}, {}
        self._waiting: list[tuple[Path, object, object]] = []

    def changes(self, old: object, new: object, root: str = "") -> Iterator[Change]:
        """The parts that differ, their names after a root."""
        self._waiting.append(((None, root) if root else None, old, new))
        while self._waiting:
            path, *both = self._waiting.pop()
            was, now = map(bytes_of, both) if bytes in map(type, both) else both
            yield from self._comparison(was, now)(path, was, now)

    def _comparison(self, was: object, now: object) -> Callable[[Path, Any, Any], Iterator[Change]]:
        """What compares two values; it appends their parts to those that wait."""
        if was is NOTHING or now is NOTHING:
            return self._of_one
        if tensor_of(was) and tensor_of(now):
            return self._of_tensors
        if type(was) is not type(now):
            return self._of_types
        if not isinstance(was, HOLDERS):
            return self._of_plain
        if isinstance(was, SHARED) and self._is_known(was, now):
            return self._of_places
        return self._of_parts

    def _of_one(self, path: Path, was: object, now: object) -> Iterator[Change]:
        """A value that only one archive has; tensors are compared by name."""
        if tensor_of(now if was is NOTHING else was) is not None:
            return
        status = Status.ADDED if was is NOTHING else Status.GONE
        old, new = ("" if value is NOTHING else summary(value) for value in (was, now))
        yield replace(self._row(path, old, new), status=status)

    def _of_tensors(self, path: Path, was: object, now: object) -> Iterator[Change]:
        old, new = (getattr(tensor_of(value), "device", "") for value in (was, now))
        if old != new:
            yield replace(self._row(path, f"on {old}", f"on {new}"), level=Level.LAYOUT)
        self._wait(path, tensor_parts(was), tensor_parts(now))

    def _of_types(self, path: Path, was: object, now: object) -> Iterator[Change]:
        yield self._row(path, summary(was), summary(now))

    def _of_places(self, path: Path, was: object, now: object) -> Iterator[Change]:
        """Two values of which one was reached before."""
        if self._seen[0].get(id(was)) != id(now) or self._seen[1].get(id(now)) != id(was):
            yield self._row(path, "held at other places, too", "held at others")

    def _of_parts(self, path: Path, was: object, now: object) -> Iterator[Change]:
        if isinstance(was, Inert) and isinstance(now, Inert):
            classes = _class(was), _class(now)
            if not self._are_equal(*classes):
                old, new = map(shown_name, classes)
                yield self._row(path, f"an object of {old}", f"of {new}")
        parts, others = _parts(was), _parts(now)
        is_ordered = self._ordered and (isinstance(was, dict) or bool(getattr(was, "pairs", ())))
        if is_ordered and parts.keys() == others.keys() and list(parts) != list(others):
            yield self._row(path, "keys in one order", "keys in another")
        twins = _twins(parts, others)
        for twin, key in twins.items():
            yield self._row((path, key), f"a key of {type(key).__name__}", f"of {type(twin).__name__}")
        self._wait(path, parts, {twins.get(key, key): part for key, part in others.items()})

    def _wait(self, path: Path, parts: Mapping[Any, object], others: Mapping[Any, object]) -> None:
        """Compare the parts of two values next, in their order."""
        keys = [*parts, *(key for key in others if key not in parts)]
        self._waiting += [
            ((path, key), parts.get(key, NOTHING), others.get(key, NOTHING)) for key in reversed(keys)
        ]

    def _of_plain(self, path: Path, was: object, now: object) -> Iterator[Change]:
        """Values without parts; in the program of a lowered module perhaps only debug handles differ."""
        if self._are_equal(was, now):
            return
        if not isinstance(was, str) or not isinstance(now, str):
            yield self._row(path, summary(was), summary(now))
        elif self._in_blobs and without_handles(was) == without_handles(now):
            handles = (handles_in(text)[:MOST_HANDLES] for text in (was, now))
            old, new = (", ".join(map(str, some)) for some in handles)
            row = self._row(path, f"{old} …", f"{new} …")
            yield replace(row, level=Level.IDS, what="debug handles in")
        else:
            start = _first_shown(was, now)
            place = f"from character {start:,}: " if start else ""
            yield self._row(path, place + summary(was[start:]), summary(now[start:]))

    def _is_known(self, was: object, now: object) -> bool:
        """Whether one of two values was reached before; both are known from now on."""
        known = id(was) in self._seen[0] or id(now) in self._seen[1]
        if not known:
            self._seen[0][id(was)], self._seen[1][id(now)] = id(now), id(was)
        return known

    def _are_equal(self, was: object, now: object) -> bool:
        if isinstance(was, Global) and isinstance(now, Global):
            if was.module.startswith("__torch__") and now.module.startswith("__torch__"):
                return self._names.pair(str(was), str(now))
            return was == now
        if isinstance(was, Inert) and isinstance(now, Inert):  # calls that made a class: parts, too
            return True
        if isinstance(was, float) and isinstance(now, float):  # so that NaN is NaN, and -0.0 not 0.0
            return float_bytes(was) == float_bytes(now)
        return bool(was == now)

    def _row(self, path: Path, old: str, new: str) -> Change:
        return changed(Level.MODEL, self._what, dotted(path), old, new)


def _parts(value: object) -> Mapping[Any, object]:
    """The parts of a value by name or number."""
    match value:
        case dict():
            return value
        case list() | tuple():
            return dict(enumerate(value))
        case Inert():
            return _parts_of_object(value)
    return {}


def _parts_of_object(value: Inert) -> dict[Any, object]:
    elements = set_of(value)
    if elements is not None:
        return {_key(element, at): element for at, element in enumerate(elements[1])}
    parts: dict[Any, object] = {"()": value.what} if isinstance(class_of(value), Inert) else {}
    parts |= {f"({at})": argument for at, argument in enumerate(value.arguments)}
    parts |= dict(enumerate(value.items))
    for at, (key, part) in enumerate(value.pairs):
        if type(key) in (str, int):
            parts[key] = part
        else:  # by place: True and 1.0 would be the key 1
            parts[f"{{{at}}}"], parts[f"{{{at}}} key"] = part, key
    if isinstance(value.state, dict):
        parts |= value.state
    elif value.state is not None:
        parts[STATE] = value.state
    return parts


def _twins(parts: Mapping[Any, object], others: Mapping[Any, object]) -> dict[object, object]:
    """Keys that only the second value has, each with its namesake that only the first has: 1 and "1"."""
    names = {str(key): key for key in others if key not in parts and isinstance(key, str | int)}
    only = (key for key in parts if names and key not in others and isinstance(key, str | int))
    return {names[str(key)]: key for key in only if str(key) in names}


def _first_shown(was: str, now: str) -> int:
    """Where a row begins to show two texts that differ: of long ones, a little before the difference."""
    if max(len(was), len(now)) <= SHOWN:
        return 0
    least = min(len(was), len(now))
    same = next((at for at in range(least) if was[at] != now[at]), least)
    return max(0, same - SHOWN // 3)


def _key(element: object, at: int) -> object:
    text = element.arguments[0] if isinstance(element, Inert) and element.arguments else element
    if isinstance(text, str | bytes) and len(text) <= SHOWN:
        element = bytes_of(element)
    is_long = isinstance(element, bytes) and len(element) > SHOWN
    return element if isinstance(element, str | int | bytes | Global) and not is_long else f"{{{at}}}"


def _class(value: Inert) -> object:
    """The class or callable of an object; of sets of every protocol one."""
    found = set_of(value)
    return class_of(value) if found is None else found[0]


def dotted(path: Path) -> str:
    """A path in words: ``encoder.layers.0.scale``."""
    parts: list[str] = []
    while path is not None and len(parts) < PATH_PARTS:
        path, key = path
        if key != STATE:
            parts.append(str(key) if isinstance(key, str | int) else shown(key))
    return ("… " if path is not None else "") + ".".join(reversed(parts)) or "(value)"


def summary(value: object) -> str:
    """A value in a few words."""
    match value:
        case Inert():
            return f"an object of {shown_name(_class(value))}"
        case Tensor():
            return f"a tensor {list(value.shape)}"
        case dict() | list() | tuple():
            return f"a {type(value).__name__} of {len(value):,}"
        case Global():
            return str(value)
        case bytes() | bytearray():
            return repr(value) if len(value) <= SHOWN_BYTES else f"{len(value):,} bytes"
    return shown(value if not isinstance(value, str) else value[:200])


def shown_name(what: object) -> str:
    """The name of a class or function."""
    return str(what) if isinstance(what, Global | str) else shown(what)
