"""The reach of effects and results: objects that replay must make, and lists and dicts met twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.capture.variables import MutationType, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.pending import PendingEffects


class Reach:
    """Walks from values to all that they hold.

    Args:
        effects: the table that the values are in.

    Attributes:
        variables: those that were met.
        shared: new lists and dicts that were met twice, by identity.
    """

    def __init__(self, effects: PendingEffects) -> None:
        self._effects = effects
        self.variables: set[Variable] = set()
        self.shared: dict[int, Any] = {}
        self._met: set[int] = set()

    def of(self, live: Iterable[object]) -> set[Variable]:
        """The variables that effects and some values lead to.

        Args:
            live: the values.
        """
        values = list(live)
        for item, pending in self._effects.store_attr_mutations.items():
            if item.mutation_type is not MutationType.ATTRIBUTE_NEW:
                values += pending.values()
        for mutation in self._effects.log:
            values += [mutation.key, mutation.value]
        values += [hook.tensor for hook in self._effects.tensor_hooks.values()]
        while values:
            values += self._parts(values.pop(0))
        return self.variables

    def _parts(self, value: Any) -> Iterable[object]:  # noqa: ANN401 (any value)
        """The values that a value holds; none if it was met before."""
        variable = self._effects.variable_of(value)
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
        """The values that a new object holds."""
        if variable in self.variables:
            return ()
        self.variables.add(variable)
        if variable.mutation_type is not MutationType.ATTRIBUTE_NEW:
            return ()
        saved = (kept for context, kept, _ in self._effects.save_for_backward if context is variable)
        return (*self._effects.store_attr_mutations.get(variable, {}).values(), *saved)
