"""Finishes a captured call: inputs and outputs of its graph are settled, and its table is completed."""

from __future__ import annotations

from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from archive.effects.capture.bounds import Bounds
from archive.effects.capture.initial import initial_state, sources_in
from archive.effects.capture.reach import Reach
from archive.effects.capture.sharing import check_views, note_sharing
from archive.effects.capture.sites import Statement, error_at
from archive.effects.capture.sources import is_under_argument, root_of
from archive.effects.errors import ITEM_CHANGED, CaptureError
from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.model import Attribute, ClosureCell, Item, Local, Op

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.flattening import Flat
    from archive.effects.capture.inputs import Input
    from archive.formats.effects.model import MethodEffects, Source


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
    effects.result_statement = _start_of(getattr(type(module), effects.method, None))
    with WITHOUT_MODES():
        _note_differences(call)
        changed = builder.changed()
        call.copies.forget(changed)
        if call.deciding:
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
    Bounds(call).note()
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
    if not call.deciding:
        effects.state = initial_state(call.originals, call.aliases, [flat.effects])
    tensors = builder.constants | {path: one.original for path, one in held.items()}
    return fx.GraphModule(tensors, builder.graph, class_name=type(module).__name__), flat


def _start_of(function: object) -> Statement | None:
    """The first line of a function; None if it is not written in Python."""
    if not isinstance(function, FunctionType):
        return None
    code = function.__code__
    return Statement(code.co_filename, code.co_firstlineno, None)


# --- inputs of the graph -------------------------------------------------------------------------------


def _held(call: CapturedCall, changed: list[Input]) -> dict[str, Input]:
    """Let the graph hold parameters and buffers that calls do not change; gives them by their paths."""
    graph = call.builder.graph
    held: dict[str, Input] = {}
    for one in call.builder.inputs:
        path = None if one in changed or one.source in call.in_place else _path(call, one)
        if path is None:
            continue
        held[path] = one
        if one.node.users:
            with graph.inserting_after(call.builder.last):
                attribute = graph.get_attr(path)
            one.node.replace_all_uses_with(attribute)
    return held


def _kept_inputs(call: CapturedCall) -> list[Input]:
    """Erase inputs that nothing uses, but for arguments; gives the others."""
    kept = []
    for one in call.builder.inputs:
        if one.node.users or _is_argument(one.source):
            kept.append(one)
        else:
            call.builder.graph.erase_node(one.node)
    return kept


def _path(call: CapturedCall, one: Input) -> str | None:
    """The path of a parameter or buffer that calls never replace; None for other inputs."""
    if not isinstance(one.original, torch.Tensor) or call.is_volatile(one.source):
        return None
    if not call.is_registered(one.original, one.source):
        return None
    names = []
    source = one.source
    while isinstance(source, Attribute):
        names.append(source.name)
        source = source.base
    return ".".join(names[::-1])


def _is_argument(source: Source) -> bool:
    """Whether a source is an argument of the method, or an item of one."""
    while isinstance(source, Item):
        source = source.base
    return isinstance(source, Local) and source.name != "self"


# --- tensors that were changed in place ----------------------------------------------------------------


def _note_differences(call: CapturedCall) -> None:
    """Note inputs whose elements differ from before, though no version counter says so."""
    for one in call.builder.inputs:
        for original, proxy in one.tensors:
            before = call.snapshot.tensor(original)
            if not one.changed and not _are_equal(proxy, before):
                if one.is_list:
                    raise CaptureError(ITEM_CHANGED)
                one.silently = True


def _are_equal(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether two tensors have the same elements; nan, which equals nothing, is compared as a number."""
    if torch.equal(one, other):
        return True
    return bool(one.is_floating_point()) and torch.equal(
        one.detach().nan_to_num(), other.detach().nan_to_num()
    )


def _check_storages(call: CapturedCall, changed: list[Input]) -> None:
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


def _check_unchanging(call: CapturedCall, changed: list[Input]) -> None:
    """Refuse a change of a tensor that an autograd function has saved, or whose memory its result shares."""
    proxies = {id(one.proxy): one.statement for one in changed}
    for tensor, version, statement in call.unchanging:
        if tensor._version != version or id(tensor) in proxies:
            message = "a tensor that an autograd function relies on is changed in place"
            raise error_at(message, proxies.get(id(tensor)) or statement)


def _cloned(call: CapturedCall, one: Input) -> object:
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
