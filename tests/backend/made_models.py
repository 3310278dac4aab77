"""Hypothesis strategies: small models of any supported operators, with an input that they take.

A model is a chain of steps. Each takes what the one before gives: rows of features, images, or sequences.
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn

    Shape = tuple[int, ...]
    Step = Callable[[DrawFn, Shape], nn.Module]
    Way = Callable[[torch.jit.ScriptModule, tuple[torch.Tensor, ...]], Any]
    "A way of running a model: scripted or traced module, its inputs → what it gives."


# --- Blocks of made models: control flow, lists and dicts, each as small as it can be


class Residual(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(x)))


class Repeated(nn.Module):
    """A loop, with a number of rounds that is known."""

    def __init__(self, inner: nn.Module, rounds: int) -> None:
        super().__init__()
        self.inner = inner
        self.rounds = rounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        for number in range(self.rounds):
            x, y = self.inner(y) + number, x * 0.5
        return x - y


class Bounded(nn.Module):
    """A loop that ends by what it computes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rounds = 0
        while rounds < self.most and float(x.abs().max()) > 0.1:
            rounds += 1
            if rounds == 3:
                continue
            x = x * 0.5
            if float(x.sum()) > 1.0:
                break
        return x + rounds


class Branched(nn.Module):
    """Branches on the input, within one another and returned from."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(-1) > self.least:
            if bool(x.sum() > 0):
                return x - 1
            x = x * 2
        elif x.dim() == 2:
            x = torch.cos(x)
        return x + 1


class Gathered(nn.Module):
    """A list that is filled in a loop."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows: list[torch.Tensor] = []
        for row in x.unbind(0):
            rows.append(row * len(rows))
            if len(rows) > self.most:
                rows[0] = row
        return torch.stack(rows) + x.mean()


class Listed(nn.Module):
    """A list that is changed in all ways, under two names."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = [3, 1]
        same = numbers
        for number in range(self.length):
            same.insert(0, number)
        numbers.reverse()
        numbers.extend([5, 4])
        last = same.pop()
        numbers[0] = last
        numbers.sort()
        factor = 0
        for place, number in enumerate(same[1:]):
            factor += place * number
        return x * (factor / (1 + sum(numbers)))


class Named(nn.Module):
    """A dict of tensors."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = {"first": x, "second": torch.sin(x)}
        for number in range(self.count):
            parts[f"part {number % 3}"] = x * number
        if "part 1" in parts:
            del parts["part 1"]  # noqa: RUF051 (TorchScript has both, and this one is meant)
        total = torch.zeros_like(x)
        for name, part in parts.items():
            total = total + part * len(name)
        return total - parts.pop("second")


class Sized(nn.Module):
    """Numbers, texts and tuples."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, number = (x.size(0), x.numel()), self.number
        for place in range(number):
            size = size[1], size[0] + place
        text = "{} of {}".format(size[0] % 7, number)  # noqa: UP032 (TorchScript has both)
        return x * float(len(text)) / max(1, size[1] // 2) - min(size) ** 2 % 5


class Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=-1)
        first = torch.split(right, 1, dim=-1)[0]
        return torch.cat([right, left * first], dim=-1)


class Turned(nn.Module):
    """Dimensions exchanged, and exchanged again in another shape."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__()
        self.one = one
        self.other = other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.transpose(self.one, self.other).contiguous()
        return y.reshape([y.size(0), -1]).view(y.shape).flip(-1)


