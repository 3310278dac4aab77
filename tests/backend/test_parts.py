"""Parts of a module lowered by their paths: of eager, scripted and loaded modules."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

import archive
from archive.backend import BackendError, Delegate, LoweringError, load_archive, lower, lowered_archive
from archive.backend.lower.wrappers import lowered_parts
from tests.support.corpus import FIXTURES
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch
RELEASES = FIXTURES / "releases"
MODEL_LINE = re.compile(r'/src/models\.py(?:", line |\()(\d+)')
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
        data = lowered_archive(lowered, lite=lite)
        delegate = Delegate.load(data, part="encoder")
        with pytest.raises(BackendError, match=r"return torch\.relu\(self\.inner\(x\)\)"):
            delegate(WIDE)
    assert list(lowered_parts(torch.jit.script(model)._c)) == [], "the module stays as it is"
    assert torch.equal(model(X), before)


def test_twins_are_lowered_where_python_knows_them_apart() -> None:
    model = Twins()
    lowered = lower(model, "aten", paths=["first", "second"])
    assert torch.equal(lowered(X), model(X))
    assert lowered_archive(lowered)
    with pytest.raises(LoweringError, match=r"unique types: part 'first' and 'second' have one; lower"):
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
        (["blocks"], r"part 'blocks': a ModuleList has no forward; lower its modules: blocks\.0"),
        (["encoder", "encoder"], r"encoder is named twice"),
        ("encoder", r"expected a list of paths, found 'encoder'"),
        ([3], r"expected a list of paths, found \[3\]"),
        ([], r"expected the path of a part to lower, found none"),
    ],
)
def test_wrong_paths_are_refused_in_pytorch_s_words(
    made: Callable[[nn.Module], nn.Module], paths: list[str], said: str
) -> None:
    with pytest.raises(LoweringError, match=said):
        lower(made(Model()), "aten", paths=paths)


def test_a_tensor_is_no_list_of_arguments() -> None:
    with pytest.raises(
        LoweringError, match=r"expected example_inputs as a tuple of arguments, as \(x,\), found"
    ):
        lower(Model(), "aten", effects=True, example_inputs=torch.ones(1, 3))


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


def stacks(data: bytes | Path, *, delegated: bool) -> set[tuple[str, ...]]:
    """The model's lines on the way to the operations of ``gate``, without the call of that module."""
    with archive.open(data) as opened:
        own = {handle for handles in opened.methods.values() for handle in handles}
        texts = [
            str(opened.symbolicate(handle)) for handle in opened.handles if (handle not in own) is delegated
        ]
    found = (MODEL_LINE.findall(text) for text in texts if "Constant" not in text and "GetAttr" not in text)
    if delegated:
        return {tuple(lines) for lines in found}
    return {tuple(lines[1:]) for lines in found if lines[:1] == ["45"]}


@pytest.mark.parametrize(
    ("release", "name"), crossed(["1.4.0", "1.9.0", "1.12.0", "2.4.1", "2.13.0"], ["nested", "traced"])
)
def test_parts_of_archives_of_any_release_lead_to_the_model(release: str, name: str) -> None:
    scripted = RELEASES / "torch-2.13.0" / "nested.ptl"
    path = RELEASES / f"torch-{release}" / f"{name}.pt"
    loaded = load_archive(path)
    lowered = lower(loaded, "aten", paths=["gate"])
    x = torch.randn(2, 4)
    assert torch.equal(lowered(x), loaded(x))
    found = stacks(lowered_archive(lowered, lite=True), delegated=True)
    if name == "nested":
        assert found == stacks(scripted, delegated=False)
    else:
        assert {lines[:1] for lines in found} > {("16",), ("17",), ("28",)}, (
            "Python's stacks, innermost first"
        )


def test_a_scripted_module_with_a_lowered_part_says_that_it_cannot_be_lowered_further() -> None:
    lowered = lower(Model(), "aten", paths=["encoder"])
    with pytest.raises(LoweringError, match=r"^its part encoder is lowered already, .* one after another$"):
        lower(lowered, "aten", paths=["blocks.1"])
    model = Model()
    expected = model(X)
    model.encoder = lower(model.encoder, "aten")
    assert torch.equal(lower(model, "aten", paths=["blocks.1"])(X), expected)
