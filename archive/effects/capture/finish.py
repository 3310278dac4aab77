"""Finishes a captured call: inputs and outputs of its graph are settled, and its table is completed.

Ints get bounds, so that everything computed from them fits into a graph's 64 bits. Python's ints grow; a
graph's wrap around silently. So a guard bounds the absolute value of each int that the graph is given.
Interval arithmetic finds the widest bound at which no computed int overflows.

Values that are the same or share memory get guards, and views that may not be kept.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from archive.effects.capture.graph.scalars import BOUNDS, EXACT, is_scalar, value_of
from archive.effects.capture.graph.sites import ModelStatement, error_at
from archive.effects.capture.graph.variables import VALUES, is_plain, is_under_argument, root_of
from archive.effects.capture.initial import sources_in
from archive.effects.capture.table.pending import Reach
from archive.effects.errors import ITEM_CHANGED, CaptureError
from archive.effects.looking import WITHOUT_MODES
from archive.effects.places import base_of, is_container, items_of
from archive.formats.effects.model import (
    Attribute,
    ClosureCell,
    Each,
    Item,
    Length,
    Local,
    Look,
    Made,
    Op,
    Output,
)

if TYPE_CHECKING:
    from archive.effects.capture.graph.guards import GraphInput
    from archive.effects.capture.table.call import CapturedCall
    from archive.effects.capture.table.side_effects import Flat
    from archive.formats.effects.model import MethodEffects, Value


# --- bounds

LARGEST_INT = (1 << 63) - 1
INT_BITS = 62
SIZE_BITS = 40
"""Sizes are below 2**40: no memory holds more elements."""
SIZE_METHODS = ("size", "numel", "dim")
CUTTING = (int, math.floor, math.ceil)
"""Functions that make an int of a float."""


def note_bounds(call: CapturedCall) -> None:
    """Guard the ints that computed ones depend on.

    Raises:
        CaptureError: an int may overflow at any bound; the error names the model's line.
    """
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
            and all(one in ints or type(one) is int for one in node.args)
        ):
            quotients.append(node)
    computed = {node: None for node in ints if node.op == "call_function" and node.target in BOUNDS}
    sizes = {node for node in ints if node.target in SIZE_METHODS or node.target is len}

    def excess(bits: int) -> Any:  # noqa: ANN401
        """The first node that may overflow if the given ints have so many bits; None if none may."""
        bounds = {node: 1 << (min(bits, SIZE_BITS) if node in sizes else bits) for node in ints}

        def operands(node: Any) -> list[int]:  # noqa: ANN401
            return [bounds.get(one, abs(one) if type(one) is int else 1) for one in node.args]

        for node in computed:
            bounds[node] = BOUNDS[node.target](*operands(node))
            if max(bounds[node], *operands(node)) > LARGEST_INT:
                return node
        return next((node for node in quotients if max(operands(node)) > EXACT), None)

    bits = next((bits for bits in range(INT_BITS, 0, -1) if excess(bits) is None), None)
    if bits is None:
        raise error_at("an int that does not fit into 64 bits", excess(1).meta.get("statement"))
    used = {one for node in (*computed, *quotients) for one in node.all_input_nodes}
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

VIEW_KEPT = "a part of a tensor that is changed in place is kept or returned: it would not change with it"


def note_sharing(call: CapturedCall, inputs: list[GraphInput], changed: list[GraphInput]) -> None:
    """Guard that aliases are the same, and that a changed value shares no memory with others.

    Args:
        call: the captured call.
        inputs: of the graph.
        changed: those that are changed in place.
    """
    for source, first in call.aliases.items():
        if _can_be_compared(call.originals.get(first)):
            call.guards.note(Look.SAME, source, first)
    tensors = [one for one in inputs if one.tensors]
    for one in changed:
        for other in tensors:
            if other.is_list:
                call.guards.note(Look.APART, Each(other.source), one.source, statement=one.statement)
            elif other is not one and (is_under_argument(one.source) or is_under_argument(other.source)):
                call.guards.note(Look.APART, one.source, other.source, statement=one.statement)
    _note_containers(call)
    if call.functions.compares is not None:
        _note_identities(call, call.functions.compares)


def _note_identities(call: CapturedCall, statement: ModelStatement) -> None:
    """Guard that tensors that the model may compare by ``is`` are different ones, as in the captured call."""
    tensors = [one for one in call.builder.inputs if one.tensors and not one.is_list]
    for number, one in enumerate(tensors):
        for other in tensors[:number]:
            if any(is_under_argument(each.source) or call.is_volatile(each.source) for each in (one, other)):
                call.guards.note(Look.APART, one.source, other.source, statement=statement)


def _note_containers(call: CapturedCall) -> None:
    """Guard that lists and dicts are not the same as one that the call changes."""
    effects = call.side_effects
    held = [one for one in call.proxies if one.kind in VALUES and one.source is not None]
    for number, variable in enumerate(held):
        for other_one in held[:number]:
            if not (is_under_argument(variable.source) or is_under_argument(other_one.source)):
                continue
            is_modified = effects.is_modified(variable) or effects.is_modified(other_one)
            if is_modified or call.functions.compares is not None:
                statement = None if is_modified else call.functions.compares
                call.guards.note(Look.APART, variable.source, other_one.source, statement=statement)


def _can_be_compared(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if not is_container(value):
        return False
    items = items_of(value)
    return is_plain(dict(items) if issubclass(base_of(type(value)), dict) else items)


def check_views(call: CapturedCall, changed: list[GraphInput], flat: Flat) -> None:
    """Refuse to keep or return a view of a tensor that is changed in place: replay would not change the view.

    Raises:
        CaptureError: naming the statement that keeps it.
    """
    addresses = {_address(one.proxy): one.proxy for one in changed if _address(one.proxy)}
    makers = {node: number for number, node in enumerate(flat.outputs)}
    for value in call.builder.values():
        number = makers.get(call.builder.node_of(value))
        if (
            number is None
            or not isinstance(value, torch.Tensor)
            or value is addresses.get(_address(value), value)
        ):
            continue
        raise error_at(VIEW_KEPT, _keeping_statement(call, flat, number))


def _address(tensor: Any) -> int:  # noqa: ANN401
    address: int = tensor.untyped_storage().data_ptr()
    return address


def _keeping_statement(call: CapturedCall, flat: Flat, number: int) -> ModelStatement | None:
    """The statement that keeps an output of the graph, or returns it."""
    for effect in flat.effects.effects:
        if effect.value is not None and number in _outputs(effect.value) and effect.handle >= 0:
            return flat.places[effect.handle]
    return call.side_effects.result_statement


def _outputs(value: Value) -> set[int]:
    if isinstance(value, Output):
        return {value.index}
    if isinstance(value, Made):
        return set().union(*map(_outputs, value.items))
    return set()


# --- finish


def finished(call: CapturedCall, module: Any, result: object) -> tuple[Any, Flat]:  # noqa: ANN401
    """Finish a call.

    Args:
        call: the captured call, which is over.
        module: the model.
        result: the method's return value.

    Returns:
        The graph, as a ``torch.fx.GraphModule``, and the table as plain data.

    Raises:
        CaptureError: the graph or the table cannot hold what the call did.
    """
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
        call.copies.forget(changed)
        call.in_place.update(one.source for one in changed if not is_under_argument(one.source))
        _check_storages(call, changed)
        _check_unchanging(call, changed)
    for one in changed:
        effects.mutation(one.source, Op.COPY, value=_cloned(call, one), statement=one.statement)
    held = _held(call, changed)
    kept = _kept_inputs(call)
    effects.inputs = tuple(one.source for one in kept)
    with WITHOUT_MODES():
        note_sharing(call, kept, changed)
    note_bounds(call)
    effects.guards = call.guards.settled([one.source for one in held.values()], call.ambiguous)
    effects.prune_dead_object_new()
    flat = effects.flat()
    _check_cells(call, flat.effects)
    with WITHOUT_MODES():
        check_views(call, changed, flat)
        _check_gradients(call, flat)
    builder.drop_unused(flat.outputs)
    builder.graph.output(flat.outputs)
    builder.graph.lint()
    tensors = builder.constants | {path: one.original for path, one in held.items()}
    return fx.GraphModule(tensors, builder.graph, class_name=type(module).__name__), flat


# --- inputs of the graph -------------------------------------------------------------------------------


def _held(call: CapturedCall, changed: list[GraphInput]) -> dict[str, GraphInput]:
    """Let the graph hold parameters and buffers that calls never change; gives them by their paths."""
    graph = call.builder.graph
    held: dict[str, GraphInput] = {}
    for one in call.builder.inputs:
        if one in changed or one.source in call.in_place or not isinstance(one.original, torch.Tensor):
            continue
        if call.is_volatile(one.source) or not call.is_registered(one.original, one.source):
            continue
        names, source = [], one.source
        while isinstance(source, Attribute):
            names.append(source.name)
            source = source.base
        path = ".".join(names[::-1])
        held[path] = one
        if one.node.users:
            with graph.inserting_after(call.builder.last):
                attribute = graph.get_attr(path)
            one.node.replace_all_uses_with(attribute)
    return held


def _kept_inputs(call: CapturedCall) -> list[GraphInput]:
    """Erase inputs that nothing uses, but for arguments and their items; gives the others."""
    kept = []
    for one in call.builder.inputs:
        source = one.source
        while isinstance(source, Item):
            source = source.base
        if one.node.users or (isinstance(source, Local) and source.name != "self"):
            kept.append(one)
        else:
            call.builder.graph.erase_node(one.node)
    return kept


# --- tensors that were changed in place ----------------------------------------------------------------


def _note_differences(call: CapturedCall) -> None:
    """Note inputs whose elements differ from before, though no version counter says so."""
    for one in call.builder.inputs:
        for original, proxy in one.tensors:
            before = call.snapshot.tensor(original)
            if one.changed or torch.equal(proxy, before):
                continue
            if proxy.is_floating_point() and torch.equal(
                proxy.detach().nan_to_num(), before.detach().nan_to_num()
            ):
                continue  # nan equals nothing, itself included
            if one.is_list:
                raise CaptureError(ITEM_CHANGED)
            one.silently = True


def _check_storages(call: CapturedCall, changed: list[GraphInput]) -> None:
    """Refuse tensors whose shape changes in place, and those that change while others share their memory."""
    for one in changed:
        if one.proxy.shape != one.original.shape:
            raise error_at("a tensor whose shape is changed in place", one.statement)
    tensors = [original for one in call.builder.inputs for original, _ in one.tensors]
    users = Counter(one.untyped_storage().data_ptr() for one in tensors)
    for one in changed:
        address = one.original.untyped_storage().data_ptr()
        if address and users[address] > 1:
            message = "a tensor that is changed in place shares its memory with another one"
            raise error_at(message, one.statement)


def _check_gradients(call: CapturedCall, flat: Flat) -> None:
    """Refuse results with a gradient of a call without gradients: replay computes them without."""
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


def _check_unchanging(call: CapturedCall, changed: list[GraphInput]) -> None:
    """Refuse a change of a tensor that an autograd function has saved, or whose memory its result shares."""
    proxies = {id(one.proxy): one.statement for one in changed}
    for tensor, version, statement in call.unchanging:
        if tensor._version != version or id(tensor) in proxies:
            message = "a tensor that an autograd function relies on is changed in place"
            raise error_at(message, proxies.get(id(tensor)) or statement)


def _cloned(call: CapturedCall, one: GraphInput) -> object:
    """Let the graph change a clone of an input; gives a value for the clone as it is in the end."""
    node = one.node
    with call.builder.graph.inserting_after(call.builder.last):
        copy = call.builder.graph.call_method("clone", (node,))
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
    value = object()
    call.builder.bind(value, copy)
    return value


def _check_cells(call: CapturedCall, effects: MethodEffects) -> None:
    """Refuse a table with a variable of a function that shares its name with another one."""
    for source in map(root_of, sources_in(effects)):
        if isinstance(source, ClosureCell) and source in call.ambiguous:
            name = source.function.partition("#")[0]
            raise CaptureError(f"{source.name!r} of two functions called {name}: no name tells them apart")
