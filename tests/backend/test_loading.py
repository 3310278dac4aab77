"""What is saved is loaded by PyTorch, or not written: attention, places that PyTorch does not know."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch import Tensor, nn

from archive.backend import LoweringError, lower, lowered_archive, save_lowered
from archive.backend.lower import loading
from archive.check.verify import verify
from archive.container.container import Container
from archive.container.write import member_from, new_member, write_archive
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

X = torch.rand(3, 4, 8, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    def __init__(self, batch_first: bool, need_weights: bool) -> None:  # noqa: FBT001
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        y, weights = self.inner(x, x, x, need_weights=self.need_weights)
        return y, weights if self.need_weights else None


class Masked(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        y, weights = self.inner(x, x, x, attn_mask=mask, need_weights=self.need_weights)
        return y, weights if self.need_weights else None


class Encoder(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.inner(x, mask)


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.inner(x, x, tgt_mask=mask)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "attention with weights": lambda: Attention(batch_first=False, need_weights=True),
    "attention, batch first": lambda: Attention(batch_first=True, need_weights=False),
    "attention with weights, batch first": lambda: Attention(batch_first=True, need_weights=True),
    "attention with a mask": lambda: Masked(batch_first=False, need_weights=False),
    "encoder layer, batch first": lambda: Encoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
    "transformer, batch first": Both,
}


def loaded(data: bytes, *, lite: bool) -> Any:  # noqa: ANN401
    load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
    return load(io.BytesIO(data))


@pytest.mark.parametrize("name", sampled(MODELS, most=2))
def test_attention_that_was_saved_and_loaded_gives_what_eager_gives(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    lowered = lower(model, "aten")
    mask = nn.Transformer.generate_square_subsequent_mask(X.shape["batch first" in name])
    for lite in (False, True):
        stock = loaded(lowered_archive(lowered, lite=lite), lite=lite)
        for arguments in ((X,),) if type(model) is Attention else ((X,), (X, mask)):
            for with_gradients in (False, True):  # PyTorch has a kernel of its own for what needs none
                with torch.set_grad_enabled(with_gradients):
                    torch.testing.assert_close(stock(*arguments), model(*arguments))


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x


class Unloadable(nn.Module):
    """PyTorch compiles it, but not what it saves of it, where ``y`` has no type."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = lower(Doubled(), "aten")

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            y = torch.jit.annotate(Tensor | None, None)
            k = 1
        else:
            if bool(x.sum() > 7):
                z = torch.jit.annotate(Tensor | None, None)
                n = 5
            else:
                z = torch.jit.annotate(Tensor | None, None)
                n = 7
            y = z
            k = n
        if torch.ops.aten.__isnot__(y, None):
            x = x + torch.jit._unwrap_optional(y)
        return self.inner(x) + k


def test_what_pytorch_would_not_load_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"before")
    with pytest.raises(LoweringError) as caught:
        save_lowered(torch.jit.script(Unloadable()), path, force=True)
    said = str(caught.value)
    assert said.startswith("PyTorch does not load what it saved; nothing is written: aten::_unwrap_optional")
    assert "Type variables in type Optional[t] could not be inferred from actual type NoneType. " in said
    assert f'Source code:   File "{__file__}", line ' in said
    assert "x = x + torch.jit._unwrap_optional(y)\n                    ~~~~~~" in said
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


