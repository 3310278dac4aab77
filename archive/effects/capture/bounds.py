"""How far from 0 ints may be, so that what is computed of them fits into the 64 bits that a graph has.

Python's ints grow; a graph's would wrap without a word. So the ints that a graph is given are bounded: as
little as what is computed of them allows, which interval arithmetic tells.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from archive.effects.capture.scalars import is_scalar, value_of
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Look

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.effects.capture.recorder import Recorder

MOST = (1 << 63) - 1
WIDEST = 62
SIZE_BITS = 40
"""Sizes are below 2**40, as no memory holds more."""
BOUNDS: dict[Any, Callable[..., int]] = {
    operator.add: lambda one, other: one + other,
    operator.sub: lambda one, other: one + other,
    operator.mul: lambda one, other: one * other,
    operator.neg: lambda one: one,
    operator.abs: lambda one: one,
    abs: lambda one: one,
    operator.floordiv: lambda one, _: one + 1,
    operator.mod: lambda _, other: other,
    operator.and_: lambda one, other: 2 * max(one, other) + 1,
    operator.or_: lambda one, other: 2 * max(one, other) + 1,
    operator.xor: lambda one, other: 2 * max(one, other) + 1,
    operator.lshift: lambda one, other: one << min(other, 64),
    operator.rshift: lambda one, _: one,
    max: max,
    min: max,
}
"""How far from 0 a result is at most."""
SIZES = ("size", "numel", "dim")


class Bounds:
    """Bounds the ints of a recorded call.

    Args:
        recorder: of the call.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ints: dict[Any, Any] = {}  # by node
        for value in recorder.tape.values():
            if is_scalar(value) and type(value_of(value)) is int:
                self._ints[recorder.tape.node_of(value)] = value

    def note(self) -> None:
        """Rely on ints being near enough to 0.

        Raises:
            CaptureError: no bound is enough, with the model's line.
        """
        computed = [node for node in self._ints if self._is_computed(node)]
        bits = next((bits for bits in range(WIDEST, 0, -1) if self._excess(bits) is None), None)
        if bits is None:
            raise self._refused(self._excess(1))
        used = {one for node in computed for one in node.all_input_nodes}
        for node, value in self._ints.items():
            if self._is_computed(node) or not (node in used or self._is_cut(node)):
                continue
            if self._is_size(node):
                if bits < SIZE_BITS:
                    self._recorder.guards.note(Look.RANGE, value, 1 << bits, place=node.meta.get("place"))
                continue
            given = self._recorder.tape.input_of(value)
            subject = value if given is None else given.source
            place = next((user.meta["place"] for user in node.users if user.meta.get("place")), None)
            self._recorder.guards.note(Look.RANGE, subject, 1 << bits, place=place)

    def _is_computed(self, node: Any) -> bool:  # noqa: ANN401
        return node.op == "call_function" and node.target in BOUNDS

    @staticmethod
    def _is_cut(node: Any) -> bool:  # noqa: ANN401
        """Whether a float has been made an int."""
        return bool(node.op == "call_function" and node.target is int)

    @staticmethod
    def _is_size(node: Any) -> bool:  # noqa: ANN401
        return node.target in SIZES or node.target is len

    def _excess(self, bits: int) -> Any:  # noqa: ANN401
        """The first node that may not fit where the ints given are of so many bits; None if all fit."""
        found: dict[Any, int] = {}
        for node in self._ints:
            if not self._is_computed(node):
                found[node] = 1 << (min(bits, SIZE_BITS) if self._is_size(node) else bits)
                continue
            parts = [found.get(one, _bound(one)) for one in node.args]
            found[node] = BOUNDS[node.target](*parts)
            if found[node] > MOST or any(part > MOST for part in parts):
                return node
        return None

    @staticmethod
    def _refused(node: Any) -> CaptureError:  # noqa: ANN401
        place = node.meta.get("place")
        where = ("", 0) if place is None else (place.filename, place.line)
        return CaptureError("an int that does not fit into 64 bits", *where)


def _bound(argument: Any) -> int:  # noqa: ANN401
    """How far from 0 what is no int of the graph is: a constant, or a bool."""
    return abs(argument) if type(argument) is int else 1
