"""Finishes a captured call: settles inputs and outputs of its graph, and completes its table.

Ints get bounds, so that everything computed from them fits into a graph's 64 bits. Python's ints grow, while
a graph's wrap around silently. So a guard bounds the absolute value of each int that the graph takes.
Interval arithmetic finds the widest bound at which no computed int overflows.

Values that are the same or share memory get guards; views that may not be kept are refused.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from archive.effects.capture.graph.guards import same_elements
from archive.effects.capture.graph.scalars import BOUNDS, EXACT, is_scalar, value_of
from archive.effects.capture.graph.sites import ModelStatement, error_at
from archive.effects.capture.graph.variables import WITH_CONTENTS, VariableKind, is_plain
from archive.effects.capture.initial import sources_in
from archive.effects.capture.table.pending import Reach
from archive.effects.errors import ITEM_CHANGED, CaptureError
from archive.effects.looking import WITHOUT_MODES, memory
from archive.effects.places import base_of, is_container, items_of
from archive.formats.effects.model import (
    Attribute,
    ClosureCell,
    Each,
    Item,
    Length,
    Local,
    Look,
    Op,
    Output,
)
from archive.formats.effects.parts import is_under_argument, parts_of, root_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.effects.capture.graph.guards import GraphInput
    from archive.effects.capture.table.call import CapturedCall
    from archive.effects.capture.table.side_effects import Flat
    from archive.formats.effects.model import MethodEffects, Source


# --- bounds

LARGEST_INT = (1 << 63) - 1
INT_BITS = 62
SIZE_BITS = 40
"""Sizes are below 2**40: no memory holds more elements."""
SIZE_METHODS = ("size", "numel", "dim")
CUTTING = (int, math.floor, math.ceil)
"""Functions that make an int from a float."""


def note_bounds(call: CapturedCall) -> None:
    """Guard the ints that computed ones depend on."""
    ints: dict[Any, Any] = {}  # numbers of the graph by node, in order
    quotients: list[Any] = []  # nodes that divide ints: TorchScript makes each a float first, Python does not
    for value in call.builder.values():
        if not is_scalar(value):
            continue
        node = call.builder.node_of(value)
        if type(value_of(value)) is int:
            ints[node] = value
        elif (
            node.op == "call_function"
            and node.target is operator.truediv
            and all(argument in ints or type(argument) is int for argument in node.args)
        ):
            quotients.append(node)
    computed = {node: None for node in ints if node.op == "call_function" and node.target in BOUNDS}
    sizes = {node for node in ints if node.target in SIZE_METHODS or node.target is len}

    def excess(bits: int) -> Any:
        """The first node that may overflow if the given ints have ``bits`` bits, or None."""
        bounds = {node: 1 << (min(bits, SIZE_BITS) if node in sizes else bits) for node in ints}

        def operands(node: Any) -> list[int]:
            return [bounds.get(arg, abs(arg) if type(arg) is int else 1) for arg in node.args]

        for node in computed:
            bounds[node] = BOUNDS[node.target](*operands(node))
            if max(bounds[node], *operands(node)) > LARGEST_INT:
                return node
        return next((node for node in quotients if max(operands(node)) > EXACT), None)

    bits = next((bits for bits in range(INT_BITS, 0, -1) if excess(bits) is None), None)
    if bits is None:
        raise error_at("an int that does not fit into 64 bits", excess(1).meta.get("statement"))
    used = {operand for node in (*computed, *quotients) for operand in node.all_input_nodes}
    for node, value in ints.items():
        is_cut = node.op == "call_function" and node.target in CUTTING
        if node in computed or not (node in used or is_cut):
            continue
        if node in sizes:
            if bits < SIZE_BITS:
                call.guards.note(Look.RANGE, value, 1 << bits, statement=node.meta.get("statement"))
            continue
        given = call.builder.input_of(value)
        if given is not None and isinstance(given.source, Length) and bits >= SIZE_BITS:
            continue
        subject = value if given is None else given.source
        statements = (user.meta["statement"] for user in node.users if user.meta.get("statement"))
        call.guards.note(Look.RANGE, subject, 1 << bits, statement=next(statements, None))


# --- sharing

CHANGED_KINDS = (*WITH_CONTENTS, VariableKind.OBJECT)
"""Kinds of variables that a call changes, and that may be the same object from outside."""
VIEW_KEPT = "a part of a tensor that is changed in place is kept or returned: it would not change with it"


def note_sharing(
    call: CapturedCall, inputs: list[GraphInput], changed: list[GraphInput], fixed: Collection[Source]
) -> None:
    """Guard that aliases are the same, and that what a call changes or compares is not another value.

    Args:
        fixed: sources of tensors that the graph itself holds and uses, so they must not be replaced.
    """
    guards, effects, compares = call.guards, call.side_effects, call.functions.compares
    for source, first in call.aliases.items():
        if _can_be_compared(call.originals.get(first)):
            guards.note(Look.SAME, source, first)
    tensors = [given for given in inputs if given.tensors]
    for given in changed:
        for other in tensors:
            if other.is_list:
                guards.note(Look.APART, Each(other.source), given.source, statement=given.statement)
            elif other is not given and (is_under_argument(given.source) or is_under_argument(other.source)):
                guards.note(Look.APART, given.source, other.source, statement=given.statement)
    held = [item for item in call.proxies if item.kind in CHANGED_KINDS and item.source is not None]
    for second, first_one in _pairs(held):
        is_modified = effects.is_modified(second) or effects.is_modified(first_one)
        ours, theirs = call.real[second], call.real[first_one]
        if not (is_modified or compares is not None) or ours is theirs or type(ours) is not type(theirs):
            continue
        statement = compares
        if is_modified:
            statement = call.first_reads.get(second) or call.first_reads.get(first_one)
        guards.note(Look.APART, second.source, first_one.source, statement=statement)
    if compares is not None:  # by `is`: tensors must be distinct, as in the captured call
        tensors = [given for given in call.builder.inputs if given.tensors and not given.is_list]
        for pair in _pairs(tensors):
            if any(is_under_argument(given.source) or given.source not in fixed for given in pair):
                guards.note(Look.APART, pair[0].source, pair[1].source, statement=compares)


def _pairs(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Each value with each earlier one."""
    return ((value, other) for number, value in enumerate(values) for other in values[:number])


