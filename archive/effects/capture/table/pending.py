"""The effects of one call while it runs: each is noted as the model causes it.

The table follows the one of PyTorch's dynamo (``torch/_dynamo/side_effects.py``), made declarative: each
object has one variable; attributes, cells and globals are stored by name, and the last value counts;
mutations of lists, dicts and tensors are a log.

Their reach, and that of results: objects that replay must make, and lists and dicts met twice.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.graph.variables import (
    ABSENT,
    DELETED,
    MadeList,
    MutationType,
    Recipe,
    Tracking,
    Variable,
    VariableKind,
    inner_of,
    is_container_proxy,
)
from archive.formats.effects.model import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from archive.effects.capture.graph.guards import Assumption
    from archive.effects.capture.graph.sites import Statement
    from archive.formats.effects.model import Source, Value


# --- reach

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


# --- pending


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mutation of a list, a dict or a tensor.

    Attributes:
        order: its number among all changes, from 0.
        op: what is done.
        target: the list or dict; a source for tensors.
        key: of the item; ``ABSENT`` where the op has none.
        value: that is put there; ``ABSENT`` where the op has none.
        statement: the model's statement.
    """

    order: int
    op: Op
    target: Variable | Source
    key: object = ABSENT
    value: object = ABSENT
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook on a tensor.

    Attributes:
        tensor: that has the hook.
        function: as ``module:qualname``, a recipe, or what the model calls a hook until the call is over.
        statement: the model's statement.
        op: that puts it on.
        handle: the variable of its handle, which the model may keep.
        version: of a tensor that the call has made, when the hook was put on.
    """

    tensor: object
    function: Any
    statement: Statement | None = None
    op: Op = Op.REGISTER_HOOK
    handle: Variable | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Backward:
    """The backward of one call of an autograd function.

    Attributes:
        context: the variable of its context.
        function: as ``module:qualname``.
        results: of the call, None for what is no tensor.
        arguments: clones of its arguments, None for those without gradient.
        statement: the model's statement.
    """

    context: Variable
    function: str
    results: tuple[object, ...]
    arguments: tuple[object, ...]
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class BackwardHooks:
    """The full backward hooks of one call of a module.

    Attributes:
        module: its proxy.
        hooks: called with the gradients of arguments and result: functions, or recipes once the call is over.
        pre_hooks: called before with those of the result.
        inputs: the positional arguments: the alias that has the hooks, and None for all others.
        outputs: the same of the items of the result.
        statement: the model's statement.
        versions: of the aliases when the hooks were put on.
    """

    module: object
    hooks: tuple[Any, ...]
    pre_hooks: tuple[Any, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    statement: Statement | None
    versions: tuple[int, ...]


class InitialState(NamedTuple):
    """The values of sources before any effect.

    Attributes:
        entries: by source, the outer before the inner.
        tensors: those that ``Stored`` values are numbers of.
    """

    entries: tuple[tuple[Source, Value], ...] = ()
    tensors: tuple[Any, ...] = ()


class PendingEffects(Tracking):
    """The effects that one call has had so far.

    Args:
        method: the captured method.
        graph_value: tells how the graph knows a value: by its source if it is an input, by its node if an
            operation makes it, None if the graph does not know it.

    Attributes:
        store_attr_mutations: pending attributes of objects, contents of cells and values of globals.
        log: mutations of lists, dicts and tensors.
        tensor_hooks: by their numbers.
        taken_off: hooks that the call itself has taken off again, with the statement that did.
        backward_hooks: of modules, in the order of their calls.
        save_for_backward: contexts of autograd functions, with the tensors that each saves.
        backwards: of autograd functions, where gradients are wanted.
        inputs: sources that the graph takes.
        result: the method's return value.
        result_statement: the statement to name where the result is refused.
        guards: conditions that each later call must meet.
        defaults: values of arguments that may be left out.
        state: values of sources before the call.
        stores: order and statement of each pending attribute.
        registrations: ops of pending attributes that are registered as buffers.
    """

    def __init__(
        self, method: str = "forward", graph_value: Callable[[object], Hashable | None] = lambda _: None
    ) -> None:
        super().__init__()
        self.method = method
        self.graph_value = graph_value
        self.store_attr_mutations: dict[Variable, dict[str, object]] = {}
        self.log: list[Mutation] = []
        self.tensor_hooks: dict[int, Hook] = {}
        self.taken_off: list[tuple[Hook, Statement | None]] = []
        self.backward_hooks: list[BackwardHooks] = []
        self.save_for_backward: list[tuple[Variable, tuple[object, ...], Statement | None]] = []
        self.backwards: list[Backward] = []
        self.inputs: tuple[Source, ...] = ()
        self.result: object = None
        self.result_statement: Statement | None = None
        self.state = InitialState()
        self.guards: list[Assumption] = []
        self.defaults: dict[str, Any] = {}
        self.stores: dict[tuple[Variable, str], tuple[int, Statement | None]] = {}
        self.registrations: dict[tuple[Variable, str], Op] = {}
        self._modified: dict[Variable, None] = {}
        self._order = 0

    # --- attributes, cells, globals ----------------------------------------------------------------

    def _next(self) -> int:
        self._order += 1
        return self._order - 1

    def store_attr(
        self,
        item: Variable,
        name: str,
        value: object,
        *,
        existed: bool = True,
        statement: Statement | None = None,
    ) -> None:
        """Note that an attribute is set; the value ``DELETED`` deletes it.

        Args:
            item: the object's variable.
            name: of the attribute.
            value: of the attribute from now on.
            existed: whether the attribute was there before the call: if not, deleting it has no effect.
            statement: the model's statement.

        Raises:
            TypeError: the variable is a list, a dict or a function, whose attributes are not followed.
        """
        if not self.is_attribute_mutation(item):
            raise TypeError(f"a {item.kind} has no attributes to follow")
        pending = self.store_attr_mutations.setdefault(item, {})
        pending.pop(name, None)
        self.stores.pop((item, name), None)
        if value is not DELETED or existed:
            pending[name] = value
            self.stores[item, name] = self._next(), statement
        elif not pending:
            del self.store_attr_mutations[item]

    def load_attr(self, item: Variable, name: str, *, deleted_ok: bool = False) -> object:
        """The pending value of an attribute.

        Raises:
            KeyError: no value is pending.
            AttributeError: the attribute has been deleted.
        """
        value = self.store_attr_mutations[item][name]
        if value is DELETED and not deleted_ok:
            raise AttributeError(name)
        return value

    def store_cell(self, cell: Variable, value: object, statement: Statement | None = None) -> None:
        """Note that a cell is set."""
        self._expect(cell, VariableKind.CELL)
        self.store_attr(cell, "cell_contents", value, statement=statement)

    def load_cell(self, cell: Variable) -> object:
        """The contents of a cell now.

        Raises:
            ValueError: the cell is empty.
        """
        self._expect(cell, VariableKind.CELL)
        if self.has_pending_mutation_of_attr(cell, "cell_contents"):
            return self.load_attr(cell, "cell_contents")
        if cell.contents is ABSENT:
            raise ValueError("the cell is empty")
        return cell.contents

    def store_global(
        self, item: Variable, name: str, value: object, statement: Statement | None = None
    ) -> None:
        """Note that a global is set."""
        self._expect(item, VariableKind.GLOBAL)
        self.store_attr(item, name, value, statement=statement)

    def load_global(self, item: Variable, name: str) -> object:
        """The pending value of a global.

        Raises:
            KeyError: no value is pending.
        """
        self._expect(item, VariableKind.GLOBAL)
        return self.load_attr(item, name)

    @staticmethod
    def _expect(item: Variable, kind: VariableKind) -> None:
        if item.kind is not kind:
            raise TypeError(f"a {item.kind}, not a {kind}")

    # --- values ------------------------------------------------------------------------------------

    def mutation(
        self,
        item: Variable | Source,
        op: Op,
        key: object = ABSENT,
        value: object = ABSENT,
        statement: Statement | None = None,
    ) -> None:
        """Note a mutation of a list or dict, given its variable, or of a tensor, given its source."""
        if isinstance(item, Variable):
            if item.mutation_type is not MutationType.VALUE_EXISTING:
                raise TypeError(f"a {item.kind} is changed by its attributes")
            self._modified[item] = None
        self.log.append(Mutation(self._next(), op, item, key, value, statement))

    def is_attribute_mutation(self, item: Variable) -> bool:
        """Whether a variable changes by its attributes, cells and globals included."""
        return item.mutation_type in (MutationType.ATTRIBUTE_EXISTING, MutationType.ATTRIBUTE_NEW)

    def is_modified(self, item: Variable) -> bool:
        """Whether a variable needs an effect; a new object always does, since it must be made."""
        if item.mutation_type is MutationType.ATTRIBUTE_NEW:
            return True
        return item in self._modified or item in self.store_attr_mutations

    def has_pending_mutation(self, item: Variable) -> bool:
        """Whether any attribute of a variable is pending."""
        return bool(self.store_attr_mutations.get(item))

    def has_pending_mutation_of_attr(self, item: Variable, name: str) -> bool:
        """Whether this attribute is pending."""
        return name in self.store_attr_mutations.get(item, ())

    # --- autograd ----------------------------------------------------------------------------------

    def track_save_for_backward(
        self, context: Variable, values: Iterable[object], statement: Statement | None = None
    ) -> None:
        """Note that an autograd function saves values for its backward."""
        self.save_for_backward.append((context, tuple(values), statement))

    def set_backward(
        self,
        context: Variable,
        function: str,
        results: tuple[object, ...],
        arguments: tuple[object, ...],
        statement: Statement | None = None,
    ) -> None:
        """Note that an autograd function's own backward gives the gradients of its arguments."""
        self.backwards.append(Backward(context, function, results, arguments, statement))

    def register_hook(
        self,
        tensor: object,
        hook: object,
        statement: Statement | None = None,
        *,
        op: Op = Op.REGISTER_HOOK,
        handle: Variable | None = None,
        version: int | None = None,
    ) -> int:
        """Note a hook on a tensor; see ``Hook``.

        Returns:
            The hook's number: one more than the highest in use.
        """
        number = max(self.tensor_hooks, default=-1) + 1
        self.tensor_hooks[number] = Hook(tensor, hook, statement, op, handle, version)
        return number

    def remove_hook(self, number: int) -> None:
        """Forget a hook.

        Raises:
            KeyError: no hook has this number, or it has been removed.
        """
        del self.tensor_hooks[number]

    def take_off(self, handle: object, statement: Statement | None = None) -> bool:
        """Forget the hook of a handle; gives whether there was one."""
        variable = self.variable_of(handle)
        for number, hook in self.tensor_hooks.items():
            if hook.handle is variable:
                self.taken_off.append((hook, statement))
                self.remove_hook(number)
                return True
        return False
