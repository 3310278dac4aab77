"""Which variable stands for which object: found by the object's identity, which is kept in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.effects.capture.variables import ABSENT, Kind, Variable

if TYPE_CHECKING:
    from archive.formats.effects.model import Source


class Tracking:
    """Variables of objects, one for each.

    Attributes:
        id_to_variable: by the identity of objects.
        keepalive: objects whose identities are in use.
    """

    def __init__(self) -> None:
        self.id_to_variable: dict[int, Variable] = {}
        self.keepalive: list[object] = []

    def _track(self, variable: Variable, *items: object) -> Variable:
        for item in items:
            if id(item) in self.id_to_variable:
                raise ValueError(f"{item!r} is already tracked, as {self.id_to_variable[id(item)]}")
            self.id_to_variable[id(item)] = variable
            self.keepalive.append(item)
        return variable

    def track_list(self, item: object, source: Source, *stand_ins: object) -> Variable:
        """Follow a list; what stands in for it in the call is followed as the same."""
        return self._track(Variable(Kind.LIST, source), item, *stand_ins)

    def track_dict(self, item: object, source: Source, *stand_ins: object) -> Variable:
        """Follow a dict."""
        return self._track(Variable(Kind.DICT, source), item, *stand_ins)

    def track_object_existing(self, item: object, source: Source, *stand_ins: object) -> Variable:
        """Follow an object that was there before the call."""
        return self._track(Variable(Kind.OBJECT, source), item, *stand_ins)

    def track_object_new(self, item: object, class_name: str) -> Variable:
        """Follow an object that the call has made, of the class ``module:qualname``."""
        return self._track(Variable(Kind.OBJECT, None, class_name), item)

    def track_cell_new(self) -> Variable:
        """Follow a cell that the call has made."""
        return self._track(Variable(Kind.CELL), object())

    def track_cell_existing(self, source: Source, cell: object, contents: object = ABSENT) -> Variable:
        """Follow a cell that was there before the call."""
        return self._track(Variable(Kind.CELL, source, contents=contents), cell)

    def track_global_existing(self, source: Source, item: object) -> Variable:
        """Follow a global; what it is known by is an object that stands for the name."""
        return self._track(Variable(Kind.GLOBAL, source), item)

    def track_other(self, item: object, source: Source | None, *stand_ins: object) -> Variable:
        """Know where a function, class or the like lives."""
        return self._track(Variable(Kind.OTHER, source), item, *stand_ins)

    def __contains__(self, item: object) -> bool:
        return id(item) in self.id_to_variable

    def __getitem__(self, item: object) -> Variable:
        return self.id_to_variable[id(item)]
