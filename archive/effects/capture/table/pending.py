"""The effects of one call while it runs: each is noted as the model causes it.

The table follows the one of PyTorch's dynamo (``torch/_dynamo/side_effects.py``), made declarative: each
object has one variable; attributes, cells and globals are stored by name, and the last value counts;
mutations of lists, dicts and tensors are a log.

It also finds what these and results reach: objects that replay must make, and lists and dicts met twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.graph.variables import (
    CHANGED_BY_NAMES,
    DELETED,
    WITH_CONTENTS,
    MadeList,
    Recipe,
    Variable,
    inner_of,
    is_container_proxy,
)
from archive.effects.placeholders import ABSENT
from archive.effects.places import CHANGING
from archive.formats.effects.model import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from archive.effects.capture.graph.guards import Assumption
    from archive.effects.capture.graph.sites import ModelStatement
    from archive.effects.capture.graph.variables import VariableKind
    from archive.formats.effects.model import Source, Value


# --- reach


class Reach:
    """Walks from values to everything that they hold.

    Attributes:
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
        """The variables that effects and some values lead to."""
        values = list(live)
        for item, pending in self._effects.store_attr_mutations.items():
            if not item.is_new:
                values += pending.values()
        for mutation in self._effects.log:
            values += [mutation.key, mutation.value]
        for hook in self._effects.tensor_hooks.values():
            values += [hook.tensor, hook.function]
        for backward in self._effects.backwards:
            values += [backward.context, backward.results, backward.arguments]
        for each in self._effects.backward_hooks:
            values += [each.module, *each.hooks, *each.pre_hooks, *each.inputs, *each.outputs]
        while values:
            values += self._parts(values.pop(0))
        return self.variables

    def _parts(self, value: Any) -> Iterable[object]:
        """The values that a value holds; none if it was already met."""
        if isinstance(value, Recipe):
            return value.items
        variable = self._effects.variable_of(value)
        if variable is not None:
            return self._of_variable(variable, value)
        if type(value) in CHANGING or isinstance(value, MadeList):
            if id(value) in self._lists:
                self.shared[id(value)] = value
                return ()
            self._lists[id(value)] = value
        return value.contents() if isinstance(value, MadeList) else parts(value)

    def parts_of(self, result: object) -> Iterable[MadeList]:
        """The lists of unknown length, made by the call, that effects and the result lead to."""
        self.of([result])
        return (variable for variable in self._lists.values() if isinstance(variable, MadeList))

    def _of_variable(self, variable: Variable, value: object) -> Iterable[object]:
        """The values that a new object holds."""
        if variable in self.variables:
            return ()
        self.variables.add(variable)
        if not variable.is_new:
            return ()
        for hook, _ in self._effects.taken_off:
            if hook.handle is variable:
                return hook.tensor, hook.function
        self.objects[variable] = value
        saved = (tensors for context, tensors, _ in self._effects.save_for_backward if context is variable)
        held = parts(inner_of(value)) if is_container_proxy(value) else ()
        return (*self._effects.store_attr_mutations.get(variable, {}).values(), *saved, *held)


def parts(value: Any) -> Iterable[object]:
    """The values in a list, tuple, deque or dict; sets hold only constants."""
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    return value if isinstance(value, list | tuple | deque) else ()


# --- pending


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mutation of a list, a dict or a tensor.

    Attributes:
        order: its number among all changes, from 0.
        target: the list or dict; a source for tensors.
        key: of the item; ``ABSENT`` where the op has none.
        value: that is put there; ``ABSENT`` where the op has none.
    """

    order: int
    op: Op
    target: Variable | Source
    key: object = ABSENT
    value: object = ABSENT
    statement: ModelStatement | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook on a tensor.

    Attributes:
        function: as ``module:qualname``, a recipe, or the model's own hook until the call is over.
        handle: the variable of its handle, which the model may keep.
        version: of a tensor that the call created, when the hook was registered.
    """

    tensor: object
    function: Any
    statement: ModelStatement | None = None
    op: Op = Op.REGISTER_HOOK
    handle: Variable | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Backward:
    """The backward of one call of an autograd function.

    Attributes:
        results: of the call, None for anything but tensors.
        arguments: clones of its arguments, None for those without gradient.
    """

    context: Variable
    function: str
    results: tuple[object, ...]
    arguments: tuple[object, ...]
    statement: ModelStatement | None = None


