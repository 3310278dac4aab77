"""What a call changes, while it is being captured: PyTorch dynamo's table, made declarative.

Each object that the call meets has one variable, found by the object's identity and kept as long as the
table. Attributes, cells and globals are stored by name, the last value counts; what is done to lists and
dicts is kept as it is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.flattening import Flat, Flattening
from archive.effects.capture.reach import Reach
from archive.effects.capture.tracking import Tracking
from archive.effects.capture.variables import (
    ABSENT,
    DELETED,
    Change,
    Hook,
    Kind,
    MutationType,
    Variable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from archive.debuginfo.sites import Site
    from archive.effects.capture.guards import Assumption
    from archive.effects.capture.sites import Place
    from archive.formats.effects.model import MethodEffects, Op, Source, Value


class Initial(NamedTuple):
    """What lived where before any effect.

    Attributes:
        entries: by source, the outer before the inner.
        tensors: those that ``Stored`` values are numbers of.
    """

    entries: tuple[tuple[Source, Value], ...] = ()
    tensors: tuple[Any, ...] = ()


class SideEffects(Tracking):
    """The table of one call.

    Args:
        method: the captured method.
        graph_value: what a value is to the graph: its source where the graph takes it, its node where the
            graph makes it, None for what the graph does not know.

    Attributes:
        store_attr_mutations: pending attributes of objects, contents of cells and globals.
        log: what is done to lists, dicts and tensors.
        tensor_hooks: by their numbers.
        save_for_backward: contexts, and what they are to keep.
        inputs: what the graph takes.
        result: what the method returns.
        guards: what must be so at each call.
        defaults: arguments that may be left out, and what they are then.
        state: what lived where before.
    """

    def __init__(
        self, method: str = "forward", graph_value: Callable[[object], Hashable | None] = lambda _: None
    ) -> None:
        super().__init__()
        self.method = method
        self.graph_value = graph_value
        self.store_attr_mutations: dict[Variable, dict[str, object]] = {}
        self.log: list[Change] = []
        self.tensor_hooks: dict[int, Hook] = {}
        self.save_for_backward: list[tuple[Variable, tuple[object, ...], Place | None]] = []
        self.inputs: tuple[Source, ...] = ()
        self.result: object = None
        self.result_place: Place | None = None
        self.state = Initial()
        self.guards: list[Assumption] = []
        self.defaults: dict[str, Any] = {}
        self.stores: dict[tuple[Variable, str], tuple[int, Place | None]] = {}
        self._modified: dict[Variable, None] = {}
        self._order = 0

    # --- attributes, cells, globals ----------------------------------------------------------------

    def _next(self) -> int:
        self._order += 1
        return self._order - 1

    def store_attr(
        self, item: Variable, name: str, value: object, *, existed: bool = True, place: Place | None = None
    ) -> None:
        """Set an attribute; ``DELETED`` deletes it.

        Args:
            item: the object.
            name: of the attribute.
            value: what it is set to.
            existed: whether it was there before the call: if not, deleting it leaves nothing to be done.
            place: the model's statement.

        Raises:
            TypeError: lists, dicts and functions have no attributes that are followed.
        """
        if not self.is_attribute_mutation(item):
            raise TypeError(f"a {item.kind} has no attributes to follow")
        pending = self.store_attr_mutations.setdefault(item, {})
        pending.pop(name, None)
        self.stores.pop((item, name), None)
        if value is not DELETED or existed:
            pending[name] = value
            self.stores[item, name] = self._next(), place
        elif not pending:
            del self.store_attr_mutations[item]

    def load_attr(self, item: Variable, name: str, *, deleted_ok: bool = False) -> object:
        """A pending attribute.

        Raises:
            KeyError: it is not pending.
            AttributeError: it has been deleted.
        """
        value = self.store_attr_mutations[item][name]
        if value is DELETED and not deleted_ok:
            raise AttributeError(name)
        return value

    def store_cell(self, cell: Variable, value: object, place: Place | None = None) -> None:
        """Set what a cell holds."""
        self._expect(cell, Kind.CELL)
        self.store_attr(cell, "cell_contents", value, place=place)

    def load_cell(self, cell: Variable) -> object:
        """What a cell holds now.

        Raises:
            ValueError: nothing.
        """
        self._expect(cell, Kind.CELL)
        if self.has_pending_mutation_of_attr(cell, "cell_contents"):
            return self.load_attr(cell, "cell_contents")
        if cell.contents is ABSENT:
            raise ValueError("the cell is empty")
        return cell.contents

    def store_global(self, item: Variable, name: str, value: object, place: Place | None = None) -> None:
        """Set a global."""
        self._expect(item, Kind.GLOBAL)
        self.store_attr(item, name, value, place=place)

    def load_global(self, item: Variable, name: str) -> object:
        """A pending global."""
        self._expect(item, Kind.GLOBAL)
        return self.load_attr(item, name)

    @staticmethod
    def _expect(item: Variable, kind: Kind) -> None:
        if item.kind is not kind:
            raise TypeError(f"a {item.kind}, not a {kind}")

    # --- values ------------------------------------------------------------------------------------

    def mutation(
        self,
        item: Variable | Source,
        op: Op,
        key: object = ABSENT,
        value: object = ABSENT,
        place: Place | None = None,
    ) -> None:
        """Note what is done to a list or dict; or to a tensor, by its source."""
        if isinstance(item, Variable):
            if item.mutation_type is not MutationType.VALUE_EXISTING:
                raise TypeError(f"a {item.kind} is changed by its attributes")
            self._modified[item] = None
        self.log.append(Change(self._next(), op, item, key, value, place))

    def is_attribute_mutation(self, item: Variable) -> bool:
        """Whether a variable changes by its attributes."""
        return item.mutation_type in (MutationType.ATTRIBUTE_EXISTING, MutationType.ATTRIBUTE_NEW)

    def is_modified(self, item: Variable) -> bool:
        """Whether anything must be done for a variable; a new object must be made."""
        if item.mutation_type is MutationType.ATTRIBUTE_NEW:
            return True
        return item in self._modified or item in self.store_attr_mutations

    def has_pending_mutation(self, item: Variable) -> bool:
        """Whether an attribute has been stored."""
        return bool(self.store_attr_mutations.get(item))

    def has_pending_mutation_of_attr(self, item: Variable, name: str) -> bool:
        """Whether this attribute has been stored."""
        return name in self.store_attr_mutations.get(item, ())

    # --- autograd ----------------------------------------------------------------------------------

    def track_save_for_backward(
        self, context: Variable, values: Iterable[object], place: Place | None = None
    ) -> None:
        """Note what a context is to keep for the way back."""
        self.save_for_backward.append((context, tuple(values), place))

    def register_hook(self, tensor: object, hook: str, place: Place | None = None) -> int:
        """Put a hook on a tensor.

        Returns:
            Its number: the one above all that are in use, whatever has been removed.
        """
        number = max(self.tensor_hooks, default=-1) + 1
        self.tensor_hooks[number] = Hook(tensor, hook, place)
        return number

    def remove_hook(self, number: int) -> None:
        """Take a hook off; one that has been removed is not there.

        Raises:
            KeyError: it is not there.
        """
        del self.tensor_hooks[number]

    # --- the whole table ---------------------------------------------------------------------------

    def prune_dead_object_new(self, live: Iterable[object] = ()) -> None:
        """Forget new objects that neither what is changed nor what is live leads to.

        Args:
            live: values beside the result.
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
        """A copy that can be changed by itself; the variables are the same."""
        copy = SideEffects(self.method, self.graph_value)
        copy.id_to_variable = dict(self.id_to_variable)
        copy.store_attr_mutations = {item: dict(one) for item, one in self.store_attr_mutations.items()}
        copy.log, copy.tensor_hooks = list(self.log), dict(self.tensor_hooks)
        copy.save_for_backward, copy.keepalive = list(self.save_for_backward), list(self.keepalive)
        copy.inputs, copy.result, copy.result_place = self.inputs, self.result, self.result_place
        copy.state, copy.stores = self.state, dict(self.stores)
        copy.guards, copy.defaults = list(self.guards), dict(self.defaults)
        copy._modified, copy._order = dict(self._modified), self._order
        return copy

    def apply(self, function: Callable[[Variable], Variable]) -> None:
        """Put another variable in the place of each one, wherever it stands."""
        done: dict[Variable, Variable] = {}

        def mapped(value: Any) -> Any:  # noqa: ANN401 (what it is given)
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
        self.log = [
            replace(one, target=mapped(one.target), key=mapped(one.key), value=mapped(one.value))
            for one in self.log
        ]
        self.save_for_backward = [
            (mapped(context), tuple(map(mapped, values)), place)
            for context, values, place in self.save_for_backward
        ]
        self._modified = dict.fromkeys(map(mapped, self._modified))
        self.result = mapped(self.result)

    def is_empty(self) -> bool:
        """Whether nothing is changed; objects that nothing leads to do not count."""
        return not (self.store_attr_mutations or self.log or self.tensor_hooks or self.save_for_backward)

    def clear(self) -> None:
        """Forget everything."""
        for one in (self.id_to_variable, self.store_attr_mutations, self.stores, self._modified):
            one.clear()
        self.tensor_hooks.clear()
        self.defaults.clear()
        for rows in (self.log, self.save_for_backward, self.keepalive, self.guards):
            rows.clear()

    def flat(self) -> Flat:
        """The same as plain data, with what the graph must give and where each effect comes from.

        Raises:
            CaptureError: a value that a table cannot hold.
        """
        return Flattening(self).flat()

    def table(self) -> MethodEffects:
        """The same as plain data.

        Raises:
            CaptureError: a value that a table cannot hold.
        """
        return self.flat().effects

    @property
    def sites(self) -> Sequence[Site]:
        """Where each effect comes from, by its provisional handle."""
        return self.flat().sites

    def _tracked(self) -> list[tuple[str, Source | None, str | None, bool]]:
        variables = dict.fromkeys(self.id_to_variable.values())
        return [(one.kind, one.source, one.class_name, self.is_modified(one)) for one in variables]

    def diff(self, other: SideEffects) -> str | None:
        """What tells two tables apart; None if nothing does."""
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
