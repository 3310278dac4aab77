"""One call of the model, run on what stands in for everything it can change."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from archive.effects.capture.bounds import Bounds
from archive.effects.capture.guards import literal
from archive.effects.capture.initial import initial_state, spoken_of
from archive.effects.capture.recorder import Recorder
from archive.effects.capture.recording import Recording
from archive.effects.capture.sharing import check_views, note_sharing
from archive.effects.capture.sites import of_model
from archive.effects.capture.tape import WITHOUT_MODES
from archive.effects.capture.wrapping import SAFE
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Attribute, ClosureCell, Item, Local, Look, Op

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.effects.capture.tape import Input
    from archive.effects.capture.world import World
    from archive.formats.effects.model import MethodEffects, Source


@dataclass(slots=True)
class Found:
    """What calls have been seen to change; it grows until a call shows nothing new.

    Attributes:
        written: sources that are set.
        resized: lists and dicts whose length changes.
        mutated: lists and dicts that change.
    """

    written: set[Source]
    resized: set[Source]
    mutated: set[Source]

    def size(self) -> int:
        """How much that is."""
        return len(self.written) + len(self.resized) + len(self.mutated)


@dataclass(slots=True)
class Run:
    """A call that has been recorded.

    Attributes:
        recorder: what is known in it.
        graph: what it computes.
    """

    recorder: Recorder
    graph: Any


def run(module: Any, method: str, arguments: tuple[Any, ...], world: World, found: Found) -> Run:  # noqa: ANN401
    """Record a call.

    Args:
        module: the model, which stays as it is.
        method: its method.
        arguments: what it is given.
        world: what lives where before.
        found: what calls change, as far as known; more is added.

    Raises:
        CaptureError: it cannot be captured.
    """
    recorder = Recorder(world, set(found.written), found.resized, set(found.mutated))
    recorder.side_effects.method = method
    recorder.wrapping.name_paths(module)
    stand_in = recorder.wrap(module, Local("self"))
    given = _given(recorder, module, method, arguments)
    result = _called(recorder, stand_in, method, given)
    found.written |= recorder.seen_written
    found.mutated |= recorder.seen_mutated
    return Run(recorder, _finished(recorder, module, result))


def _given(recorder: Recorder, module: Any, method: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ANN401
    """What stands in for the arguments."""
    signature = inspect.signature(getattr(module, method))
    try:
        bound = signature.bind(*arguments)
    except TypeError as error:
        raise CaptureError(f"{method}: {error}") from error
    names = dict(bound.arguments)
    recorder.guards.name_arguments(getattr(type(module), method, None), signature.parameters)
    _note_defaults(recorder, signature, names)
    given: list[Any] = []
    for name, value in names.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            recorder.guards.note(Look.LENGTH, Local(name), len(value))
            given += [
                recorder.wrapping.argument(one, Item(Local(name), place)) for place, one in enumerate(value)
            ]
        else:
            given.append(recorder.wrapping.argument(value, Local(name)))
    return tuple(given)


def _note_defaults(recorder: Recorder, signature: inspect.Signature, given: Collection[str]) -> None:
    """Note what arguments are that are left out; rely on it where the example has left them out, too."""
    for name, one in signature.parameters.items():
        if one.default is one.empty:
            continue
        if not literal(one.default) and not isinstance(one.default, SAFE):
            continue
        default = one.default if literal(one.default) else str(one.default)
        recorder.side_effects.defaults[name] = default
        if name not in given and recorder.guards.is_read(name):
            recorder.guards.constant(one.default, Local(name))


def _called(recorder: Recorder, stand_in: Any, method: str, given: tuple[Any, ...]) -> Any:  # noqa: ANN401
    error: CaptureError | None = None
    result: Any = None
    with torch.random.fork_rng(devices=()), Recording(recorder):
        try:
            result = getattr(stand_in, method)(*given)
            recorder.functions.settle(None)
        except CaptureError as refusal:
            error = refusal
        except Exception as failure:  # noqa: BLE001 (whatever the model raises)
            error = _failed(failure)
            error.__cause__ = failure
    if recorder.refusal is not None and error is not recorder.refusal:
        raise recorder.refusal
    if error is not None:
        raise error
    broken = recorder.broken()
    if broken is not None:
        raise CaptureError(*broken)
    return result


def _failed(failure: Exception) -> CaptureError:
    """A model's own error, with the model's line."""
    trace, place = failure.__traceback__, ("", 0)
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if of_model(filename):
            place = filename, trace.tb_lineno
        trace = trace.tb_next
    return CaptureError(f"{type(failure).__name__}: {failure}", *place)


def _finished(recorder: Recorder, module: Any, result: Any) -> Any:  # noqa: ANN401
    """The graph of a recorded call; its table is completed."""
    tape, effects = recorder.tape, recorder.side_effects
    effects.result = result
    effects.result_place = recorder.function_place(getattr(type(module), effects.method, None))
    with WITHOUT_MODES():
        recorder.note_differences()
        changed = tape.changed()
        _check_storages(recorder, changed)
    attributes: dict[str, Any] = dict(tape.constants)
    for one in changed:
        effects.mutation(one.source, Op.COPY, value=_cloned(recorder, one), place=one.place)
    kept, fixed_sources = [], []
    for one in tape.inputs:
        path = None if one in changed else _path(recorder, one)
        if path is not None:
            fixed_sources.append(one.source)
        if path is not None and one.node.users:
            attributes[path] = one.original
            with tape.graph.inserting_after(tape.last):
                fixed = tape.graph.get_attr(path)
            one.node.replace_all_uses_with(fixed)
        if one.node.users or _is_argument(one.source):
            kept.append(one)
        else:
            tape.graph.erase_node(one.node)
    effects.inputs = tuple(one.source for one in kept)
    with WITHOUT_MODES():
        note_sharing(recorder, kept, changed)
    Bounds(recorder).note()
    effects.guards = recorder.guards.settled(fixed_sources)
    effects.prune_dead_object_new()
    flat = effects.flat()
    _check_cells(recorder, flat.effects)
    with WITHOUT_MODES():
        check_views(recorder, changed, flat)
    tape.drop_unused(flat.outputs)
    tape.graph.output(flat.outputs)
    tape.graph.lint()
    effects.state = initial_state(recorder, flat.effects)
    return fx.GraphModule(attributes, tape.graph, class_name=type(module).__name__)


def _check_cells(recorder: Recorder, effects: MethodEffects) -> None:
    """Refuse variables of functions that no name tells apart."""
    for one in spoken_of(effects):
        source = one
        while isinstance(source, Attribute | Item):
            source = source.base
        if isinstance(source, ClosureCell) and source in recorder.functions.ambiguous:
            name = source.function.partition("#")[0]
            raise CaptureError(f"{source.name!r} of two functions called {name}: no name tells them apart")


def _is_argument(source: Source) -> bool:
    while isinstance(source, Item):
        source = source.base
    return isinstance(source, Local) and source.name != "self"


def _cloned(recorder: Recorder, one: Input) -> object:
    """Let the graph change a copy of an input; a value that stands for what it is at last."""
    node = one.node
    with recorder.tape.graph.inserting_after(recorder.tape.last):
        copy = recorder.tape.graph.call_method("clone", (node,))
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
    value = object()
    recorder.tape.bind(value, copy)
    return value


def _path(recorder: Recorder, one: Input) -> str | None:
    """The path of a parameter or buffer that calls leave where it is."""
    if not isinstance(one.original, torch.Tensor) or recorder.wrapping.volatile(one.source):
        return None
    if not recorder.is_registered(one.original, one.source):
        return None
    names = []
    source = one.source
    while isinstance(source, Attribute):
        names.append(source.name)
        source = source.base
    return ".".join(names[::-1])


def _check_storages(recorder: Recorder, changed: list[Input]) -> None:
    """Refuse what is changed through one tensor and seen through another one."""
    tensors = [one for one in recorder.tape.inputs if isinstance(one.original, torch.Tensor)]
    users = Counter(one.original.untyped_storage().data_ptr() for one in tensors)
    for one in changed:
        address = one.original.untyped_storage().data_ptr()
        if address and users[address] > 1:
            raise CaptureError(
                "a tensor that is changed in place shares its memory with another one",
                *(("", 0) if one.place is None else (one.place.filename, one.place.line)),
            )
