"""New lists that a call makes from a list of unknown length: copies, slices, and sums of lists.

Functions of PyTorch that take a list of tensors, such as ``torch.stack``, get such a list as a value of the
graph: the old list as a whole, cut and joined as the model does. So do effects that keep the new list. Where
Python needs the items themselves, they are known, with a guard on their number.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, Self

import torch

from archive.effects.capture.graph.scalars import is_scalar, value_of
from archive.effects.capture.graph.variables import MadeList
from archive.effects.looking import type_name
from archive.formats.effects.model import Each, Look

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


UNKNOWN_LENGTH = "len() or iteration of a list whose length differs from call to call"
GRAPH_KINDS = {"tensor": torch.Tensor, "float": float, "int": int}
"""Types of items of lists that a graph takes, by the names that guards have for them."""
LARGEST_ITEM = 1 << 20
"""Bound of ints in such a list: a sum of fewer than 2**40 of them fits into 64 bits."""


def kind_of(items: Iterable[Any]) -> str | None:
    """The common type of a list's items, if a graph takes it; "" if there are no items; else None."""
    kinds = {type_name(value_of(item)) for item in items}
    if len(kinds) > 1:
        return None
    kind = next(iter(kinds), "")
    return kind if kind in GRAPH_KINDS or not kind else None


class Rest:
    """The old items of a list of unknown length, at one moment.

    Args:
        old: the items before the call; those of the captured call.
        removed: how many were removed at the front and at the back.
        known: the proxies of old items, by position, as far as the model has read them.
    """

    def __init__(
        self,
        call: CapturedCall,
        source: Source,
        old: list[object],
        removed: tuple[int, int],
        known: dict[int, Any],
    ) -> None:
        self._call, self._source, self._old, self._known = call, source, old, known
        self._removed = removed
        self._at = call.here()

    def length(self) -> Any:
        """The number of items: a number of the graph."""
        old = self._call.length_of(self._source, len(self._old))
        removed = sum(self._removed)
        return old - removed if removed else old

    def contents(self) -> list[Any]:
        """The real items in the captured call."""
        return self._old[self._places()]

    def _places(self) -> slice:
        front, back = self._removed
        return slice(front, len(self._old) - back)

    def items(self) -> list[Any]:
        """The proxies of the items, whose number is guarded from now on."""
        self._call.guards.items(self._old, self._source, UNKNOWN_LENGTH)
        return [self.item(place) for place in range(len(self._old))[self._places()]]

    def item(self, place: int) -> Any:
        """The proxy of an item, by its position before the call."""
        if place not in self._known:
            self._known[place] = self._call.wrap_item(self._old[place], self._source, place)
        return self._known[place]

    def kind(self) -> str | None:
        """See :func:`kind_of`; whether there is an item at all is guarded from now on."""
        builder = self._call.builder
        if not builder.fixed(self.length() > 0, UNKNOWN_LENGTH, self._call.here() or self._at):
            return ""
        return kind_of(self._old)

    def in_graph(self) -> list[Any]:
        """The items as a list of the graph."""
        call, source = self._call, self._source
        if source not in call.lists:
            kind = kind_of(self._old) or ""
            call.guards.note(Look.TYPE, Each(source), kind)
            if kind == "int":
                call.guards.note(Look.RANGE, Each(source), LARGEST_ITEM)
            data = [call.snapshot.tensor(item) for item in self._old]
            call.lists[source] = call.builder.list_input(source, self._old, data, GRAPH_KINDS[kind])
        whole: list[Any] = call.lists[source]
        front, back = self._removed
        return cut_in_graph(call, whole, slice(front, -back if back else None)) if front or back else whole


def cut_in_graph(call: CapturedCall, items: list[Any], part: slice) -> list[Any]:
    """A slice of a list of the graph."""
    made = items[part]
    call.builder.bind(made, call.builder.emit("call_function", operator.getitem, (items, part), {}))
    return made


