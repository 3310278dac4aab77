"""What effects and results lead to: new objects that must be made, and lists that are met twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.capture.variables import MutationType, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.side_effects import SideEffects


class Reach:
    """Follows values.

    Args:
        side_effects: the table that they are in.

    Attributes:
        variables: those that were met.
        shared: new lists and dicts that were met twice, by identity.
    """

    def __init__(self, side_effects: SideEffects) -> None:
        self._table = side_effects
        self.variables: set[Variable] = set()
        self.shared: dict[int, Any] = {}
        self._met: set[int] = set()

    def of(self, live: Iterable[object]) -> set[Variable]:
        """The variables that effects and some values lead to."""
        values = list(live)
        for item, pending in self._table.store_attr_mutations.items():
            if item.mutation_type is not MutationType.ATTRIBUTE_NEW:
                values += pending.values()
        for change in self._table.log:
            values += [change.key, change.value]
        values += [hook.tensor for hook in self._table.tensor_hooks.values()]
        while values:
            values += self._parts(values.pop(0))
        return self.variables

    def _parts(self, value: Any) -> Iterable[object]:  # noqa: ANN401 (any value)
        """What a value that is met leads to."""
        variable = variable_of(self._table, value)
        if variable is not None:
            return self._of_variable(variable)
        if type(value) in (list, dict):
            if id(value) in self._met:
                self.shared[id(value)] = value
                return ()
            self._met.add(id(value))
        if type(value) is dict:
            return (*value.keys(), *value.values())
        return value if isinstance(value, list | tuple) else ()

    def _of_variable(self, variable: Variable) -> Iterable[object]:
        if variable in self.variables:
            return ()
        self.variables.add(variable)
        if variable.mutation_type is not MutationType.ATTRIBUTE_NEW:
            return ()
        saved = (kept for context, kept, _ in self._table.save_for_backward if context is variable)
        return (*self._table.store_attr_mutations.get(variable, {}).values(), *saved)


def variable_of(side_effects: SideEffects, value: object) -> Variable | None:
    """The variable that a value is, or stands in for; None for other values."""
    if isinstance(value, Variable):
        return value
    return side_effects.id_to_variable.get(id(value))
