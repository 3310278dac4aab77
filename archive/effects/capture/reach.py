"""The reach of effects and results: objects that replay must make, and lists and dicts met twice."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from archive.effects.capture.made_list import MadeList
from archive.effects.capture.proxy_bases import inner_of, is_container_proxy
from archive.effects.capture.variables import MutationType, Recipe, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.pending import PendingEffects


SHARED = (list, dict, deque, OrderedDict, defaultdict, set)
"""Types of containers that the call makes, and that may stand in several places."""


class Reach:
    """Walks from values to all that they hold.

    Args:
        effects: the table that the values are in.

    Attributes:
        variables: those that were met.
        shared: new containers that were met twice, by identity.
        objects: new objects, by their variables.
    """

    def __init__(self, effects: PendingEffects) -> None:
        self._effects = effects
        self.variables: set[Variable] = set()
        self.shared: dict[int, Any] = {}
        self.objects: dict[Variable, Any] = {}
        self._lists: dict[int, Any] = {}

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
        for hook in self._effects.tensor_hooks.values():
            values += [hook.tensor, hook.function]
        for one in self._effects.backwards:
            values += [one.context, one.results, one.arguments]
        for each in self._effects.backward_hooks:
            values += [each.module, *each.hooks, *each.pre_hooks, *each.inputs, *each.outputs]
        while values:
            values += self._parts(values.pop(0))
        return self.variables

    def _parts(self, value: Any) -> Iterable[object]:  # noqa: ANN401 (any value)
        """The values that a value holds; none if it was met before."""
        if isinstance(value, Recipe):
            return value.items
        variable = self._effects.variable_of(value)
        if variable is not None:
            return self._of_variable(variable, value)
        if type(value) in SHARED or isinstance(value, MadeList):
            if id(value) in self._lists:
                self.shared[id(value)] = value
                return ()
            self._lists[id(value)] = value
        return value.contents() if isinstance(value, MadeList) else parts(value)

    def parts_of(self, result: object) -> Iterable[MadeList]:
        """The lists of unknown length, made by the call, that effects and the result lead to."""
        self.of([result])
        return (one for one in self._lists.values() if isinstance(one, MadeList))

    def _of_variable(self, variable: Variable, value: object) -> Iterable[object]:
        """The values that a new object holds."""
        if variable in self.variables:
            return ()
        self.variables.add(variable)
        if variable.mutation_type is not MutationType.ATTRIBUTE_NEW:
            return ()
        for hook, _ in self._effects.taken_off:
            if hook.handle is variable:
                return hook.tensor, hook.function
        self.objects[variable] = value
        saved = (kept for context, kept, _ in self._effects.save_for_backward if context is variable)
        held = parts(inner_of(value)) if is_container_proxy(value) else ()
        return (*self._effects.store_attr_mutations.get(variable, {}).values(), *saved, *held)


def parts(value: Any) -> Iterable[object]:  # noqa: ANN401
    """The values in a list, tuple, deque or dict; sets hold constants alone."""
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    return value if isinstance(value, list | tuple | deque) else ()
