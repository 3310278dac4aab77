"""Parts of a module lowered by their paths: of eager, scripted and loaded modules."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Delegate, LoweringError, lower, lowered_archive
from archive.backend.lower.lowering import lowered_parts

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch
X = torch.ones(2, 3)
WIDE = torch.ones(2, 4)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.blocks = nn.ModuleList([nn.Tanh(), nn.Sequential(nn.Linear(3, 3), nn.ReLU())])
        self.head = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Twins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Encoder()
        self.second = Encoder()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) - self.second(x)


def eager(module: nn.Module) -> nn.Module:
    return module


def loaded(module: nn.Module) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


@pytest.fixture(params=[eager, torch.jit.script, loaded], ids=["eager", "scripted", "loaded"])
def made(request: pytest.FixtureRequest) -> Callable[[nn.Module], nn.Module]:
    form: Callable[[nn.Module], nn.Module] = request.param
    return form


def test_parts_are_lowered_and_fail_at_their_lines(made: Callable[[nn.Module], nn.Module]) -> None:
    model = made(Model().eval())
    before = model(X)
    lowered = lower(model, "aten", paths=["encoder", "blocks.1"])
    assert sorted(lowered_parts(lowered._c)) == ["blocks.1", "encoder"]
    assert torch.equal(lowered(X), before)
    for lite in (False, True):
        archive = lowered_archive(lowered, lite=lite)
        delegate = Delegate.load(archive, part="encoder")
        with pytest.raises(BackendError, match=r"return torch\.relu\(self\.inner\(x\)\)"):
            delegate(WIDE)
    assert list(lowered_parts(torch.jit.script(model)._c)) == [], "the module stays as it is"
    assert torch.equal(model(X), before)


def test_twins_are_lowered_where_python_knows_them_apart() -> None:
    model = Twins()
    lowered = lower(model, "aten", paths=["first", "second"])
    assert torch.equal(lowered(X), model(X))
    assert lowered_archive(lowered)
    with pytest.raises(LoweringError, match=r"part 'first' and 'second' have one type, and PyTorch replaces"):
        lower(torch.jit.script(model), "aten", paths=["first"])


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (
            ["nope"],
            r"part 'nope': Model does not have a field with name 'nope'; modules: encoder, blocks, head",
        ),
        (["encoder.nope"], r"Encoder does not have a field with name 'nope'; modules: inner"),
        (["head.nope"], r"Linear does not have a field with name 'nope'; modules: none"),
        (["encoder.inner.weight"], r"Attribute named weight is not a Module"),
        ([""], r"does not have a field with name ''"),
        (["encoder", "encoder.inner"], r"encoder\.inner and encoder are in one another"),
        (["encoder", "encoder"], r"encoder and encoder are in one another"),
        ([], r"expected the path of a part to lower, found none"),
    ],
)
def test_wrong_paths_are_refused_in_pytorch_s_words(
    made: Callable[[nn.Module], nn.Module], paths: list[str], said: str
) -> None:
    with pytest.raises(LoweringError, match=said):
        lower(made(Model()), "aten", paths=paths)


def test_effects_are_of_a_whole_module() -> None:
    with pytest.raises(LoweringError, match="of a whole module, not of parts"):
        lower(Model(), "aten", paths=["encoder"], effects=True, example_inputs=(X,))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_lowered_by_themselves(kind: type[nn.Module]) -> None:
    layer = kind(3, 4)
    lowered = lower(layer, "aten")
    found, expected = lowered(X), layer(X)
    assert torch.equal(found[0], expected[0])
    assert Delegate.load(lowered_archive(lowered))(X)[0].equal(expected[0])


def test_options_may_be_a_text_as_in_pytorchs_own_tests() -> None:
    lowered = lower(nn.ReLU(), "aten", {"forward": ""})
    assert lowered._c.getattr("__loweredModule__").getattr("__method_compile_spec") == {"forward": ""}
    assert torch.jit.load(io.BytesIO(lowered_archive(lowered)))(-X).count_nonzero() == 0
