"""What is the same or shares memory: what a call relies on, and what it may not keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.guards import followed
from archive.effects.capture.scalars import is_scalar
from archive.effects.capture.variables import Kind
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Attribute, Item, Local, Look, Made, Output

if TYPE_CHECKING:
    from archive.effects.capture.flattening import Flat
    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.sites import Place
    from archive.effects.capture.tape import Input
    from archive.formats.effects.model import Source, Value


def note_sharing(recorder: Recorder, inputs: list[Input], changed: list[Input]) -> None:
    """Rely on what is the same; and where something is changed, on what has nothing to do with it.

    Args:
        recorder: of the call.
        inputs: of the graph.
        changed: those that are changed in place.
    """
    for source, first in recorder.aliases.items():
        if _is_told(recorder.originals.get(first)):
            recorder.guards.note(Look.SAME, source, first)
    tensors = [one for one in inputs if not is_scalar(one.stand_in)]
    for one in changed:
        for other in tensors:
            if other is not one and (_is_given(one.source) or _is_given(other.source)):
                recorder.guards.note(Look.APART, one.source, other.source, place=one.place)
    effects = recorder.side_effects
    held = [
        one for one in recorder.stand_ins if one.kind in (Kind.LIST, Kind.DICT) and one.source is not None
    ]
    for number, variable in enumerate(held):
        for other_one in held[:number]:
            if not (_is_given(variable.source) or _is_given(other_one.source)):
                continue
            if effects.is_modified(variable) or effects.is_modified(other_one):
                recorder.guards.note(Look.APART, variable.source, other_one.source)


def _is_told(value: object) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, list | dict) and followed(value))


def _is_given(source: Source | None) -> bool:
    """Whether something is under an argument."""
    while isinstance(source, Attribute | Item):
        source = source.base
    return isinstance(source, Local) and source.name != "self"


def check_views(recorder: Recorder, changed: list[Input], flat: Flat) -> None:
    """Refuse to keep or return a part of a tensor that is changed in place: it would not change with it.

    Raises:
        CaptureError: naming the statement that keeps it.
    """
    addresses = {_address(one.stand_in): one.stand_in for one in changed if _address(one.stand_in)}
    makers = {node: number for number, node in enumerate(flat.outputs)}
    for value in recorder.tape.values():
        number = makers.get(recorder.tape.node_of(value))
        if (
            number is None
            or not isinstance(value, torch.Tensor)
            or value is addresses.get(_address(value), value)
        ):
            continue
        place = _place(recorder, flat, number)
        raise CaptureError(
            "a part of a tensor that is changed in place is kept or returned: it would not change with it",
            *(("", 0) if place is None else (place.filename, place.line)),
        )


def _address(tensor: Any) -> int:  # noqa: ANN401
    address: int = tensor.untyped_storage().data_ptr()
    return address


def _place(recorder: Recorder, flat: Flat, number: int) -> Place | None:
    """The statement that keeps an output of the graph."""
    for effect in flat.effects.effects:
        if effect.value is not None and number in _outputs(effect.value) and effect.handle >= 0:
            return flat.places[effect.handle]
    return recorder.side_effects.result_place


def _outputs(value: Value) -> set[int]:
    if isinstance(value, Output):
        return {value.index}
    if isinstance(value, Made):
        return set().union(*map(_outputs, value.items))
    return set()
