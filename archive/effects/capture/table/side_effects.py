"""The effects of one call as a whole, and as plain data.

Objects become sources, tensors become outputs of the graph, and containers become what they hold.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from archive.effects.capture.graph.operations import MADE_IN_INFERENCE, VIEW_IN_INFERENCE
from archive.effects.capture.graph.scalars import ShapeProxy
from archive.effects.capture.graph.sites import error_at, importable
from archive.effects.capture.graph.texts import MarkedText
from archive.effects.capture.graph.variables import (
    DELETED,
    HELD_BY_NAME,
    LITERALS,
    SOURCES,
    MadeList,
    Recipe,
    Variable,
    VariableKind,
    class_name,
    inner_of,
    is_container_proxy,
    is_literal,
    is_named_tuple,
    named,
)
from archive.effects.capture.table.pending import PendingEffects, Reach
from archive.effects.errors import ValueRefusedError
from archive.effects.placeholders import ABSENT
from archive.effects.places import CONTAINERS
from archive.formats.effects.containers import CLASS_NAMES
from archive.formats.effects.model import (
    At,
    Attribute,
    Computed,
    Constant,
    Effect,
    Guard,
    Item,
    Local,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from archive.debuginfo.sites import Site
    from archive.effects.capture.graph.sites import ModelStatement
    from archive.formats.effects.model import Source, Value


VALUE_CLASSES = (Output, Constant, At, Made, New, Stored, Computed)


SET_OPS = {
    VariableKind.OBJECT: Op.SET_ATTRIBUTE,
    VariableKind.CELL: Op.SET_CELL,
    VariableKind.GLOBAL: Op.SET_GLOBAL,
}


RANKS = {Op.COPY: 0, Op.CALL: 2}
"""Ranks of ops among the others: first or last."""


class Flat(NamedTuple):
    """A table as plain data. Its handles are provisional: each is an index into ``sites`` or ``guard_sites``.

    Attributes:
        outputs: nodes whose values the graph must return, in this order.
        sites: of effects whose statement is known, by handle.
        places: their statements, by handle.
        guard_sites: of guards whose statement is known, by handle.
    """

    effects: MethodEffects
    outputs: tuple[Hashable, ...]
    sites: tuple[Site, ...]
    places: tuple[ModelStatement, ...]
    guard_sites: tuple[Site, ...]


Row = tuple[Effect, "ModelStatement | None"]
"""An effect, still without its handle, and the statement that makes it."""


class Flattening:
    """Flattens one table, once: outputs of the graph and temporaries are numbered as they are met."""

    def __init__(self, effects: PendingEffects) -> None:
        self._table = effects
        self._outputs: dict[Hashable, int] = {}
        self._temporaries: dict[Variable | int, int] = {}
        self._reach = Reach(effects)
        self._shared: dict[int, Any] = {}

    # --- effects -----------------------------------------------------------------------------------

    def flat(self) -> Flat:
        """The table as plain data."""
        table = self._table
        live = self._reach.of([table.result])
        for variable in dict.fromkeys(table.id_to_variable.values()):
            if variable in live and variable.is_new:
                self._temporaries[variable] = len(self._temporaries)
        shared = self._reach.shared.items()
        self._shared = {number: value for number, value in shared if table.graph_value(value) is None}
        for number in self._shared:
            self._temporaries[number] = len(self._temporaries)
        with _naming(table.result_statement):
            result = self.value(table.result)
        effects: list[Effect] = []
        sites: list[Site] = []
        places: list[ModelStatement] = []
        for effect, statement in chain(
            self._new_objects(), self._tensor_hooks(), self._backward(), self._changes()
        ):
            if statement is not None:
                sites.append(statement.site(f"effects::{effect.op}"))
                places.append(statement)
            handle = len(sites) - 1 if statement is not None else -1
            effects.append(Effect(effect.op, effect.source, effect.key, effect.value, handle))
        guards, guard_sites = self._guards()
        defaults = tuple((Local(name), Constant(value)) for name, value in table.defaults.items())
        method = MethodEffects(table.method, table.inputs, result, tuple(effects), guards, defaults)
        return Flat(method, tuple(self._outputs), tuple(sites), tuple(places), guard_sites)

    def _guards(self) -> tuple[tuple[Guard, ...], tuple[Site, ...]]:
        """The guards, and their sites; guards of one statement share its handle."""
        handles: dict[Site, int] = {}
        guards = []
        for noted in self._table.guards:
            handle = -1
            if noted.statement is not None:
                handle = handles.setdefault(noted.statement.site("effects::guard"), len(handles))
            subject: Value = Constant(None)
            if isinstance(noted.subject, SOURCES):
                subject = At(noted.subject)
            elif noted.subject is not None:
                subject = self.value(noted.subject)
            value = At(noted.value) if isinstance(noted.value, SOURCES) else Constant(noted.value)
            key = None if noted.key is None else Constant(noted.key)
            guards.append(Guard(noted.look, subject, value, key, handle))
        return tuple(guards), tuple(handles)

    def _new_objects(self) -> Iterator[Row]:
        """Effects that make objects and containers, and fill the containers that occur in several places."""
        for made, number in self._temporaries.items():
            value: Made | None
            if isinstance(made, Variable):
                proxy = self._reach.objects.get(made)
                name, value = made.class_name, None
                if is_container_proxy(proxy):
                    value = empty_of(inner_of(proxy))
            else:
                empty = empty_of(self._shared[made])
                name, value = CLASS_NAMES[empty.kind], None if empty.kind in ("list", "dict") else empty
            yield Effect(Op.NEW, Temporary(number), Constant(name), value), self._made_at(made)
        for identity, container in self._shared.items():
            for effect in self._filled(Temporary(self._temporaries[identity]), container, None):
                yield effect, None
        for variable, proxy in self._reach.objects.items():
            if is_container_proxy(proxy) and variable in self._temporaries:
                at = self._made_at(variable)
                for effect in self._filled(Temporary(self._temporaries[variable]), inner_of(proxy), at):
                    yield effect, at
        for context, values, statement in self._table.save_for_backward:
            if context in self._reach.variables or context.source is not None:
                with _naming(statement):
                    saved = Made("tuple", self._items(values))
                yield Effect(Op.SAVE_FOR_BACKWARD, self._source(context), None, saved), statement

    def _filled(self, source: Temporary, value: Any, at: ModelStatement | None) -> list[Effect]:
        """The effects that fill a new container."""
        with _naming(at):
            if isinstance(value, dict):
                pairs = [(self.value(key), self.value(item)) for key, item in value.items()]
                return [Effect(Op.SET_ITEM, source, *pair) for pair in pairs]
            if isinstance(value, set):
                return [
                    Effect(Op.ADD, source, None, self._element(element))
                    for element in sorted(value, key=repr)
                ]
            items = self._items(value)
            return [Effect(Op.EXTEND, source, None, Made("list", items))] if items or at is None else []

    def _made_at(self, key: Variable | int) -> ModelStatement | None:
        """The statement that makes an object: the one that sets its first attribute."""
        if not isinstance(key, Variable):
            return None
        stores = self._table.stores
        places = [stores[key, name] for name in self._table.store_attr_mutations.get(key, {})]
        return min(places, key=itemgetter(0))[1] if places else None

    def _tensor_hooks(self) -> Iterator[Row]:
        """Effects that put hooks on tensors, and remove them again."""
        table = self._table
        hooks = dict(table.tensor_hooks)
        # Those removed again are registered if the call keeps their handles.
        off = [hook for hook, _ in table.taken_off if hook.handle in self._temporaries]
        hooks |= dict(enumerate(off, max(hooks, default=-1) + 1))
        sources: list[Source] = []
        holders = len(self._temporaries)
        for hook in hooks.values():
            with _naming(hook.statement):
                value = self.value(hook.tensor)
            if isinstance(value, At):
                sources.append(value.source)
                continue
            holder = Temporary(holders)  # an output has no source of its own: it is put into a list
            holders += 1
            yield Effect(Op.NEW, holder, Constant("builtins:list")), hook.statement
            yield Effect(Op.APPEND, holder, None, value), hook.statement
            sources.append(Item(holder, 0))
        for (number, hook), source in zip(hooks.items(), sources, strict=True):
            with _naming(hook.statement):
                function = self._hook(hook.function)
            temporary = None if hook.handle is None else self._temporaries.get(hook.handle)
            handle = Constant(number) if temporary is None else New(temporary)
            yield Effect(hook.op, source, function, handle), hook.statement
        for hook, statement in table.taken_off:
            temporary = None if hook.handle is None else self._temporaries.get(hook.handle)
            if temporary is not None:
                yield Effect(Op.TAKE_OFF, Temporary(temporary)), statement

    def _backward(self) -> Iterator[Row]:
        """Effects that link a function's own ``backward``, and put backward hooks on modules."""
        for link in self._table.backwards:
            with _naming(link.statement):
                places = Made("tuple", (self.value(link.results), self.value(link.arguments)))
            source = self._source(link.context)
            yield Effect(Op.SET_BACKWARD, source, Constant(link.function), places), link.statement
        for put_on in self._table.backward_hooks:
            with _naming(put_on.statement):
                module = self._source(cast("Variable", self._table.variable_of(put_on.module)))
                hooks = Made("tuple", tuple(map(self._hook, put_on.hooks)))
                pre_hooks = Made("tuple", tuple(map(self._hook, put_on.pre_hooks)))
                tensors = self.value((put_on.inputs, put_on.outputs))
            key = Made("tuple", (hooks, pre_hooks))
            yield Effect(Op.REGISTER_BACKWARD_HOOKS, module, key, tensors), put_on.statement

    def _hook(self, hook: object) -> Value:
        return Constant(hook) if isinstance(hook, str) else self.value(hook)

    def _changes(self) -> Iterator[Row]:
        """Effects that change what already existed, in the model's order except for ``RANKS``."""
        rows: list[tuple[tuple[int, int], Row]] = []
        for (variable, name), (number, statement) in self._table.stores.items():
            if variable.source is None and variable not in self._temporaries:
                continue
            with _naming(statement):
                effect = self._store(variable, name)
            if effect is not None:
                rows.append(((1, number), (effect, statement)))
        for mutation in self._table.log:
            target = mutation.target
            source = self._source(target) if isinstance(target, Variable) else target
            with _naming(mutation.statement):
                key = None if mutation.key is ABSENT else self.value(mutation.key)
                value = None if mutation.value is ABSENT else self.value(mutation.value)
            # Tensors come first: other effects may put another tensor where this one was found. Calls come
            # last: what they print cannot be undone.
            order = RANKS.get(mutation.op, 1), mutation.order
            rows.append((order, (Effect(mutation.op, source, key, value), mutation.statement)))
        yield from (row for _, row in sorted(rows, key=itemgetter(0)))

    def _store(self, variable: Variable, name: str) -> Effect | None:
        """The effect that sets an attribute, cell or global; None if the value was already there."""
        value = self._table.store_attr_mutations[variable][name]
        source = self._source(variable)
        if variable.kind is not VariableKind.OBJECT:
            flat = self.value(value)
            return None if flat == At(source) else Effect(SET_OPS[variable.kind], source, None, flat)
        if value is DELETED:
            return Effect(Op.DELETE_ATTRIBUTE, source, Constant(name))
        flat = self.value(value)
        op = self._table.registrations.get((variable, name), Op.SET_ATTRIBUTE)
        if op is Op.SET_ATTRIBUTE and flat == At(Attribute(source, name)):
            return None
        return Effect(op, source, Constant(name), flat)

    def _source(self, variable: Variable) -> Source:
        return variable.source if variable.source is not None else Temporary(self._temporaries[variable])

    # --- values ------------------------------------------------------------------------------------

    def value(self, value: object) -> Value:
        """A Python value as a value of the table."""
        if isinstance(value, VALUE_CLASSES):
            return value
        if isinstance(value, Recipe):
            return Made(value.kind, tuple(map(self.value, value.items)))
        variable = self._table.variable_of(value)
        if variable is not None:
            if variable.source is not None:
                return At(variable.source)
            if variable.kind is VariableKind.OBJECT:
                return New(self._temporaries[variable])
            raise ValueRefusedError(f"{_named(value)} cannot be kept in a table")
        if id(value) in self._shared:
            return New(self._temporaries[id(value)])
        known = self._table.graph_value(value)
        if known is not None:
            return self._of_graph(known)
        if type(value) is MarkedText:
            return Made("format", (Constant(value.template), *self._items(value.values)))
        if type(value) in LITERALS:
            return Constant(value)  # type: ignore[arg-type]
        return named(value) if isinstance(value, HELD_BY_NAME) else self._made(value)

    def _of_graph(self, known: Hashable) -> Value:
        if isinstance(known, SOURCES):
            return At(known)
        meta = getattr(known, "meta", {})
        if meta.get(VIEW_IN_INFERENCE):
            raise ValueRefusedError("a view, made in inference mode, of a tensor from outside")
        output = Output(self._outputs.setdefault(known, len(self._outputs)))
        return Made("inference", (output,)) if meta.get(MADE_IN_INFERENCE) else output

    def _made(self, value: object) -> Value:
        if type(value) is list or isinstance(value, MadeList) or _plain_tuple(value):
            return Made(_kind(value), self._items(value))
        if type(value) in CONTAINERS:
            return self._container(value)
        if is_named_tuple(value):
            kind: Any = type(value)
            return Made(
                "namedtuple", (Constant(class_name(kind)), Constant(kind._fields), *self._items(value))
            )
        raise ValueRefusedError(f"{_named(value)} cannot be kept in a table")

    def _container(self, value: Any) -> Made:
        """A dict, set, deque or the like."""
        empty = empty_of(value)
        if isinstance(value, dict):
            pairs = (part for key, item in value.items() for part in (self.value(key), self.value(item)))
            return Made(empty.kind, (*empty.items, *pairs))
        if isinstance(value, set | frozenset):
            return Made(empty.kind, tuple(self._element(element) for element in sorted(value, key=repr)))
        return Made(empty.kind, (*empty.items, *self._items(value)))

    def _element(self, value: object) -> Value:
        if not (is_literal(value) or isinstance(value, HELD_BY_NAME)):
            raise ValueRefusedError("a set whose elements aren't constants cannot be kept in a table")
        return self.value(value)

    def _items(self, value: object) -> tuple[Value, ...]:
        return tuple(self.value(item) for item in cast("Iterable[object]", value))


