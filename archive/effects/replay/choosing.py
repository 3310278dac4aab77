"""Which of a method's entries makes a call: the first one that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.replay.errors import GuardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from archive.effects.replay.replay import Prepared
    from archive.effects.replay.state import State


class Entry(NamedTuple):
    """An entry that can run: its graph, and its effects."""

    run: Callable[..., Any]
    effects: Prepared


def run_entry(
    entries: Sequence[Entry], order: Iterable[int], state: State, arguments: Mapping[str, object]
) -> tuple[int, Any]:
    """Run the first entry that fits a call; return its number, and the method's result.

    A graph runs before guards on its results are checked. If these refuse them, or the graph fails, which may
    be for other results than this call's, the next entry is tried, with random numbers as before.

    Args:
        order: the numbers of the entries, as they are tried.
        arguments: the method's, by name.

    Raises:
        GuardError: no entry fits; the error is that of the nearest one.
        Exception: what the first graph raised that failed, if no entry fits.
    """
    refusals: dict[int, GuardError] = {}
    failure: Exception | None = None
    for number in order:
        run, effects = entries[number]
        try:
            given = effects.inputs(state, arguments)
        except GuardError as error:
            refusals[number] = error
            continue
        if not effects.guards_results:
            return number, effects.replay(state, run(*given), arguments)
        random = torch.get_rng_state()
        try:
            outputs = run(*given)
        except Exception as error:  # noqa: BLE001 (whatever a graph raises)
            failure = failure or error
        else:
            try:
                return number, effects.replay(state, outputs, arguments)
            except GuardError as error:
                refusals[number] = error
        torch.set_rng_state(random)
    if failure is not None:
        raise failure
    nearest = max(sorted(refusals), key=lambda number: refusals[number].number)
    refusals[nearest].entry = nearest
    raise refusals[nearest]
