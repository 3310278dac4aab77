"""The world as a captured call would leave it, for the next call; the real one stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.containers import contents
from archive.effects.capture.functions import contents_of
from archive.effects.capture.scalars import is_scalar, value_of
from archive.effects.capture.shape import Shape
from archive.effects.capture.variables import ABSENT, DELETED, Kind, MutationType
from archive.effects.capture.world import World

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.variables import Variable


def world_after(recorder: Recorder) -> World:
    """What lives where after a call."""
    return _After(recorder).world()


class _After:
    """Real values for what stood in for them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._world = World()
        self._made: dict[int, Any] = {}

    def world(self) -> World:
        """The world."""
        effects = self._recorder.side_effects
        for variable, pending in list(effects.store_attr_mutations.items()):
            if variable in self._recorder.items and variable.kind is Kind.OBJECT:
                for name, value in pending.items():
                    self._world.set_name(self._recorder.items[variable], name, self._real(value))
        for variable, stand_in in self._recorder.stand_ins.items():
            if variable.kind in (Kind.LIST, Kind.DICT) and effects.is_modified(variable):
                self._world.set_contents(self._recorder.items[variable], self._inside(contents(stand_in)))
        for one in self._recorder.tape.changed():
            self._world.set_contents(one.original, one.stand_in.detach().clone())
        self._functions()
        return self._world

    def _functions(self) -> None:
        """What copied functions have in their globals and cells."""
        for names in self._recorder.functions.global_values():
            for name, value in names.noted.items():
                self._world.set_name(names.real, name, self._real(value))
        for cell, fresh in self._recorder.functions.cell_values():
            value = contents_of(fresh)
            if value is not ABSENT:
                self._world.set_contents(cell, self._real(value))

    def _real(self, value: Any) -> Any:  # noqa: ANN401
        if value is DELETED:
            return value
        if is_scalar(value):
            return value_of(value)
        if isinstance(value, torch.Tensor):
            given = self._recorder.tape.input_of(value)
            return value if given is None else given.original
        variable = self._recorder.side_effects.id_to_variable.get(id(value))
        if variable is not None:
            return self._of_variable(variable, value)
        return self._inside(value)

    def _of_variable(self, variable: Variable, stand_in: Any) -> Any:  # noqa: ANN401
        recorder = self._recorder
        if variable.mutation_type is not MutationType.ATTRIBUTE_NEW:
            return recorder.items.get(variable, stand_in)
        if id(stand_in) not in self._made:
            cls = type(stand_in).__mro__[2]
            made: Any = object.__new__(cls)
            self._made[id(stand_in)] = made
            for name, value in recorder.side_effects.store_attr_mutations.get(variable, {}).items():
                self._world.set_name(made, name, self._real(value))
        return self._made[id(stand_in)]

    def _inside(self, value: Any) -> Any:  # noqa: ANN401
        """Lists, tuples and dicts with real items."""
        if isinstance(value, tuple):
            items = list(map(self._real, value))
            if type(value) is Shape:
                return torch.Size(items)
            return tuple(items) if type(value) is tuple else tuple.__new__(type(value), items)
        if id(value) in self._made:
            return self._made[id(value)]
        if type(value) is list:
            made = self._noted(value, [])
            made.extend(map(self._real, value))
            return made
        if type(value) is dict:
            made = self._noted(value, {})
            made.update({key: self._real(one) for key, one in value.items()})
            return made
        return value

    def _noted(self, value: object, made: Any) -> Any:  # noqa: ANN401
        """What is made for a list or dict, which may hold itself."""
        self._made[id(value)] = made
        self._world.alive.append(value)
        return made
