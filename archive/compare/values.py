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
    from collections.abc import Iterator, Mapping

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

    def changes(self, old: object, new: object, root: str = "") -> Iterator[Change]:
        """The parts that differ.

        Args:
            root: what the names of parts begin with.
        """
        top: Path = (None, root) if root else None
        stack: list[tuple[Path, object, object]] = [(top, old, new)]
        while stack:
            path, *both = stack.pop()
            was, now = map(bytes_of, both) if bytes in map(type, both) else both
            if was is NOTHING or now is NOTHING:
                if tensor_of(now if was is NOTHING else was) is None:
                    status = Status.ADDED if was is NOTHING else Status.GONE
                    before, after = ("" if value is NOTHING else summary(value) for value in (was, now))
                    yield replace(self._row(path, before, after), status=status)
            elif (old_tensor := tensor_of(was)) and (new_tensor := tensor_of(now)):
                if old_tensor.device != new_tensor.device:
                    row = self._row(path, f"on {old_tensor.device}", f"on {new_tensor.device}")
                    yield replace(row, level=Level.LAYOUT)
                stack += _pairs(path, tensor_parts(was), tensor_parts(now))
            elif type(was) is not type(now):
                yield self._row(path, summary(was), summary(now))
            elif not isinstance(was, HOLDERS):
                if not self._are_equal(was, now):
                    yield self._of_plain(path, was, now)
            elif isinstance(was, SHARED) and self._is_known(was, now):
                if self._seen[0].get(id(was)) != id(now) or self._seen[1].get(id(now)) != id(was):
                    yield self._row(path, "held at other places, too", "held at others")
            else:
                if isinstance(was, Inert) and isinstance(now, Inert):
                    classes = _class(was), _class(now)
                    if not self._are_equal(*classes):
                        old_class, new_class = map(shown_name, classes)
                        yield self._row(path, f"an object of {old_class}", f"of {new_class}")
                parts, others = _parts(was), _parts(now)
                is_ordered = self._ordered and (isinstance(was, dict) or bool(getattr(was, "pairs", ())))
                if is_ordered and parts.keys() == others.keys() and list(parts) != list(others):
                    yield self._row(path, "keys in one order", "keys in another")
                for key, twin in _twins(parts, others):
                    others = {key if other == twin else other: part for other, part in others.items()}
                    was_type, now_type = (type(one).__name__ for one in (key, twin))
                    yield self._row((path, key), f"a key of {was_type}", f"of {now_type}")
                stack += _pairs(path, parts, others)

    def _of_plain(self, path: Path, was: object, now: object) -> Change:
        """Two values that differ; in the program of a lowered module perhaps only in debug handles."""
        if not isinstance(was, str) or not isinstance(now, str):
            return self._row(path, summary(was), summary(now))
        if self._in_blobs and without_handles(was) == without_handles(now):
            handles = (handles_in(text)[:MOST_HANDLES] for text in (was, now))
            old, new = (", ".join(map(str, some)) for some in handles)
            return replace(self._row(path, f"{old} …", f"{new} …"), level=Level.IDS, what="debug handles in")
        # of long texts the part that differs
        longest, least = max(len(was), len(now)), min(len(was), len(now))
        same = next((at for at in range(least) if was[at] != now[at]), least)
        start = max(0, same - SHOWN // 3) if longest > SHOWN else 0
        place = f"from character {start:,}: " if start else ""
        return self._row(path, place + summary(was[start:]), summary(now[start:]))

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


def _pairs(
    path: Path, parts: Mapping[Any, object], others: Mapping[Any, object]
) -> list[tuple[Path, object, object]]:
    """The parts of two values by their paths, the last one first."""
    keys = [*parts, *(key for key in others if key not in parts)]
    return [((path, key), parts.get(key, NOTHING), others.get(key, NOTHING)) for key in reversed(keys)]


def _twins(parts: Mapping[Any, object], others: Mapping[Any, object]) -> list[tuple[object, object]]:
    """Keys that only one value has, each with one of the same name that only the other has: 1 and "1"."""
    names = {str(key): key for key in others if key not in parts and isinstance(key, str | int)}
    only = (key for key in parts if names and key not in others and isinstance(key, str | int))
    return [(key, names[str(key)]) for key in only if str(key) in names]


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
