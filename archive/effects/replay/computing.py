"""Sources and values of a method as functions that read and compute them, in the order of a call.

A call has a *frame*, a list: the state, the graph's outputs, the method's arguments by name, ``ABSENT``, and
a slot for each constant, source and value. Facts of the table become functions of the frame, made from the
few defined here: nothing of the table becomes text that Python would run.

A source is read once, before the first change. Temporaries are created before the first change, too, but what
is at or below one is read late: right before the change that needs it, each time.
"""

from __future__ import annotations

from functools import partial
from types import CellType, MethodType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from archive.effects.errors import StateError
from archive.effects.looking import check_shown, checked_int, checked_tensor, operation
from archive.effects.placeholders import ABSENT
from archive.effects.places import attribute, checked_data, has_names, item, items, length
from archive.effects.replay.classes import TORCH_NAMED, factory, real_literal, tuple_maker
from archive.effects.replay.hooks import made_function
from archive.formats.effects.containers import CONTAINER_CLASSES, PAIRED, contents, parameter
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    GlobalName,
    Item,
    Length,
    Local,
    Made,
    New,
    Output,
    Temporary,
)
from archive.formats.effects.parts import root_of
from archive.formats.effects.rows import FactNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from archive.effects.replay.classes import Allowed
    from archive.effects.replay.state import State
    from archive.formats.effects.model import Literal, Source, Value

Frame: TypeAlias = list[Any]
Compute: TypeAlias = "Callable[[Frame], Any]"

PLAIN_MAKERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "size": lambda inside: torch.Size(map(checked_int, inside)),
    "frozenset": frozenset,
    **CONTAINER_CLASSES,
}
"""Classes of containers that are made from their items."""
STATE, OUT, ARGUMENTS, NOTHING = range(4)
"""Slots that each frame has; ``NOTHING`` is for an operand that an effect does not have."""