def empty_of(value: Any) -> Made:
    """An empty container of the same kind as a Python container."""
    kind = "list" if isinstance(value, MadeList) else CONTAINERS[type(value)]
    if isinstance(value, deque):
        return Made(kind, (Constant(value.maxlen),))
    if kind == "defaultdict":
        return Made(kind, (Constant(factory_name(value.default_factory)),))
    return Made(kind, ())


def factory_name(factory: Any) -> str | None:
    """The name of a ``defaultdict``'s factory; None if it has none."""
    if factory is None:
        return None
    real = getattr(factory, "_kind", factory)
    name = importable(real)
    if name is None:
        raise ValueRefusedError("a defaultdict whose factory isn't a function of a Python module")
    return name


def _plain_tuple(value: object) -> bool:
    """Whether a value is a tuple, or one of PyTorch's tuples of results and sizes."""
    return type(value) in (tuple, ShapeProxy) or (
        isinstance(value, tuple) and type(value).__module__ in ("torch", "torch.return_types")
    )


def _kind(value: object) -> str:
    if type(value) in (ShapeProxy, torch.Size):
        return "size"
    return "list" if isinstance(value, list) else "tuple"


def _named(value: object) -> str:
    kind = type(value)
    name = getattr(value, "__qualname__", None)
    shown = getattr(kind, "SHOWN_AS", kind.__name__)
    return f"{name!r}, a {shown}," if isinstance(name, str) else f"a {kind.__qualname__}"


@contextmanager
def _naming(statement: ModelStatement | None) -> Iterator[None]:
    """Name the model's statement in the error where a value is refused."""
    try:
        yield
    except ValueRefusedError as error:
        raise error_at(str(error), statement) from None


class SideEffects(PendingEffects):
    """The table of one call's effects; see ``PendingEffects`` for arguments and attributes."""

    def prune_dead_object_new(self) -> None:
        """Forget new objects that neither an effect nor the result leads to."""
        reached = Reach(self).of([self.result])
        variables = self.id_to_variable
        dead = [number for number, item in variables.items() if item.is_new and item not in reached]
        gone = {variables.pop(number) for number in dead}
        self.store_attr_mutations = {
            item: pending for item, pending in self.store_attr_mutations.items() if item not in gone
        }
        self.stores = {key: value for key, value in self.stores.items() if key[0] not in gone}
        self.save_for_backward = [row for row in self.save_for_backward if row[0] not in gone]

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