def _can_be_compared(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if not is_container(value):
        return False
    items = items_of(value)
    return is_plain(dict(items) if issubclass(base_of(type(value)), dict) else items)


def check_views(call: CapturedCall, changed: list[GraphInput], flat: Flat) -> None:
    """Refuse to keep or return a view of a tensor that changes in place: replay wouldn't change the view."""
    addresses = {memory(given.proxy): given.proxy for given in changed if memory(given.proxy)}
    numbers = {node: number for number, node in enumerate(flat.outputs)}
    for value in call.builder.values():
        number = numbers.get(call.builder.node_of(value))
        if number is None or not isinstance(value, torch.Tensor):
            continue
        if value is addresses.get(memory(value), value):
            continue
        for effect in flat.effects.effects:
            if effect.value is not None and effect.handle >= 0 and Output(number) in parts_of([effect.value]):
                raise error_at(VIEW_KEPT, flat.places[effect.handle])
        raise error_at(VIEW_KEPT, call.side_effects.result_statement)


# --- finish


def finished(call: CapturedCall, module: Any, result: object) -> tuple[Any, Flat]:
    """The graph of a finished call, as a ``torch.fx.GraphModule``, and its table as plain data."""
    builder, effects = call.builder, call.side_effects
    effects.result = result
    for part in Reach(effects).parts_of(result):
        part.keep()
    method = getattr(type(module), effects.method, None)
    if isinstance(method, FunctionType):
        code = method.__code__
        effects.result_statement = ModelStatement(code.co_filename, code.co_firstlineno, None)
    with WITHOUT_MODES():
        _note_differences(call)
        changed = builder.changed()
        call.seen.copies.forget(changed)
        call.seen.in_place.update(given.source for given in changed if not is_under_argument(given.source))
        _check_changed(call, changed)
    for given in changed:
        effects.mutation(given.source, Op.COPY, value=_cloned(call, given), statement=given.statement)
    used = {given.source for given in call.builder.inputs if given.node.users}
    held = _held(call, changed)
    fixed = used.intersection(given.source for given in held.values())
    inputs = _used_inputs(call)
    effects.inputs = tuple(given.source for given in inputs)
    with WITHOUT_MODES():
        note_sharing(call, inputs, changed, fixed)
    note_bounds(call)
    effects.guards = call.guards.settled([given.source for given in held.values()], call.ambiguous)
    effects.prune_dead_object_new()
    flat = effects.flat()
    _check_cells(call, flat.effects)
    with WITHOUT_MODES():
        check_views(call, changed, flat)
        _check_gradients(call, flat)
    builder.drop_unused(flat.outputs)
    builder.graph.output(flat.outputs)
    builder.graph.lint()
    tensors = builder.constants | {path: given.original for path, given in held.items()}
    return fx.GraphModule(tensors, builder.graph, class_name=type(module).__name__), flat


# --- inputs of the graph -------------------------------------------------------------------------------


def _held(call: CapturedCall, changed: list[GraphInput]) -> dict[str, GraphInput]:
    """Let the graph hold parameters and buffers that calls never change; return them by their paths."""
    graph = call.builder.graph
    held: dict[str, GraphInput] = {}
    for given in call.builder.inputs:
        is_changed = given in changed or given.source in call.seen.in_place
        if is_changed or not isinstance(given.original, torch.Tensor):
            continue
        if call.is_volatile(given.source) or not call.is_registered(given.original, given.source):
            continue
        names, source = [], given.source
        while isinstance(source, Attribute):
            names.append(source.name)
            source = source.base
        path = ".".join(names[::-1])
        held[path] = given
        if given.node.users:
            with graph.inserting_after(call.builder.last):
                attribute = graph.get_attr(path)
            given.node.replace_all_uses_with(attribute)
    return held


def _used_inputs(call: CapturedCall) -> list[GraphInput]:
    """Erase unused inputs, except arguments and their items; return the others."""
    used = []
    for given in call.builder.inputs:
        source = given.source
        while isinstance(source, Item):
            source = source.base
        if given.node.users or (isinstance(source, Local) and source.name != "self"):
            used.append(given)
        else:
            call.builder.graph.erase_node(given.node)
    return used


# --- tensors that were changed in place ----------------------------------------------------------------


def _note_differences(call: CapturedCall) -> None:
    """Note inputs whose elements have changed though no version counter says so."""
    for given in call.builder.inputs:
        for original, proxy in given.tensors:
            if given.changed:
                continue
            if same_elements(call.snapshot.tensor(original), proxy):
                continue
            if given.is_list:
                raise CaptureError(ITEM_CHANGED)
            given.silently = True


def _check_changed(call: CapturedCall, changed: list[GraphInput]) -> None:
    """Refuse changes of a tensor's shape, of shared memory, or of tensors that autograd functions rely on."""
    for given in changed:
        if given.proxy.shape != given.original.shape:
            raise error_at("a tensor whose shape is changed in place", given.statement)
    tensors = [original for given in call.builder.inputs for original, _ in given.tensors]
    users = Counter(map(memory, tensors))
    for given in changed:
        address = memory(given.original)
        if address and users[address] > 1:
            message = "a tensor that is changed in place shares its memory with another one"
            raise error_at(message, given.statement)
    proxies = {id(given.proxy): given.statement for given in changed}
    for tensor, version, statement in call.regions.unchanging:  # saved, or sharing memory with a result
        if tensor._version != version or id(tensor) in proxies:
            message = "a tensor that an autograd function relies on is changed in place"
            raise error_at(message, proxies.get(id(tensor)) or statement)


def _check_gradients(call: CapturedCall, flat: Flat) -> None:
    """Refuse results with a gradient in a call without gradients: replay would compute them without."""
    if call.guards.settings["torch.is_grad_enabled"]:
        return
    outputs = {id(node) for node in flat.outputs}
    for value in call.builder.values():
        node = call.builder.node_of(value)
        is_result = id(node) in outputs and call.builder.input_of(value) is None
        if is_result and isinstance(value, torch.Tensor) and value.requires_grad:
            statement = getattr(node, "meta", {}).get("statement")
            raise error_at(
                "a gradient where the call is made without gradients: torch.enable_grad", statement
            )


def _cloned(call: CapturedCall, given: GraphInput) -> object:
    """Let the graph change a clone of an input; return a value for the clone as it is at the end."""
    node = given.node
    with call.builder.graph.inserting_after(call.builder.last):
        copy = call.builder.graph.call_method("clone", (node,))
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
    value = object()
    call.builder.bind(value, copy)
    return value


def _check_cells(call: CapturedCall, effects: MethodEffects) -> None:
    """Refuse a table with a variable of a function whose name another one shares."""
    for source in map(root_of, sources_in(effects)):
        if isinstance(source, ClosureCell) and source in call.ambiguous:
            name = source.function.partition("#")[0]
            raise CaptureError(f"{source.name!r} of two functions called {name}: no name distinguishes them")