@dataclass(frozen=True, slots=True)
class BackwardHooks:
    """The full backward hooks of one call of a module.

    Attributes:
        hooks: called with the gradients of arguments and result: functions, or recipes once the call is over.
        pre_hooks: called before with those of the result.
        inputs: the positional arguments: the alias that has the hooks, and None for all others.
        outputs: the same for the items of the result.
        versions: of the aliases when the hooks were put on.
    """

    module: object
    hooks: tuple[Any, ...]
    pre_hooks: tuple[Any, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    statement: ModelStatement | None
    versions: tuple[int, ...]


class InitialState(NamedTuple):
    """The values of sources before any effect.

    Attributes:
        entries: by source, the outer before the inner.
        tensors: those that ``Stored`` values are numbers of.
    """

    entries: tuple[tuple[Source, Value], ...] = ()
    tensors: tuple[Any, ...] = ()


class PendingEffects:
    """The effects that one call has had so far, and a variable for each object involved.

    Args:
        graph_value: returns how the graph knows a value: its source if it is an input, its node if an
            operation makes it, None if the graph does not know it.

    Attributes:
        id_to_variable: variables by the identity of objects; an object's proxy leads to the same variable.
        keepalive: tracked objects. An identity is only unique for as long as its object lives.
        store_attr_mutations: pending attributes of objects, contents of cells and values of globals.
        taken_off: hooks that the call itself has removed again, with the statement that did.
        save_for_backward: contexts of autograd functions, with the tensors that each saves.
        backwards: of autograd functions, where gradients are wanted.
        result_statement: the statement to name where the result is refused.
        stores: order and statement of each pending attribute.
        registrations: ops of pending attributes that are registered as buffers.
    """

    def __init__(
        self, method: str = "forward", graph_value: Callable[[object], Hashable | None] = lambda _: None
    ) -> None:
        self.method = method
        self.graph_value = graph_value
        self.id_to_variable: dict[int, Variable] = {}
        self.keepalive: list[object] = []
        self.store_attr_mutations: dict[Variable, dict[str, object]] = {}
        self.log: list[Mutation] = []
        self.tensor_hooks: dict[int, Hook] = {}
        self.taken_off: list[tuple[Hook, ModelStatement | None]] = []
        self.backward_hooks: list[BackwardHooks] = []
        self.save_for_backward: list[tuple[Variable, tuple[object, ...], ModelStatement | None]] = []
        self.backwards: list[Backward] = []
        self.inputs: tuple[Source, ...] = ()
        self.result: object = None
        self.result_statement: ModelStatement | None = None
        self.state = InitialState()
        self.guards: list[Assumption] = []
        self.defaults: dict[str, Any] = {}
        self.stores: dict[tuple[Variable, str], tuple[int, ModelStatement | None]] = {}
        self.registrations: dict[tuple[Variable, str], Op] = {}
        self._modified: set[Variable] = set()
        self._order = 0

    def track(
        self, kind: VariableKind, source: Source | None, *items: object, class_name: str | None = None
    ) -> Variable:
        """Track an object and its proxies as one variable.

        Args:
            items: the object and its proxies; for a global or a cell, an object that represents it.
        """
        variable = Variable(kind, source, class_name)
        for item in items:
            if id(item) in self.id_to_variable:
                raise ValueError(f"{item!r} is already tracked, as {self.id_to_variable[id(item)]}")
            self.id_to_variable[id(item)] = variable
            self.keepalive.append(item)
        return variable

    def variable_of(self, value: object) -> Variable | None:
        """The variable that a value is, or is tracked as; None for other values."""
        if type(value) is Variable:  # `isinstance` would read a proxy's `__class__`: the model might see it
            return value
        return self.id_to_variable.get(id(value))

    def __contains__(self, item: object) -> bool:
        return id(item) in self.id_to_variable

    def __getitem__(self, item: object) -> Variable:
        return self.id_to_variable[id(item)]

    # --- changes -----------------------------------------------------------------------------------

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
        statement: ModelStatement | None = None,
    ) -> None:
        """Note that an attribute, the contents of a cell or a global is set; ``DELETED`` deletes it.

        Args:
            existed: whether the attribute was there before the call: if not, deleting it has no effect.
        """
        if item.kind not in CHANGED_BY_NAMES:
            raise TypeError(f"a {item.kind} has no attributes to follow")
        pending = self.store_attr_mutations.setdefault(item, {})
        pending.pop(name, None)
        self.stores.pop((item, name), None)
        if value is not DELETED or existed:
            pending[name] = value
            self.stores[item, name] = self._next(), statement
        elif not pending:
            del self.store_attr_mutations[item]

    def pending(self, item: Variable, name: str) -> Any:
        """The pending value of an attribute, ``DELETED`` for a deleted one; ``ABSENT`` if none is pending."""
        return self.store_attr_mutations.get(item, {}).get(name, ABSENT)

    def mutation(
        self,
        item: Variable | Source,
        op: Op,
        key: object = ABSENT,
        value: object = ABSENT,
        statement: ModelStatement | None = None,
    ) -> None:
        """Note a mutation of a list or dict, given its variable, or of a tensor, given its source."""
        if isinstance(item, Variable):
            if item.kind not in WITH_CONTENTS:
                raise TypeError(f"a {item.kind} is changed by its attributes")
            self._modified.add(item)
        self.log.append(Mutation(self._next(), op, item, key, value, statement))

    def is_modified(self, item: Variable) -> bool:
        """Whether a variable needs an effect; a new object always does, since it must be created."""
        return item.is_new or item in self._modified or item in self.store_attr_mutations

    # --- hooks -------------------------------------------------------------------------------------

    def register_hook(self, hook: Hook) -> int:
        """Note a hook on a tensor."""
        number = max(self.tensor_hooks, default=-1) + 1
        self.tensor_hooks[number] = hook
        return number

    def take_off(self, handle: object, statement: ModelStatement | None = None) -> bool:
        """Forget the hook of a handle; return whether there was one."""
        variable = self.variable_of(handle)
        for number, hook in self.tensor_hooks.items():
            if hook.handle is variable:
                self.taken_off.append((hook, statement))
                del self.tensor_hooks[number]
                return True
        return False