class Computing:
    """What a call computes, step by step.

    Args:
        code: the functions that hooks name, and code of hooks by name and digest.

    Attributes:
        steps: what is computed before the first change: number of the effect or guard, slot, function.
        late: what is computed right before the next change: slot, function.
        at: number of the effect or guard that steps are added for.
    """

    def __init__(
        self,
        defaults: Mapping[str, Literal],
        allow: Allowed = (),
        code: Mapping[str | tuple[str, str], object] | None = None,
    ) -> None:
        self.steps: list[tuple[int, int, Compute]] = []
        self.late: list[tuple[int, Compute]] = []
        self.at = -1
        self._template: Frame = [None, None, None, ABSENT]
        self._defaults = defaults
        self._allow = allow
        self._code = {} if code is None else code
        self._numbering = FactNumbers()
        self._sources: dict[int, int] = {}
        self._values: dict[int, int] = {}
        self._temporaries: dict[int, int] = {}

    def frame(self, state: State, out: object, arguments: Mapping[str, object]) -> Frame:
        """A frame for one call."""
        frame = self._template.copy()
        frame[STATE], frame[OUT], frame[ARGUMENTS] = state, out, arguments
        return frame

    def take_late(self) -> tuple[tuple[int, Compute], ...]:
        """Return and clear what must be computed right before the next change."""
        late, self.late = self.late, []
        return tuple(late)

    def constant(self, value: object) -> int:
        """The slot of a value that is the same in each call."""
        self._template.append(value)
        return len(self._template) - 1

    def compute(self, function: Compute, *, late: bool = False) -> int:
        """A new slot for the result of a function."""
        slot = self.constant(ABSENT)
        if late:
            self.late.append((slot, function))
        else:
            self.steps.append((self.at, slot, function))
        return slot

    # --- sources -----------------------------------------------------------------------------------

    def temporary(self, number: int) -> int:
        """The slot of a temporary."""
        if number not in self._temporaries:
            self._temporaries[number] = self.constant(ABSENT)
        return self._temporaries[number]

    def source(self, source: Source) -> int:
        """The slot of the value at a source."""
        if isinstance(source, Temporary):
            return self.temporary(source.number)
        if isinstance(root_of(source), Temporary):
            return self.compute(self._place(source), late=True)
        number = self._numbering.source(source)
        if number not in self._sources:
            self._sources[number] = self.compute(self._place(source))
        return self._sources[number]

    def _place(self, source: Source) -> Compute:
        """A function that reads a source."""
        allow = self._allow
        match source:
            case Attribute(base, name):
                return _attribute(self.source(base), name, permitted=isinstance(base, GlobalName))
            case Item(base, given):
                key = real_literal(given)
                holder = self.source(base)
                return lambda frame: item(frame[holder], key)
            case Length(base):
                holder = self.source(base)
                return lambda frame: length(frame[holder])
            case GlobalName(module, name):
                return lambda frame: frame[STATE].global_(module, name, allow)
            case ClosureCell(function, name):
                return lambda frame: frame[STATE].cell(function, name).cell_contents
            case Local("self"):
                return lambda frame: frame[STATE].roots["self"]
            case Local(name) if name in self._defaults:
                default = self._defaults[name]
                return lambda frame: frame[ARGUMENTS].get(name, default)
            case Local(name):
                return lambda frame: frame[STATE].argument(frame[ARGUMENTS], name)
        raise StateError("no place that can be read")

    # --- values ------------------------------------------------------------------------------------

    def value(self, value: Value) -> int:
        """The slot of a value."""
        match value:
            case Constant(literal):
                return self.constant(real_literal(literal))
            case New(number):
                return self.temporary(number)
            case At(Local() | Temporary() | Length() | GlobalName() as source):
                return self.source(source)
        waiting = len(self.late)
        function = self._function(value)
        return self.compute(function, late=len(self.late) > waiting)

    def _function(self, value: Value) -> Compute:
        """A function that returns a value; containers are made at each call."""
        match value:
            case Output(index):
                return lambda frame: frame[OUT][index]
            case At(Attribute() | Item() | ClosureCell() as source):
                slot = self.source(source)
                return lambda frame: checked_data(frame[slot])
            case Made("inference", (inner,)):
                make = self._function(inner)
                slot = self._once(value, lambda: lambda frame: inference(make(frame)))
                return lambda frame: frame[slot]
            case Made("dtype" | "device" as kind, (Constant(text),)):
                named = TORCH_NAMED[kind]
                return lambda _: named(str(text))
            case Made(kind, parts):
                return self._made(value, [self._function(part) for part in parts])
        slot = self.value(value)
        return lambda frame: frame[slot]

    def _made(self, made: Made, parts: list[Compute]) -> Compute:
        """A function that makes a container, or a text."""
        kind = made.kind
        inside = parts[len(parts) - len(contents(made)) :]
        if kind == "format":
            template = str(template_of(made))
            return lambda frame: formatted(template, [item(frame) for item in inside[1:]])
        if kind in PAIRED:
            pairs = list(zip(inside[::2], inside[1::2], strict=True))
            make = self._maker(made)
            return lambda frame: make({key(frame): item(frame) for key, item in pairs})
        make = self._maker(made)
        return lambda frame: make([item(frame) for item in inside])

    def _maker(self, made: Made) -> Callable[[Any], Any]:
        """A function that makes a container from its items."""
        kind, which = made.kind, parameter(made)
        if kind == "defaultdict":
            missing = factory(which, self._allow)
            return lambda inside: CONTAINER_CLASSES[kind](missing, inside)
        if kind == "deque":
            return lambda inside: CONTAINER_CLASSES[kind](inside, which)
        if kind == "namedtuple":
            fields: Any = parameter(made, 1)
            return tuple_maker(str(which), fields, self._allow)
        return PLAIN_MAKERS[kind]

    def snapshot(self, value: Value, changed: Iterable[Source]) -> int:
        """The slot of a tensor to copy from, cloned if an earlier effect changes it.

        Args:
            changed: sources of the tensors that earlier effects change in place.
        """
        waiting = len(self.late)
        slot = self.value(value)
        tensors = list(changed)
        if not tensors:
            return slot
        if isinstance(value, At):
            return self.compute(
                lambda frame: checked_tensor(frame[slot]).clone(), late=len(self.late) > waiting
            )
        others = [self.source(source) for source in tensors]
        return self.compute(
            lambda frame: cloned_if_changed(frame[slot], [frame[other] for other in others]),
            late=len(self.late) > waiting,
        )

    # --- hooks -------------------------------------------------------------------------------------

    def hooks(self, key: Value) -> int:
        """The slot of a hook, or of tuples of them."""
        waiting = len(self.late)
        function = self._hooks(key)
        return self.compute(function, late=len(self.late) > waiting)

    def _hooks(self, key: Value) -> Compute:
        if not isinstance(key, Made) or key.kind != "tuple":
            return self._hook(key)
        several = [self._hooks(item) for item in key.items]
        return lambda frame: tuple([hook(frame) for hook in several])

    def _hook(self, hook: Value) -> Compute:
        if isinstance(hook, Constant):
            named = self._code[str(hook.value)]
            return lambda _: named
        assert isinstance(hook, Made)  # noqa: S101 (checked)
        inner, *rest = hook.items
        if hook.kind == "function":
            return self._made_function(hook)
        function = self._hook(inner)
        given = [self._function(part) for part in rest]
        if hook.kind == "method":
            return lambda frame: MethodType(function(frame), given[0](frame))
        return lambda frame: partial(function(frame), *given[0](frame), **given[1](frame))

    def _made_function(self, hook: Made) -> Compute:
        name, digest, defaults, named, cells, _ = hook.items
        assert isinstance(name, Constant)  # noqa: S101 (checked)
        assert isinstance(digest, Constant)  # noqa: S101 (checked)
        assert isinstance(cells, Made)  # noqa: S101 (checked)
        code: Any = self._code[str(name.value), str(digest.value)]
        given, by_name = self._function(defaults), self._function(named)
        closure = [self._cell(item) for item in cells.items]
        return lambda frame: made_function(
            frame[STATE], code, given(frame), by_name(frame), tuple([cell(frame) for cell in closure])
        )

    def _cell(self, cell: Value) -> Compute:
        """A cell of its own, or one of the model's."""
        if isinstance(cell, Made):
            inside = self._function(cell.items[0])
            return lambda frame: CellType(inside(frame))
        assert isinstance(cell, At)  # noqa: S101 (checked)
        assert isinstance(cell.source, ClosureCell)  # noqa: S101 (checked)
        function, name = cell.source.function, cell.source.name
        return lambda frame: frame[STATE].cell(function, name)

    # --- guards ------------------------------------------------------------------------------------

    def compared(self, value: Value) -> int:
        """The slot of a guard's subject or value.

        A guard only compares, so it may see code for which it has no permission.
        """
        match value:
            case At(source) if isinstance(root_of(source), GlobalName):
                return self._below_global(source)
            case At(source):
                return self.source(source)
            case Computed():
                return self._once(value, lambda: self._operation(value))
        return self.value(value)

    def listed(self, source: Source) -> int:
        """The slot of the items of a list, each of which a guard compares."""
        slot = self.compared(At(source))
        return self.compute(lambda frame: items(frame[slot]))

    def _operation(self, value: Computed) -> Compute:
        compute, operands = operation(value.op), [self.compared(item) for item in value.items]
        if len(operands) == 2:  # noqa: PLR2004 (as most have, and a call of two is much faster)
            left, right = operands
            return lambda frame: compute(frame[left], frame[right])
        return lambda frame: compute(*[frame[slot] for slot in operands])

    def _below_global(self, source: Source) -> int:
        return self._once(At(source), lambda: self._place_below_global(source))

    def _once(self, value: Value, make: Callable[[], Compute]) -> int:
        """The slot of a value that is computed once, however often equal ones are asked for."""
        number = self._numbering.value(value)
        if number not in self._values:
            self._values[number] = self.compute(make())
        return self._values[number]

    def _place_below_global(self, source: Source) -> Compute:
        if isinstance(source, GlobalName):
            module, global_name = source.module, source.name
            return lambda frame: frame[STATE].names(module)[global_name]
        if not isinstance(source, Attribute | Item | Length):
            raise StateError("no place that can be read")
        holder = self._below_global(source.base)
        match source:
            case Attribute(_, name):
                return _attribute(holder, name, permitted=True)
            case Item(_, given):
                key = real_literal(given)
                return lambda frame: item(frame[holder], key)
        return lambda frame: length(frame[holder])


