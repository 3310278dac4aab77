"""Made models and their entries, run beside one another without lowering, and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import reject

from archive.effects import CaptureError, GuardError, State, capture_entries
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import EffectTable
from archive.formats.effects.record import build_effects
from tests.support.effect_comparison import CODE, Comparing, named, picture, shown, state_in, state_of
from tests.support.made_effects import written

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from tests.support.made_effects import Made


class Entries:
    """The entries of a made model on a state of their own, run as they are loaded, without lowering."""

    def __init__(self, model: Made, module: Any, eager: Any, example: torch.Tensor) -> None:  # noqa: ANN401
        captured = capture_entries(eager, [(example,)])
        state = captured[0].side_effects.state
        methods = tuple(one.side_effects.table() for one in captured)
        table = EffectTable(methods, state.entries)
        build_effects(table)
        code = {f"{model.name}:{name}": one for name, one in vars(module).items() if isinstance(one, CODE)}
        self._entries = [
            (one.graph, prepared(method, code)) for one, method in zip(captured, methods, strict=True)
        ]
        self.state = State.fresh(table, [one.clone() for one in state.tensors])

    def __call__(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Run the entry that fits.

        Raises:
            GuardError: none does.
        """
        refusals = []
        for graph, effects in self._entries:
            try:
                outputs = graph(*effects.inputs(self.state, {"x": x}))
                return effects.replay(self.state, outputs, {"x": x})
            except GuardError as error:
                refusals.append(error)
        raise refusals[0]


def check_entries(model: Made, argument: Callable[[int], torch.Tensor], calls: int) -> int:
    """Compare calls of a made model with those of its entries, up to one that is refused.

    Args:
        model: the made model.
        argument: of a call, by its number.
        calls: how many.

    Returns:
        The number of calls that were equal.
    """
    with written(model) as module:
        eager = module.Model()
        before = {path: shown(one) for path, one in named(state_of(eager, module))}
        try:
            entries = Entries(model, module, eager, argument(0))
        except CaptureError:
            reject()
        assert {path: shown(one) for path, one in named(state_of(eager, module))} == before
        for number in range(calls):
            mine, its = argument(number), argument(number)
            kept = picture(state_in(entries))
            try:
                found = entries(its)
            except GuardError:
                assert picture(state_in(entries)) == kept
                return number
            comparing = Comparing(before)
            comparing.same([eager(mine), mine], [found, its], "result")
            comparing.same(state_of(eager, module), state_in(entries), "")
    return calls