class Attending(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        y, weights = self.attention(x, x, x, attn_mask=mask)
        return y if weights is None else y + weights.mean()


class Recurrent(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


# --- models


small = st.integers(1, 4)
ACTIVATIONS = (
    nn.ReLU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.ELU,
    nn.LeakyReLU,
    nn.Hardswish,
    nn.Softplus,
)
PLAIN = (Bounded, Branched, Gathered, Listed, Named, Sized)
"""Blocks that keep the shape, whatever it is."""


class Made(NamedTuple):
    """A model, and an input that it takes."""

    model: nn.Module
    inputs: tuple[torch.Tensor, ...]


@st.composite
def models(draw: DrawFn) -> Made:
    """A model of one to five steps, in evaluation mode."""
    torch.manual_seed(draw(st.integers(0, 99)))
    shape = draw(st.sampled_from([(2, 6), (1, 4, 5, 6), (2, 2, 4, 4), (2, 3, 8), (1, 1, 4)]))
    given = torch.randn(shape)
    steps: list[nn.Module] = []
    x = given
    for _ in range(draw(st.integers(1, 5))):
        step = _step(draw, tuple(x.shape)).eval()
        steps.append(step)
        with torch.no_grad():
            x = step(x)
    return Made(nn.Sequential(*steps).eval(), (given,))


def _step(draw: DrawFn, shape: Shape) -> nn.Module:
    """A step that takes a shape."""
    steps = [*ANYWHERE, *{2: ROWS, 3: SEQUENCES, 4: IMAGES}[len(shape)]]
    return draw(st.sampled_from(steps))(draw, shape)


def _kept(draw: DrawFn, shape: Shape) -> nn.Module:
    """Any step that gives the shape that it takes: for blocks that hold another."""
    steps = [_plain, _activation, _norm]
    return draw(st.sampled_from(steps))(draw, shape)


def _activation(draw: DrawFn, _: Shape) -> nn.Module:
    made: nn.Module = draw(st.sampled_from(ACTIVATIONS))()
    return made


def _plain(draw: DrawFn, _: Shape) -> nn.Module:
    return draw(st.sampled_from(PLAIN))(draw(small))


def _norm(draw: DrawFn, shape: Shape) -> nn.Module:
    layers = [nn.LayerNorm(shape[-1]), nn.GroupNorm(1, shape[1]), nn.Dropout(), nn.Softmax(-1)]
    if len(shape) == 4:
        layers += [nn.BatchNorm2d(shape[1]), nn.InstanceNorm2d(shape[1], affine=True)]
    return draw(st.sampled_from(layers))


def _residual(draw: DrawFn, shape: Shape) -> nn.Module:
    return Residual(_kept(draw, shape), _kept(draw, shape))


def _repeated(draw: DrawFn, shape: Shape) -> nn.Module:
    return Repeated(_kept(draw, shape), draw(st.integers(0, 3)))


def _linear(draw: DrawFn, shape: Shape) -> nn.Module:
    return nn.Linear(shape[-1], draw(st.sampled_from([2, 4, 8])), bias=draw(st.booleans()))


def _halved(_: DrawFn, shape: Shape) -> nn.Module:
    return Halved() if shape[-1] % 2 == 0 else nn.Identity()


def _turned(draw: DrawFn, shape: Shape) -> nn.Module:
    return Turned(draw(st.integers(1, len(shape) - 1)), draw(st.integers(1, len(shape) - 1)))


def _convolution(draw: DrawFn, shape: Shape) -> nn.Module:
    channels, kernel = draw(st.sampled_from([2, 4])), draw(st.sampled_from([1, 3]))
    kind = draw(st.sampled_from([nn.Conv2d, nn.ConvTranspose2d]))
    made: nn.Module = kind(shape[1], channels, kernel, padding=kernel // 2, bias=draw(st.booleans()))
    return made


def _pool(draw: DrawFn, shape: Shape) -> nn.Module:
    if min(shape[2:]) < 2:
        return nn.AdaptiveAvgPool2d(2)
    return draw(
        st.sampled_from([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Upsample(size=(4, 4))])
    )


def _flat(_: DrawFn, __: Shape) -> nn.Module:
    return nn.Flatten()


def _sequence(_: DrawFn, __: Shape) -> nn.Module:
    return nn.Flatten(2)


def _attending(draw: DrawFn, shape: Shape) -> nn.Module:
    return Attending(shape[-1], draw(st.sampled_from([one for one in (1, 2) if shape[-1] % one == 0])))


def _recurrent(draw: DrawFn, shape: Shape) -> nn.Module:
    return Recurrent(draw(st.sampled_from([nn.LSTM, nn.GRU]))(shape[-1], 4, batch_first=True))


ANYWHERE: list[Step] = [_activation, _plain, _plain, _norm, _residual, _repeated, _halved, _linear]
ROWS: list[Step] = []
SEQUENCES: list[Step] = [_attending, _recurrent, _turned, _flat]
IMAGES: list[Step] = [_convolution, _convolution, _pool, _turned, _sequence]


def scripted(made: Made) -> torch.jit.ScriptModule:
    """The model as TorchScript."""
    return torch.jit.script(made.model)


def traced(made: Made) -> torch.jit.ScriptModule:
    """What the model does with its input, as TorchScript."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return torch.jit.trace(made.model, made.inputs, check_trace=False)


def saved(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """A module, saved and loaded."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)