def _attribute(holder: int, name: str, *, permitted: bool) -> Compute:
    """A function that reads an attribute; for classes seen before, by a look into ``__dict__``.

    Those of classes and Python modules need permission: what they hold isn't the state's.
    """
    plain: set[type] = set()

    def read(frame: Frame) -> Any:
        value = frame[holder]
        kind = type(value)
        if kind in plain:
            attribute_value = value.__dict__.get(name, ABSENT)
            if attribute_value is not ABSENT:
                return attribute_value
        elif has_names(kind):
            plain.add(kind)
        return attribute(value if permitted else checked_data(value), name)

    return read


def template_of(made: Made) -> object:
    """The first item of a text made of values: its template."""
    first = made.items[0]
    return first.value if isinstance(first, Constant) else ""


def formatted(template: str, values: list[Any]) -> str:
    """A text made from values, none of which has a class that somebody wrote."""
    check_shown(*values)
    return template.format(*values)


def inference(tensor: Any) -> Any:
    """A copy of a tensor, as if it were made in inference mode."""
    with torch.inference_mode():
        return tensor.clone()


def cloned_if_changed(value: Any, changed: list[Any]) -> Any:
    """A tensor, or a copy of it if it is one of those changed in place before it is copied from."""
    return checked_tensor(value).clone() if any(value is tensor for tensor in changed) else value