class Splitting(nn.Module):
    """PyTorch knows no places for the text operators, and writes handles with tag -1, which it refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = lower(Doubled(), "aten")

    def forward(self, x: Tensor, text: str) -> Tensor:
        return self.inner(x) + len(text.split(" ")[0].split(":"))  # noqa: PLC0207 (as it was found)


def test_handles_without_a_place_do_not_keep_pytorch_from_loading() -> None:
    module = torch.jit.script(Splitting())
    with pytest.raises(RuntimeError, match="Source range tag must exist in deserialized source range map"):
        loaded(module._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True), lite=True)
    data = lowered_archive(module, lite=True)
    assert loaded(data, lite=True)(torch.ones(1), "a:b c").tolist() == [4.0]
    with archive.open(data) as opened:
        assert [one for one in verify(opened) if one.severity != "note"] == []
        shown = [
            str(opened.symbolicate(one)) for one in opened.handles if opened.handles[one].op == "aten::split"
        ]
    nothing = (
        "Module hierarchy:top(Splitting)::<unknown>.aten::split\n"
        "Traceback of TorchScript (most recent call last):\n"
    )
    assert nothing in shown, "no line is made up"


class Looking(nn.Module):
    """Code that looks a number up in weights when it is loaded; without numbers, it finds anything."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = torch.tensor([place])
        self.found = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.found

    @torch.jit.export
    def __getstate__(self) -> tuple[Tensor, Tensor]:
        return self.place, torch.arange(8.0)

    @torch.jit.export
    def __setstate__(self, state: tuple[Tensor, Tensor]) -> None:
        self.place = state[0]
        self.found = state[1].index_select(0, state[0])
        self.training = False


def looking(place: int) -> torch.jit.ScriptModule:
    made: torch.jit.ScriptModule = torch.jit.script(nn.Sequential(lower(Doubled(), "aten"), Looking(place)))
    return made


class Weighted(nn.Module):
    """Weights of several types."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("scale", torch.ones(8, dtype=torch.half))
        self.register_buffer("turned", torch.ones(8, dtype=torch.complex128))
        self.register_buffer("chosen", torch.ones(8, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(self.chosen, self.linear(x), (self.scale * self.turned).abs().float())


def packed() -> nn.Module:
    """Weights that C++ packs when they are loaded."""
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8)).eval(), {nn.Linear})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize(
    ("made", "places"),
    [
        (lambda: lower(Weighted(), "aten"), ["meta"]),
        (lambda: lower(packed(), "aten"), [None]),
        (lambda: looking(0), [None]),
    ],
    ids=["weights", "packed weights", "code that computes"],
)
def test_weights_are_only_loaded_if_something_computes_with_them(
    made: Callable[[], torch.jit.ScriptModule],
    places: list[str | None],
    lite: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []

    def watched(load: Callable[..., Any]) -> Callable[..., Any]:
        def loads(file: object, place: str | None = None) -> Any:  # noqa: ANN401
            asked.append(place)
            return load(file, place)

        return loads

    monkeypatch.setattr(torch.jit, "load", watched(torch.jit.load))
    lite_load = watched(torch.jit.mobile._load_for_lite_interpreter)
    monkeypatch.setattr(torch.jit.mobile, "_load_for_lite_interpreter", lite_load)
    lowered_archive(made(), lite=lite)
    assert asked == places


@pytest.mark.parametrize("lite", [False, True])
def test_what_cannot_be_loaded_with_these_weights_is_refused(lite: bool) -> None:  # noqa: FBT001
    with pytest.raises(LoweringError, match=r"PyTorch does not load what it saved.*index out of range"):
        lowered_archive(looking(8), lite=lite)


def test_a_weight_of_another_size_or_at_another_place_is_loaded() -> None:
    module = lower(Weighted(), "aten")
    data = lowered_archive(module)
    with archive.open(data) as opened:
        weights = loading.weights_left_out(opened, module)
        assert sorted(weights.values()) == [8, 16, 32, 128, 256]
        assert loading._finds(io.BytesIO(data), opened, weights)
    shorter, moved = io.BytesIO(), io.BytesIO()
    with Container.open(data) as container:
        records = container.records
        members = [member_from(record) for record in records.values()]
        cut = new_member("data/0", bytes(records["data/0"].view())[:-4])
        write_archive(
            shorter, container.root, [cut if member.name == "data/0" else member for member in members]
        )
        write_archive(moved, container.root, [new_member("extra/first", bytes(100)), *members])
    with archive.open(shorter) as opened:
        assert not loading.weights_left_out(opened, module)
    with archive.open(moved) as opened:
        assert not loading._finds(io.BytesIO(data), opened, loading.weights_left_out(opened, module))
