"""What the model gets for what it reads."""

from __future__ import annotations

import enum
import random
import re
from collections import OrderedDict
from functools import partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

import torch

from archive.effects.capture.containers import TrackedList
from archive.effects.capture.functions import model_code
from archive.effects.capture.guards import followed
from archive.effects.capture.open_list import OpenList
from archive.effects.capture.scalars import NUMBERS, is_scalar
from archive.effects.capture.shape import Shape
from archive.effects.capture.stand_ins import ClassStandIn, Untouchable, object_stand_in, to_follow
from archive.effects.capture.tracked_dict import TrackedDict
from archive.effects.looking import type_name
from archive.formats.effects.model import Attribute, Item, Local, Look

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder
    from archive.formats.effects.model import Source

SAFE = (
    str,
    bytes,
    type(None),
    complex,
    slice,
    range,
    frozenset,
    enum.Enum,
    re.Pattern,
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    BuiltinFunctionType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)
"""What nobody can change, and is passed on as it is."""
CODE = (BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
"""Functions among it, which are the model itself."""


class Wrapping:
    """Wraps values: once for each object, and for what calls write once for each place.

    Args:
        recorder: of the call.

    Attributes:
        paths: where a module's own modules, parameters and buffers are, by identity.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.paths: dict[int, Source] = {}
        self._by_source: dict[Source, Any] = {}
        self._tensors: dict[int, tuple[Any, Source | None]] = {}

    def name_paths(self, module: Any) -> None:  # noqa: ANN401
        """Let a module's own modules, parameters and buffers be known by their paths in it."""
        for path, one in [
            *module.named_modules(),
            *module.named_parameters(),
            *module.named_buffers(),
        ]:
            source: Source = Local("self")
            for name in path.split(".") if path else ():
                source = Attribute(source, name)
            self.paths.setdefault(id(one), source)

    def volatile(self, source: Source | None) -> bool:
        """Whether calls change what lives somewhere, or what it is in."""
        while source is not None:
            if source in self._recorder.written:
                return True
            if isinstance(source, Item) and source.base in self._recorder.mutated:
                return True
            source = source.base if isinstance(source, Attribute | Item) else None
        return False

    def wrap(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401, C901, PLR0911, PLR0912
        """What the model gets for a value.

        Args:
            value: of the real world.
            source: where it lives; None for what is the same in each call, such as a default.
        """
        if source is not None:
            self._recorder.originals.setdefault(source, value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, source)
        if type(value) in NUMBERS:
            return self._number(value, source)
        if value is random or isinstance(getattr(value, "__self__", None), random.Random):
            return Untouchable(self._recorder, "generator of random numbers")
        if isinstance(value, SAFE):
            if source is not None and not isinstance(value, CODE):
                self._recorder.guards.constant(value, source)
            return value
        known = self._recorder.side_effects.id_to_variable.get(id(value))
        if known is not None:
            if source is not None and known.source is not None and known.source != source:
                self._recorder.aliases.setdefault(source, known.source)
            return self._recorder.stand_ins[known]
        if isinstance(value, tuple):
            if source is not None and followed(value):
                self._recorder.guards.items(value, source)
            items = [
                self.wrap(one, None if source is None else Item(source, place))
                for place, one in enumerate(value)
            ]
            if type(value) is torch.Size:
                return Shape(items) if any(map(is_scalar, items)) else value
            return tuple(items) if type(value) is tuple else tuple.__new__(type(value), items)
        if type(value) in (list, dict) and source is not None:
            return self._container(value, source)
        if isinstance(value, FunctionType):
            return self._other(value, self._recorder.functions.copy(value), source)
        if isinstance(value, MethodType):
            return self._method(value, source)
        if isinstance(value, type):
            if model_code(value.__module__) and ClassStandIn.stands_for(value):
                return self._other(value, ClassStandIn(self._recorder, value), source)
            return value
        if isinstance(value, ModuleType):
            if model_code(value.__name__):
                return self._other(value, self._recorder.functions.namespace(value), source)
            return value
        return self._object(value, source)

    def _object(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401
        if type(value) is OrderedDict and not value:
            return MappingProxyType({})
        if type(value) is partial:
            function, *args = (self.wrap(one, None) for one in (value.func, *value.args))
            return partial(
                function, *args, **{name: self.wrap(one, None) for name, one in value.keywords.items()}
            )
        if isinstance(value, ReferenceType):
            target = value()
            return lambda: self.wrap(target, self.paths.get(id(target)))
        if source is None:
            source = self.paths.get(id(value))
        if not to_follow(value) or source is None:
            return Untouchable(self._recorder, type(value).__qualname__)
        source = self.paths.get(id(value), source)
        stand_in = object_stand_in(self._recorder, type(value))
        variable = self._recorder.side_effects.track_object_existing(value, source, stand_in)
        self._recorder.stand_ins[variable], self._recorder.items[variable] = stand_in, value
        return stand_in

    def _other(self, value: object, stand_in: Any, source: Source | None) -> Any:  # noqa: ANN401
        if stand_in is value:
            return value
        if id(value) not in self._recorder.side_effects.id_to_variable:
            variable = self._recorder.side_effects.track_other(value, source, stand_in)
            self._recorder.stand_ins[variable], self._recorder.items[variable] = stand_in, value
        return stand_in

    def _method(self, value: MethodType, source: Source | None) -> Any:  # noqa: ANN401
        owner = self.wrap(value.__self__, Attribute(source, "__self__") if source is not None else None)
        function = value.__func__
        if isinstance(function, FunctionType):
            return MethodType(self._recorder.functions.copy(function), owner)
        return value

    def _container(self, value: Any, source: Source) -> Any:  # noqa: ANN401
        is_open = source in self._recorder.resized
        stand_in: Any
        if type(value) is dict:
            stand_in = TrackedDict(self._recorder, source, is_open=is_open)
            variable = self._recorder.side_effects.track_dict(value, source, stand_in)
        else:
            stand_in = OpenList(self._recorder, source) if is_open else TrackedList(self._recorder, source)
            variable = self._recorder.side_effects.track_list(value, source, stand_in)
        self._recorder.stand_ins[variable], self._recorder.items[variable] = stand_in, value
        self._recorder.met[variable] = self._recorder.here()
        stand_in.fill(self._recorder.world.contents(value))
        return stand_in

    def _number(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401
        if source is None:
            return value
        if not self.volatile(source):
            self._recorder.guards.constant(value, source)
            return value
        if source not in self._by_source:
            self._by_source[source] = self._recorder.tape.scalar_input(source, value)
            self._recorder.guards.note(Look.TYPE, source, type(value).__name__)
        return self._by_source[source]

    def _tensor(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401
        if source is not None and self.volatile(source):
            if source not in self._by_source:
                data = self._recorder.world.tensor(value)
                self._by_source[source] = self._recorder.tape.tensor_input(source, value, data)
                self._recorder.guards.note(Look.TYPE, source, type_name(value))
            return self._by_source[source]
        if id(value) not in self._tensors:
            place = self.paths.get(id(value), source)
            data = self._recorder.world.tensor(value)
            made = (
                self._recorder.tape.constant(data)
                if place is None
                else self._recorder.tape.tensor_input(place, value, data)
            )
            self._tensors[id(value)] = made, place
            self._recorder.side_effects.keepalive.append(value)
        stand_in, first = self._tensors[id(value)]
        if first is not None:
            self._recorder.guards.note(Look.TYPE, first, type_name(value))
        if source is not None and first is not None and source != first:
            self._recorder.aliases.setdefault(source, first)
        return stand_in

    def argument(self, value: Any, source: Source) -> Any:  # noqa: ANN401
        """What the model gets for an argument: ints and floats differ from call to call."""
        guards = self._recorder.guards
        if isinstance(source, Local) and not guards.is_read(source.name):
            return value
        if type(value) in (int, float):
            guards.note(Look.TYPE, source, type(value).__name__)
            return self._recorder.tape.scalar_input(source, value, free=True)
        return self.wrap(value, source)
