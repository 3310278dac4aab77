"""Modules with hooks: calls unlike the example, live states, and what later calls may not do."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, LoweringError, lower, lowered_archive
from archive.effects import CaptureError, GuardError, State, capture
from tests.support.live_state import live_state

pytestmark = pytest.mark.torch


class Hooked(nn.Module):
    """Counts in a hook of its part, and keeps the argument in one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(3, 3)
        self.seen: list[torch.Tensor] = []
        last: dict[str, Any] = {}

        def kept(_: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
            last["arguments"] = args
            return output * len(args)

        def appended(_: nn.Module, args: tuple[Any, ...]) -> None:
            self.seen.append(args[0])

        self.register_forward_hook(kept)
        self.part.register_forward_pre_hook(appended)
        self.last = kept

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.part(x) * scale


def arguments(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(rows, 3), torch.tensor(2.0)


def loaded(model: nn.Module, state: State | None = None) -> Effectful:
    lowered = lower(model, "aten", effects=True, example_inputs=arguments(2))
    return Effectful.load(lowered_archive(lowered), state)


def test_other_batch_sizes_break_no_guard() -> None:
    model = Hooked()
    ours = loaded(model)
    for rows in (2, 1, 4):
        assert torch.equal(ours(*arguments(rows)), model(*arguments(rows)))
    assert [len(one) for one in ours.state.module.seen] == [2, 1, 4]


def test_a_live_state_is_changed_as_the_hooks_would_change_it() -> None:
    model, twin = Hooked(), Hooked()
    twin.load_state_dict(model.state_dict())
    ours = loaded(model, live_state(twin, modules=[__name__]))
    for rows in (2, 1):
        given = arguments(rows)
        assert torch.equal(ours(*given), model(*given))
        assert twin.seen[-1] is model.seen[-1] is given[0]
        (kept,) = (cell.cell_contents for cell in twin.last.__closure__ or ())
        assert kept["arguments"] == given


def test_a_live_model_with_other_hooks_is_refused() -> None:
    twin = Hooked()
    ours = loaded(Hooked(), live_state(twin, modules=[__name__]))
    handle = twin.part.register_forward_pre_hook(lambda *_: None)
    with pytest.raises(GuardError, match=r"hooks\(self.part, '_forward_pre_hooks'\) == \(.*appended',\)"):
        ours(*arguments(2))
    assert not twin.seen
    handle.remove()
    ours(*arguments(2))
    assert len(twin.seen) == 1


def test_hooks_see_arguments_by_place_so_none_is_given_by_name() -> None:
    x, scale = arguments(2)
    with pytest.raises(TypeError, match=r"positional[ -]only"):
        loaded(Hooked())(x, scale=scale)


def test_an_argument_left_out_is_refused_since_hooks_may_ask_for_it() -> None:
    class Optional(Hooked):
        def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
            return x * scale

    with pytest.raises(CaptureError, match="may ask whether 'scale' is given"):
        capture(Optional(), torch.ones(3))


def test_torchscript_has_no_place_for_hooks_on_the_way_back() -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].register_full_backward_hook(lambda *_: None)
    example = torch.ones(2, 3, requires_grad=True)
    lowered = lower(model, "aten", effects=True, example_inputs=(example,))
    with pytest.raises(LoweringError, match="gives no gradient to hooks"):
        Effectful.load(lowered_archive(lowered), allow=[__name__], stock=True)


def test_hooks_of_all_modules_are_refused() -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        with pytest.raises(CaptureError, match="called while all modules have hooks"):
            capture(Hooked(), *arguments(2))
    finally:
        handle.remove()


def test_an_argument_that_only_a_hook_reads_is_an_input() -> None:
    class Unread(nn.Module):
        def forward(self, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return x * 2

    model = Unread()
    model.register_forward_hook(lambda _, args, output: output + args[1])
    ours = loaded(model)
    for rows in (2, 3):
        assert torch.equal(ours(*arguments(rows)), model(*arguments(rows)))
