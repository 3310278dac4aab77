"""Values that are the same or share memory: guards for them, and views that may not be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.sites import error_at
from archive.effects.capture.sources import is_plain, is_under_argument
from archive.effects.capture.variables import VALUES
from archive.effects.python_containers import base_of, is_container, items_of
from archive.formats.effects.model import Each, Look, Made, Output

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.flattening import Flat
    from archive.effects.capture.inputs import Input
    from archive.effects.capture.sites import Statement
    from archive.formats.effects.model import Value

VIEW_KEPT = "a part of a tensor that is changed in place is kept or returned: it would not change with it"


def note_sharing(call: CapturedCall, inputs: list[Input], changed: list[Input]) -> None:
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


def _note_identities(call: CapturedCall, statement: Statement) -> None:
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


def check_views(call: CapturedCall, changed: list[Input], flat: Flat) -> None:
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


def _keeping_statement(call: CapturedCall, flat: Flat, number: int) -> Statement | None:
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
