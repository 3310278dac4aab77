"""Made modules with effects, saved and loaded: each call gives and changes what the eager module's does."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import BackendError, Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError, capture
from archive.effects.capture.entries import AGAIN
from archive.effects.capture.proxies.open_list import UNKNOWN_ITEM
from tests.effects.comparison import CODE, Comparing, leaves, named, picture, shown, state_in, state_of
from tests.effects.made_modules import KINDS, Statement, made, models, written
from tests.support.sampling import Suite, examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from types import ModuleType

    from tests.effects.made_modules import Made

pytestmark = pytest.mark.torch

CALLS = 3
MACHINE_ONLY = "x.register_hook"
"""TorchScript joins operations from the second call on; then what is between them has no gradient."""
HOOK = "def doubled(grad):\n    return grad * 2"
UNLIKE = [
    torch.ones(1, 3).requires_grad_(),
    torch.ones(6, 3).requires_grad_(),
    torch.ones(2, 1).requires_grad_(),
    torch.ones(3).requires_grad_(),
    torch.ones(2, 3),
    torch.ones(2, 3, dtype=torch.float64).requires_grad_(),
    torch.ones(2, 3, dtype=torch.int64),
    torch.ones(3, 2).T.requires_grad_(),
]
"""Arguments of other sizes, types, strides, and without a gradient."""


def argument(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, generator=generator).requires_grad_()


def backward(result: Any) -> bool:  # noqa: ANN401
    """Go back from all that is in a result; whether PyTorch does."""
    found = [one for one in leaves(result) if one.requires_grad]
    if not found:
        return False
    try:
        torch.stack([one.sum() for one in found]).sum().backward(retain_graph=True)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return False
    return True


def learnt(eager: Any, loaded: Effectful) -> list[tuple[torch.Tensor, torch.Tensor]]:  # noqa: ANN401
    """The parameters of both that have the same contents; a lowered module has those alone that it needs."""
    _, tensors = loaded.delegate._module.getattr("__processed_module")
    return [
        (ours, theirs)
        for ours in eager.parameters()
        for theirs in tensors
        if theirs.requires_grad and torch.equal(ours, theirs)
    ]


def same_capture(model: Any, x: torch.Tensor) -> None:  # noqa: ANN401
    (graph, one), (again, other) = capture(model, x), capture(model, x)
    assert graph.code == again.code
    ours, theirs = one.flat(), other.flat()
    assert (ours.effects, ours.sites) == (theirs.effects, theirs.sites)
    assert list(map(str, ours.outputs)) == list(map(str, theirs.outputs))
    assert one.state.entries == other.state.entries
    assert all(map(torch.equal, one.state.tensors, other.state.tensors))


def check(model: Made) -> None:
    with written(model) as module:
        torch.manual_seed(0)
        eager, x = module.Model(), argument(0)
        for one in eager.parameters():
            torch.nn.init.uniform_(one)  # so that they are told apart by their contents
        before = {path: shown(one) for path, one in named(state_of(eager, module))}, shown(x)
        digest = zlib.crc32(model.text.encode())
        if Suite.whole or digest % 4 == 0:
            same_capture(eager, x)
        data = lowered_archive(lower(eager, "aten", effects=True, example_inputs=(x,)))
        after = {path: shown(one) for path, one in named(state_of(eager, module))}, shown(x)
        assert after == before, "capture leaves everything as it was"
        assert all(one.grad is None for one in (x, *eager.parameters()))
        code = {f"{model.name}:{name}": one for name, one in vars(module).items() if isinstance(one, CODE)}
        stocks = (False,) if MACHINE_ONLY in model.text else (False, True)
        ways = [Effectful.load(data, stock=stock, allow=code) for stock in stocks]
        parameters = [learnt(eager, one) for one in ways]
        for seed in range(CALLS):
            mine = argument(seed)
            result = eager(mine)
            flows = backward(result)
            for one, pairs in zip(ways, parameters, strict=True):
                its = argument(seed)
                found = one(its)
                assert not flows or backward(found)
                comparing = Comparing(before[0])
                comparing.same([result, mine], [found, its], "result")
                comparing.same(state_of(eager, module), state_in(one), "")
                comparing.same(mine.grad, its.grad, "gradient")
                for ours, theirs in pairs:
                    comparing.same(ours.grad, theirs.grad, "gradient of a parameter")
        check_unlike(eager, module, ways, before[0], digest)


def check_unlike(eager: Any, module: ModuleType, ways: list[Effectful], before: Any, seed: int) -> None:  # noqa: ANN401
    """A call unlike the others is right, or refused and nothing is changed."""
    unlike = UNLIKE[seed % len(UNLIKE)]
    kept = [picture(state_in(one)) for one in ways]
    mine = again(unlike)
    try:
        result, failed = eager(mine), False
    except (RuntimeError, TypeError, ValueError, IndexError):
        result, failed = None, True
    for one, state in zip(ways, kept, strict=True):
        its = again(unlike)
        try:
            found = one(its)
        except (GuardError, BackendError, RuntimeError, torch.jit.Error) as error:
            if not (isinstance(error, GuardError) or failed):
                raise
            assert picture(state_in(one)) == state
            continue
        assert not failed
        comparing = Comparing(before)
        comparing.same([result, mine], [found, its], "result")
        comparing.same(state_of(eager, module), state_in(one), "")


def again(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def check_unless_refused(one: Made) -> None:
    """Check a model, unless it must be refused: statements were drawn that no table can tell together."""
    try:
        check(one)
    except CaptureError as error:
        if error.message != UNKNOWN_ITEM and not error.message.startswith(AGAIN):
            raise
        reject()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(patient, max_examples=examples(4))
def test_one_kind_of_change(kind: str, data: st.DataObject) -> None:
    check_unless_refused(data.draw(models((kind,))))


@given(model=models(tuple(KINDS)))
@settings(patient, max_examples=examples(20))
def test_changes_of_many_kinds(model: Made) -> None:
    check_unless_refused(model)


def test_a_hook_on_a_parameter() -> None:
    hooking = "x = self.linear(x); self.linear.weight.register_hook(doubled)"
    check(made([Statement(hooking, "self.linear = nn.Linear(3, 3)", HOOK)]))


@pytest.mark.parametrize(
    "statement",
    [
        Statement("self.n = self.n ** 2 % 1000", "self.n = 3"),
        Statement("self.n = 2 ** (self.n % 5)", "self.n = 3"),
        Statement("self.a = self.a % 0.75 + 0.5", "self.a = 0.65"),
    ],
)
def test_what_torchscript_computes_otherwise_is_computed_as_python_does(statement: Statement) -> None:
    check(made([statement]))


def test_a_power_beyond_64_bits_is_refused() -> None:
    with pytest.raises(GuardError, match=r"self\.n = 2 \*\* self\.n"):
        check(made([Statement("self.n = 2 ** self.n", "self.n = 3")]))


@pytest.mark.parametrize("text", ["self.n = self.n * 4", "self.n += 2**61", "self.n = -self.n << 2"])
def test_an_int_that_grows_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(GuardError, match=r"expected -2\*\*6\d <= self.n <= 2\*\*6\d, found -?\d{18,}\n"):
        check(made([Statement(text, "self.n = 2**60")]))


class Filling(torch.nn.Module):
    def forward(self, x: torch.Tensor, filled: list[torch.Tensor]) -> torch.Tensor:
        filled.append(x * 2)
        return x + filled[0]


def test_a_list_that_is_an_argument() -> None:
    x = argument(0)
    loaded = Effectful.of(lower(Filling(), "aten", effects=True, example_inputs=(x, [x])))
    filled = [x]
    assert torch.equal(loaded(x, filled), x + x)
    assert torch.equal(filled[1], x * 2)
