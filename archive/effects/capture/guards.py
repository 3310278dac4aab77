"""What a captured call relies on: noted as the model reads it, checked at each later call."""

from __future__ import annotations

import dis
import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.scalars import value_of
from archive.effects.capture.sites import Place, position_of, span_of
from archive.effects.looking import FOUND, SETTINGS, setting
from archive.formats.effects.model import Attribute, ClosureCell, GlobalName, Item, Local, Look, Temporary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType

    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.sites import Position
    from archive.effects.capture.tape import Input
    from archive.formats.effects.model import Literal, Source

    Held = list[tuple[Look, object, Any, Literal, Place | None]]

LITERALS = (bool, int, float, str, bytes, type(None))
SOURCES = (Local, Attribute, Item, GlobalName, ClosureCell, Temporary)
WITHOUT_MODES = torch._C.DisableTorchFunction
METADATA = frozenset(
    (
        Look.TYPE,
        Look.DIM,
        Look.SIZE,
        Look.SHAPE,
        Look.STRIDE,
        Look.DTYPE,
        Look.KIND,
        Look.DEVICE,
        Look.REQUIRES_GRAD,
    )
)
"""Looks at tensors; of those that the graph keeps itself, nothing need be checked."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A guard while the call is captured.

    Attributes:
        look: what is looked at.
        subject: a source; else what the graph makes; None for settings.
        value: what was seen; a source for ``SAME`` and ``APART``.
        key: see ``Look``.
        place: the model's statement.
    """

    look: Look
    subject: object
    value: Any
    key: Literal = None
    place: Place | None = None


class Guards:
    """Notes what a call relies on, each thing once, where the model first does.

    Args:
        recorder: of the call.

    Attributes:
        settings: of PyTorch, before the call.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.settings = {name: setting(name) for name in SETTINGS}
        self._noted: dict[tuple[object, ...], Assumption] = {}
        self._first_read: dict[str, Place] = {}
        self._unread: set[str] = set()
        self._sink: Held | None = None

    def note(
        self,
        look: Look,
        subject: object,
        value: Any,  # noqa: ANN401
        key: Literal = None,
        place: Place | None = None,
    ) -> None:
        """Note a guard."""
        other = value if look in (Look.SAME, Look.APART) else None
        known = (look, subject if isinstance(subject, SOURCES) else id(subject), key, other)
        if self._sink is not None:
            self._sink.append((look, subject, value, key, place))
        elif known not in self._noted:
            place = place or self._recorder.here() or self._argument_place(subject)
            self._noted[known] = Assumption(look, subject, value, key, place)

    @contextmanager
    def held(self) -> Iterator[Held]:
        """Hold back what is noted: it is relied on once it is read."""
        before, self._sink = self._sink, []
        try:
            yield self._sink
        finally:
            self._sink = before

    def release(self, held: Held) -> None:
        """Note what was held back."""
        for one in held:
            self.note(*one)
        held.clear()

    def tensor(self, one: Input, look: Look, key: Literal = None) -> None:
        """Rely on what a tensor is that was there before the call."""
        with WITHOUT_MODES():
            value = FOUND[look](one.original, key)
        self.note(look, one.source, value, key)

    def setting(self, name: str) -> None:
        """Rely on a setting of PyTorch, as it was before the call."""
        self.note(Look.SETTING, None, self.settings[name], name)

    def number(self, scalar: Any) -> None:  # noqa: ANN401
        """Rely on a number that arguments and sizes make."""
        origin = scalar._origin
        if origin is None:
            self.note(Look.EQUAL, scalar, value_of(scalar))
        elif origin[1] is None:
            self.note(Look.EQUAL, origin[0], value_of(scalar))
        else:
            self.note(Look.SIZE, origin[0], value_of(scalar), origin[1])

    def constant(self, value: Any, source: Source, place: Place | None = None) -> None:  # noqa: ANN401
        """Rely on a value that nobody can change, where it lives."""
        if literal(value):
            self.note(Look.EQUAL, source, value, None, place)
        else:
            self.note(Look.TEXT, source, str(value), None, place)

    def items(self, value: Any, source: Source) -> None:  # noqa: ANN401
        """Rely on how many items a list or tuple has."""
        self.note(Look.TYPE, source, "tuple" if isinstance(value, tuple) else type(value).__name__)
        self.note(Look.LENGTH, source, len(value))

    # --- arguments ---------------------------------------------------------------------------------

    def name_arguments(self, function: Any, names: Iterable[str]) -> None:  # noqa: ANN401
        """Find where a method first reads each of its arguments."""
        own = inspect.unwrap(function)
        code = getattr(own, "__code__", None)
        if code is None:
            return
        for name in names:
            position = first_read(code, name)
            if position is not None:
                self._first_read[name] = Place(code.co_filename, position[0], span_of(code, position))
            elif own is function:
                self._unread.add(name)

    def is_read(self, name: str) -> bool:
        """Whether the method, or what is around it, may read an argument."""
        return name not in self._unread

    def _argument_place(self, subject: object) -> Place | None:
        while isinstance(subject, Attribute | Item):
            subject = subject.base
        return self._first_read.get(subject.name) if isinstance(subject, Local) else None

    # --- the whole ---------------------------------------------------------------------------------

    def settled(self, fixed: Iterable[Source]) -> list[Assumption]:
        """What must be checked at each call.

        Args:
            fixed: tensors that the graph keeps itself.
        """
        kept = set(fixed)
        noted = list(self._noted.values())
        return [
            one
            for one in noted
            if not isinstance(one.subject, SOURCES)
            or (self._can_be_told(one.subject) and not (one.look in METADATA and one.subject in kept))
        ]

    def _can_be_told(self, source: Source) -> bool:
        """Whether a table can say where something lives, and replay may look there."""
        place: Source = source
        while isinstance(place, Attribute | Item):
            if isinstance(place, Item) and not literal(place.key):
                return False
            if isinstance(place, Attribute) and place.name[:2] == place.name[-2:] == "__":
                return False
            place = place.base
        if isinstance(place, ClosureCell):
            return place not in self._recorder.functions.ambiguous
        if isinstance(place, GlobalName):
            return place.name.isidentifier() and place.name[:2] != "__"
        return not isinstance(place, Temporary)


def literal(value: object) -> bool:
    """Whether a table can hold a value as a constant."""
    if type(value) is tuple:
        return all(map(literal, value))
    return type(value) in LITERALS


def followed(value: Any) -> bool:  # noqa: ANN401
    """Whether a list, tuple or dict holds nothing but what a table can hold."""
    if type(value) is dict:
        return all(map(literal, value)) and all(map(followed, value.values()))
    if type(value) in (list, tuple, torch.Size):
        return all(map(followed, value))
    return isinstance(value, torch.Tensor) or literal(value)


@cache
def first_read(code: CodeType, name: str) -> Position | None:
    """Where some code first reads a variable; None if it doesn't."""
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.opname.startswith("LOAD_"):
            return position_of(code, instruction.offset // 2)
    return None
