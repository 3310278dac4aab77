"""Small models of several kinds, in every form that PyTorch saves them in, and faults to plant in them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


class Attention(nn.Module):
    """Attention with a scale that a fault may change."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.scale: float = 8**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        weights = torch.matmul(query, key.transpose(1, 2)) * self.scale
        weights = torch.softmax(weights, dim=-1)
        return self.out(torch.matmul(weights, value))


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(16), Attention()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        hidden = functional.gelu(self.up(x))
        return x + self.down(hidden)


class Transformer(nn.Module):
    """Two layers, and a logarithm at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 5)
        self.least: float = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        scores = torch.relu(self.head(x))
        return torch.log(scores + self.least)


class Residual(nn.Module):
    """Convolutions and batch normalisations."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.norm, self.last_norm = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm(self.first(x)), inplace=True)
        y = self.second(y)
        y = self.last_norm(y)
        return functional.relu(x + y)


class Convolutional(nn.Module):
    """Two residual blocks in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2)
        self.layers = nn.Sequential(Residual(), Residual())
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.stem(x))
        x = x.mean([2, 3])
        return self.head(x)


class Looping(nn.Module):
    """One line that runs four times."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.tanh(self.step(x))
        return x


def turned(x: torch.Tensor) -> torch.Tensor:
    """Pairs of numbers, turned by an angle."""
    one, other = x.chunk(2, -1)
    return x * 0.8 + torch.cat((-other, one), -1) * 0.6


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """Attention in one operator, which exporting decomposes."""
    return functional.scaled_dot_product_attention(query, key, value, scale=scale)


class Rotary(nn.Module):
    """Attention of which all but the layers is in functions of other lines."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.scale: float = 0.4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        query, key = turned(query), turned(key)
        return self.out(attend(query, key, value, self.scale))


class Case(NamedTuple):
    """A model, and inputs for it."""

    make: Callable[[], nn.Module]
    input: Callable[[], torch.Tensor]


CASES = {
    "transformer": Case(Transformer, lambda: torch.rand(2, 5, 16)),
    "convolutional": Case(Convolutional, lambda: torch.rand(2, 3, 9, 9)),
    "rotary": Case(Rotary, lambda: torch.rand(2, 5, 8)),
    "looping": Case(Looping, lambda: torch.rand(3, 8)),
}
FORMS = ("eager", "scripted", "traced", "frozen", "lite", "exported", "strict", "decomposed")


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A model whose norms do something, and its input; the same at each call."""
    torch.manual_seed(0)
    model, x = CASES[name].make().eval(), CASES[name].input()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.rand_like(parameter)
    return model, x


def form(model: nn.Module, x: torch.Tensor, name: str) -> nn.Module | bytes:
    """A model in a form: itself, or an archive's bytes."""
    if name == "eager":
        return model
    file = io.BytesIO()
    with torch.no_grad():
        if name in {"exported", "strict", "decomposed"}:
            program = torch.export.export(model, (x,), strict=name == "strict")
            if name == "decomposed":
                program = program.run_decompositions()
            torch.export.save(program, file)
            return file.getvalue()
        script = torch.jit.trace(model, x) if name == "traced" else torch.jit.script(model)
    if name == "lite":
        return script._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    torch.jit.save(torch.jit.freeze(script) if name == "frozen" else script, file)
    return file.getvalue()


class Fault(NamedTuple):
    """What is planted in a model, and the text of the line at which it is found."""

    plant: Callable[[nn.Module], None]
    line: str


def scale(model: nn.Module) -> None:
    """A scale off by 2 %."""
    model.blocks[1].attention.scale *= 1.02


def weight(model: nn.Module) -> None:
    """A weight off by 2 %."""
    model.head.weight.data *= 1.02


def attention_scale(model: nn.Module) -> None:
    """A scale off by 2 %, of attention in one operator."""
    model.scale *= 1.02


def swapped(model: nn.Module) -> None:
    """Two weights in each other's place."""
    attention = model.blocks[1].attention
    attention.query.weight, attention.key.weight = attention.key.weight, attention.query.weight


def epsilon(model: nn.Module) -> None:
    """The epsilon of a norm as another release has it."""
    model.blocks[0].norm.eps = 1e-3


def convolution(model: nn.Module) -> None:
    """A weight off by 2 %, which freezing merges with a normalisation on another line."""
    model.layers[0].second.weight.data *= 1.02


def batch_epsilon(model: nn.Module) -> None:
    """The same of a batch normalisation."""
    model.layers[1].last_norm.eps = 1e-2


def coarse(model: nn.Module) -> None:
    """A layer in 4 bits."""
    weight = model.blocks[0].up.weight.data
    step = weight.abs().max() / 7
    model.blocks[0].up.weight.data = torch.round(weight / step) * step


def logarithm_of_zero(model: nn.Module) -> None:
    """A logarithm of 0."""
    model.least = 0.0


FAULTS = {
    "transformer": [
        Fault(scale, "weights = torch.matmul(query, key.transpose(1, 2)) * self.scale"),
        Fault(weight, "scores = torch.relu(self.head(x))"),
        Fault(swapped, "query, key, value = self.query(x), self.key(x), self.value(x)"),
        Fault(epsilon, "x = x + self.attention(self.norm(x))"),
        Fault(coarse, "hidden = functional.gelu(self.up(x))"),
        Fault(logarithm_of_zero, "return torch.log(scores + self.least)"),
    ],
    "rotary": [
        Fault(
            attention_scale, "return functional.scaled_dot_product_attention(query, key, value, scale=scale)"
        )
    ],
    "convolutional": [
        Fault(weight, "return self.head(x)"),
        Fault(convolution, "y = self.second(y)"),
        Fault(batch_epsilon, "y = self.last_norm(y)"),
    ],
}
