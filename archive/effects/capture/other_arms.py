"""States in which a captured call decides otherwise: a counter at its threshold, a list that is full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.inputs import copied
from archive.effects.capture.sources import is_under_argument
from archive.effects.looking import computed
from archive.effects.python_containers import is_container
from archive.formats.effects.model import (
    At,
    Attribute,
    Computed,
    Constant,
    GlobalName,
    Item,
    Length,
    Look,
    Output,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.effects.capture.attempt import Attempt
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.snapshot import Snapshot
    from archive.formats.effects.model import Source, Value

Decision = tuple[Computed, bool]
NEAR = 64
"""Numbers behind the present one that are tried one by one."""
LARGEST_EXPONENT = 40
LONGEST_LIST = 4096
"""Items of the longest list that is made to reach an arm."""


def decisions_of(one: Attempt) -> list[Decision]:
    """The conditions on state by which a call took its way, in their order."""
    return [
        (guard.subject, guard.value.value)
        for guard in one.flat.effects.guards
        if guard.look is Look.EQUAL and isinstance(guard.subject, Computed)
        if isinstance(guard.value, Constant) and isinstance(guard.value.value, bool)
    ]


def decides_by_results(one: Attempt) -> bool:
    """Whether a call took its way by what its graph computes: by the size of a result."""
    guards = one.flat.effects.guards
    return any(guard.look is Look.EQUAL and isinstance(guard.subject, Output) for guard in guards)


def state_for_other(one: Attempt, number: int) -> Snapshot | None:
    """A state in which a call decides otherwise for the first time.

    Args:
        one: the call.
        number: of the decision that is to be another.

    Returns:
        The state of the call, but for one number or length; None if none is found.
    """
    decisions = decisions_of(one)[: number + 1]
    values = _values(one.call)
    subject, wanted = decisions[-1][0], not decisions[-1][1]
    constants = [part for decided, _ in decisions for part in _constants(decided)]
    for source in dict.fromkeys(_leaves(subject)):
        if is_under_argument(source) or type(values.get(source)) not in (int, float):
            continue
        for candidate in _candidates(values[source], constants):
            tried = values | {source: candidate}
            if _holds(decisions[:-1], tried) and _is(subject, tried, wanted):
                found = _with_number(one.call, source, candidate)
                if found is not None:
                    return found
    return None


def _values(call: CapturedCall) -> dict[Source, Any]:
    """The numbers and tensors that a call was given, by their sources."""
    return {
        one.source: call.snapshot.tensor(one.original)
        if isinstance(one.original, torch.Tensor)
        else one.original
        for one in call.builder.inputs
    }


def _leaves(value: Value) -> Iterator[Source]:
    if isinstance(value, Computed):
        for item in value.items:
            yield from _leaves(item)
    elif isinstance(value, At):
        yield value.source


def _constants(value: Value) -> Iterator[Any]:
    if isinstance(value, Computed):
        for item in value.items:
            yield from _constants(item)
    elif isinstance(value, Constant):
        yield value.value


def _candidates(now: float, constants: Iterable[Any]) -> Iterator[Any]:
    """Numbers to try: the next ones, then those near constants, then larger and larger steps."""
    kind = type(now)
    yield from (now + step for step in range(1, NEAR + 1))
    for constant in constants:
        yield from (kind(constant + step) for step in (-1, 0, 1))
    for exponent in range(LARGEST_EXPONENT):
        yield now + 2**exponent
        yield now - 2**exponent
    if kind is float:
        yield from (now / 2**exponent for exponent in range(1, LARGEST_EXPONENT))


def _holds(decisions: Iterable[Decision], values: dict[Source, Any]) -> bool:
    return all(_is(subject, values, value) for subject, value in decisions)


def _is(subject: Computed, values: dict[Source, Any], wanted: bool) -> bool:  # noqa: FBT001
    try:
        return _evaluated(subject, values) is wanted
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False


def _evaluated(value: Value, values: dict[Source, Any]) -> Any:  # noqa: ANN401
    if isinstance(value, Computed):
        return computed(value.op, *(_evaluated(item, values) for item in value.items))
    if isinstance(value, At):
        return values[value.source]
    assert isinstance(value, Constant)  # noqa: S101 (the other operands of computed numbers)
    return value.value


def _with_number(call: CapturedCall, source: Source, value: Any) -> Snapshot | None:  # noqa: ANN401
    """The state before a call with another number at a source; None if that is not to be had."""
    snapshot, owner = call.snapshot.copy(), _owner(call, source)
    if isinstance(source, Attribute | GlobalName) and owner is not None:
        snapshot.set_name(owner, source.name, value)
        return snapshot
    contents = snapshot.contents(owner) if is_container(owner) else None
    if isinstance(source, Item) and contents is not None:
        contents[source.key] = value
    elif not isinstance(source, Length) or not _resize(contents, value):
        return None
    snapshot.set_contents(owner, contents)
    return snapshot


def _owner(call: CapturedCall, source: Source) -> Any:  # noqa: ANN401
    """The real object, list, dict or globals that a place is in; None where it is not known."""
    if isinstance(source, GlobalName):
        return call.functions.names(source.module)
    return call.originals.get(source.base) if isinstance(source, Attribute | Item | Length) else None


def _resize(contents: Any, length: int) -> bool:  # noqa: ANN401
    """Give a list another length, by copies of its last item; False if that cannot be."""
    if type(contents) is not list or not 0 <= length <= LONGEST_LIST or (length and not contents):
        return False
    del contents[length:]
    contents += [_copy(contents[-1]) for _ in range(length - len(contents))]
    return True


def _copy(value: Any) -> Any:  # noqa: ANN401
    return copied(value) if isinstance(value, torch.Tensor) else value
