"""The effects of one call as a whole: pruned, copied, compared, and flattened to plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.effects.capture.graph.variables import MutationType, Variable
from archive.effects.capture.table.flattening import Flat, Flattening
from archive.effects.capture.table.pending import PendingEffects, Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from archive.debuginfo.sites import Site
    from archive.formats.effects.model import MethodEffects, Source


class SideEffects(PendingEffects):
    """The table of one call's effects; see ``PendingEffects`` for arguments and attributes."""

    def prune_dead_object_new(self, live: Iterable[object] = ()) -> None:
        """Forget new objects that no effect, not the result and no live value leads to.

        Args:
            live: values to keep beside the result.
        """
        reached = Reach(self).of([self.result, *live])
        dead = [
            number
            for number, variable in self.id_to_variable.items()
            if variable.mutation_type is MutationType.ATTRIBUTE_NEW and variable not in reached
        ]
        gone = {self.id_to_variable.pop(number) for number in dead}
        self.store_attr_mutations = {
            item: pending for item, pending in self.store_attr_mutations.items() if item not in gone
        }
        self.stores = {key: value for key, value in self.stores.items() if key[0] not in gone}
        self.save_for_backward = [one for one in self.save_for_backward if one[0] not in gone]

    def clone(self) -> SideEffects:
        """A copy that changes by itself; it shares the variables."""
        copy = SideEffects(self.method, self.graph_value)
        copy.id_to_variable = dict(self.id_to_variable)
        copy.store_attr_mutations = {item: dict(one) for item, one in self.store_attr_mutations.items()}
        copy.log, copy.tensor_hooks = list(self.log), dict(self.tensor_hooks)
        copy.taken_off, copy.backward_hooks = list(self.taken_off), list(self.backward_hooks)
        copy.save_for_backward, copy.keepalive = list(self.save_for_backward), list(self.keepalive)
        copy.backwards = list(self.backwards)
        copy.inputs, copy.result, copy.result_statement = self.inputs, self.result, self.result_statement
        copy.state, copy.stores = self.state, dict(self.stores)
        copy.registrations = dict(self.registrations)
        copy.guards, copy.defaults = list(self.guards), dict(self.defaults)
        copy._modified, copy._order = dict(self._modified), self._order
        return copy

    def apply(self, function: Callable[[Variable], Variable]) -> None:
        """Replace each variable by another one, wherever it stands."""
        done: dict[Variable, Variable] = {}

        def mapped(value: Any) -> Any:  # noqa: ANN401 (any value)
            if not isinstance(value, Variable):
                return value
            if value not in done:
                done[value] = function(value)
            return done[value]

        self.id_to_variable = {number: mapped(one) for number, one in self.id_to_variable.items()}
        self.store_attr_mutations = {
            mapped(item): {name: mapped(value) for name, value in pending.items()}
            for item, pending in self.store_attr_mutations.items()
        }
        self.stores = {(mapped(item), name): one for (item, name), one in self.stores.items()}
        self.registrations = {(mapped(item), name): one for (item, name), one in self.registrations.items()}
        self.log = [
            replace(one, target=mapped(one.target), key=mapped(one.key), value=mapped(one.value))
            for one in self.log
        ]
        self.save_for_backward = [
            (mapped(context), tuple(map(mapped, values)), statement)
            for context, values, statement in self.save_for_backward
        ]
        self.backwards = [replace(one, context=mapped(one.context)) for one in self.backwards]
        self._modified = dict.fromkeys(map(mapped, self._modified))
        self.result = mapped(self.result)

    def is_empty(self) -> bool:
        """Whether there is no effect; new objects alone are none."""
        hooks = self.tensor_hooks or self.backward_hooks or self.backwards
        return not (self.store_attr_mutations or self.log or hooks or self.save_for_backward)

    def clear(self) -> None:
        """Forget everything."""
        for one in (self.id_to_variable, self.store_attr_mutations, self.stores, self._modified):
            one.clear()
        self.tensor_hooks.clear()
        self.taken_off.clear()
        self.backward_hooks.clear()
        self.registrations.clear()
        self.defaults.clear()
        for rows in (self.log, self.save_for_backward, self.backwards, self.keepalive, self.guards):
            rows.clear()

    def flat(self) -> Flat:
        """The table as plain data, with the graph's outputs and the site of each effect.

        Raises:
            CaptureError: the table has a value that plain data cannot hold.
        """
        return Flattening(self).flat()

    def table(self) -> MethodEffects:
        """The table as plain data.

        Raises:
            CaptureError: the table has a value that plain data cannot hold.
        """
        return self.flat().effects

    @property
    def sites(self) -> Sequence[Site]:
        """The site of each effect, by its provisional handle."""
        return self.flat().sites

    def _tracked(self) -> list[tuple[str, Source | None, str | None, bool]]:
        variables = dict.fromkeys(self.id_to_variable.values())
        return [(one.kind, one.source, one.class_name, self.is_modified(one)) for one in variables]

    def diff(self, other: SideEffects) -> str | None:
        """The first difference from another table, as text; None if there is none."""
        ours, theirs = self._tracked(), other._tracked()
        if ours != theirs:
            odd = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
            return f"variables: {len(ours)} and {len(theirs)}" if odd is None else f"variables: {odd}"
        one, two = self.flat(), other.flat()
        if list(map(str, one.outputs)) != list(map(str, two.outputs)):
            return f"outputs: {one.outputs} and {two.outputs}"
        for name in ("method", "inputs", "result", "guards", "defaults"):
            if getattr(one.effects, name) != getattr(two.effects, name):
                return f"{name}: {getattr(one.effects, name)} and {getattr(two.effects, name)}"
        pairs = zip(one.effects.effects, two.effects.effects, strict=False)
        for number, (mine, its) in enumerate(pairs):
            if mine != its:
                return f"effect {number}: {mine} and {its}"
        if len(one.effects.effects) != len(two.effects.effects):
            return f"effects: {len(one.effects.effects)} and {len(two.effects.effects)}"
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SideEffects) and self.diff(other) is None

    __hash__ = None  # type: ignore[assignment]
