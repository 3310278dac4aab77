"""Blocks of made models: control flow, lists and dicts, each as small as it can be."""

from __future__ import annotations

import torch
from torch import nn


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