class OpenPart(MadeList):
    """A new list of unknown length. The list that it derives from stays empty until all items are known.

    Args:
        pieces: known items, old items, and other such lists.
        part: the slice of all these that makes the list; None for all.
    """

    def __init__(
        self, call: CapturedCall, pieces: list[list[Any] | Rest | OpenPart], part: slice | None = None
    ) -> None:
        super().__init__()
        self._call, self._pieces, self._part = call, pieces, part
        self._is_open = True

    def copy(self) -> list[Any]:
        return self._frozen() if self._is_open else list(self)

    as_part = copy

    def _frozen(self) -> OpenPart:
        """The same list, which does not change with this one."""
        pieces = [piece[:] if type(piece) is list else piece for piece in self._pieces]
        return OpenPart(self._call, pieces, self._part)

    # --- as a list of the graph --------------------------------------------------------------------

    def length(self) -> Any:
        """The number of items: a number of the graph."""
        if not self._is_open:
            return list.__len__(self)
        lengths = [len(piece) if type(piece) is list else piece.length() for piece in self._pieces]  # type: ignore[union-attr]
        known = sum(length for length in lengths if not is_scalar(length))
        numbers = [length for length in lengths if is_scalar(length)]
        total = functools.reduce(operator.add, [*numbers, known] if known or not numbers else numbers)
        if self._part is None:
            return total
        start, stop = self._end(self._part.start, 0, total), self._end(self._part.stop, total, total)
        return self._chosen(max, stop - start, 0)

    def _end(self, index: int | None, otherwise: Any, total: Any) -> Any:
        """The position where a slice starts or stops."""
        if index is None:
            return otherwise
        return self._chosen(min, index, total) if index >= 0 else self._chosen(max, total + index, 0)

    def _chosen(self, function: Any, left: Any, right: Any) -> Any:
        """The smaller or larger one of two numbers."""
        if is_scalar(left) or is_scalar(right):
            return self._call.builder.compute(function, left, right)
        return function(left, right)

    def kind(self) -> str | None:
        """See :func:`kind_of`; whether there is an old item at all is guarded from now on."""
        kinds = {kind_of(piece) if type(piece) is list else piece.kind() for piece in self._pieces}  # type: ignore[union-attr]
        kinds.discard("")
        return kinds.pop() if len(kinds) == 1 else None if kinds else ""

    def in_graph(self) -> list[Any]:
        """The items as a list of the graph; as a plain list where all are known.

        Lists that a graph cannot take, because their items have several types, become known.
        """
        if self._is_open and not self.kind():
            self._fix()
        if not self._is_open:
            return list(list.__iter__(self))
        made: list[Any] = []
        for piece in self._pieces:
            items = piece
            if isinstance(piece, Rest):
                items = piece.in_graph() if piece.kind() else []
            elif isinstance(piece, OpenPart):
                items = piece.in_graph()
            made = self._joined(made, items)  # type: ignore[arg-type]
        if self._part is None:
            return made
        if self._call.builder.node_of(made) is None:
            return made[self._part]
        return cut_in_graph(self._call, made, self._part)

    def _joined(self, left: list[Any], right: list[Any]) -> list[Any]:
        """Two lists as one."""
        if not left or not right:
            return left or right
        builder = self._call.builder
        made = [*left, *right]
        if builder.node_of(left) is not None or builder.node_of(right) is not None:
            builder.bind(made, builder.emit("call_function", operator.add, (left, right), {}))
        return made

    def keep(self) -> None:
        if not self._is_open:
            return
        made = self.in_graph()
        node = self._call.builder.node_of(made)
        if node is None:
            self._become(made)
        else:
            # The node of a slice: what is kept must not be another list of the graph, least of all an input.
            copy = cut_in_graph(self._call, made, slice(None))
            self._call.builder.bind(self, self._call.builder.node_of(copy))

    def contents(self) -> list[Any]:
        if not self._is_open:
            return list(list.__iter__(self))
        pieces = (piece if type(piece) is list else piece.contents() for piece in self._pieces)  # type: ignore[union-attr]
        items = [item for piece in pieces for item in piece]
        return items if self._part is None else items[self._part]

    # --- as a list of Python -----------------------------------------------------------------------

    def _fix(self) -> None:
        """Make all items known, with a guard on the number of old ones."""
        if not self._is_open:
            return
        pieces = (piece.items() if isinstance(piece, Rest) else piece for piece in self._pieces)
        items = [item for piece in pieces for item in piece]
        self._become(items if self._part is None else items[self._part])

    def _become(self, items: list[Any]) -> None:
        if self._is_open:
            self._is_open = False
            list.extend(self, items)

    def fixed(self) -> Self:
        """The list itself, all of whose items are known from now on."""
        self._fix()
        return self

    def __getitem__(self, index: Any) -> Any:
        if self._is_open and isinstance(index, slice) and is_plain_part(index):
            return part_of(self._call, [self._frozen()], index)
        self._fix()
        return list.__getitem__(self, index)

    def __add__(self, other: Any) -> Any:
        return OpenPart(self._call, [self._frozen(), pieces_of(other)])

    def __radd__(self, other: Any) -> Any:
        return OpenPart(self._call, [pieces_of(other), self._frozen()])

    def append(self, value: object) -> None:
        self.extend([value])

    def extend(self, values: Iterable[object]) -> None:
        if not self._is_open:
            list.extend(self, values)
            return
        if self._part is not None:
            self._pieces, self._part = [self._frozen()], None
        self._pieces.append(pieces_of(values))

    def __iadd__(self, values: Iterable[object]) -> Self:  # type: ignore[misc]
        self.extend(values)
        return self

    def __bool__(self) -> bool:
        return bool(self.length())


def _needing(name: str) -> None:
    """Add a method of lists that needs all items."""
    function = getattr(list, name)
    setattr(OpenPart, name, lambda self, *args, **how: function(self.fixed(), *args, **how))


for _name in (
    *("__len__", "__iter__", "__reversed__", "__contains__", "__eq__", "__ne__", "__lt__", "__mul__"),
    *("__rmul__", "__imul__", "__setitem__", "__delitem__", "__repr__", "insert", "pop", "remove", "clear"),
    *("reverse", "sort", "index", "count"),
):
    _needing(_name)


def is_plain_part(part: slice) -> bool:
    """Whether a slice leaves out nothing between its ends."""
    return part.step is None or part.step == 1


def part_of(call: CapturedCall, pieces: list[Any], index: slice) -> OpenPart:
    """A slice of some pieces, whose ends are constants from now on."""
    start, stop = call.builder.fixed(index.start), call.builder.fixed(index.stop)
    whole = start in (None, 0) and stop is None
    return OpenPart(call, pieces, None if whole else slice(start, stop))


def pieces_of(values: Any) -> list[Any] | OpenPart:
    """The items of a list that is joined to another one."""
    return values.as_part() if hasattr(values, "as_part") else list(values)
