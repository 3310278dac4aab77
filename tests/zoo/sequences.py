"""Models of sound, text, graphs and tables, small: the structure of their papers, few channels."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from tests.zoo.sample import Sample


class WaveNet(nn.Module):
    """Gated dilated causal convolutions with skip connections (van den Oord et al., 2016)."""

    def __init__(self, width: int = 8, layers: int = 4) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.dilated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=1 << k) for k in range(layers))
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.skip = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.leave = nn.Conv1d(width, 16, 1)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        found = self.enter(sound)
        skips = torch.zeros(1)
        for k, (dilated, mix, skip) in enumerate(zip(self.dilated, self.mix, self.skip)):  # noqa: B905
            signal, gate = dilated(functional.pad(found, (1 << k, 0))).chunk(2, 1)
            gated = torch.tanh(signal) * torch.sigmoid(gate)
            skips = skips + skip(gated)
            found = found + mix(gated)
        return self.leave(functional.relu(skips))


class Chomp(nn.Module):
    """Cuts off what a padded convolution sees of the future."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    """A residual block of the TCN."""

    def __init__(self, channels: int, width: int, dilation: int) -> None:
        super().__init__()
        first = nn.utils.parametrizations.weight_norm(
            nn.Conv1d(channels, width, 3, padding=2 * dilation, dilation=dilation)
        )
        self.net = nn.Sequential(first, Chomp(2 * dilation), nn.ReLU(), nn.Dropout(0.2))
        self.shortcut = nn.Conv1d(channels, width, 1) if channels != width else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return functional.relu(self.net(x) + shortcut)


class TCN(nn.Module):
    """A temporal convolutional network with weight norm (Bai et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(TemporalBlock(4, 8, 1), TemporalBlock(8, 8, 2), TemporalBlock(8, 8, 4))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x)[:, :, -1])


class TacotronDecoder(nn.Module):
    """Frames of a spectrogram, one from another, until the net says stop (Shen et al., 2018)."""

    def __init__(self, memory: int = 8, width: int = 16, bands: int = 6, most: int = 12) -> None:
        super().__init__()
        self.bands, self.width, self.most = bands, width, most
        self.prenet = nn.Sequential(nn.Linear(bands, width), nn.ReLU())
        self.attention = nn.LSTMCell(width + memory, width)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(memory, width, bias=False)
        self.energy = nn.Linear(width, 1)
        self.frame, self.stop = nn.Linear(width + memory, bands), nn.Linear(width + memory, 1)

    def forward(self, memory: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = memory.size(0)
        hidden, cell = memory.new_zeros(batch, self.width), memory.new_zeros(batch, self.width)
        frame, context = memory.new_zeros(batch, self.bands), memory.new_zeros(batch, memory.size(2))
        padding = torch.arange(memory.size(1))[None] >= lengths[:, None]
        keys = self.key(memory)
        frames: list[torch.Tensor] = []
        stops: list[torch.Tensor] = []
        while len(frames) < self.most:
            hidden, cell = self.attention(torch.cat([self.prenet(frame), context], -1), (hidden, cell))
            energy = self.energy(torch.tanh(self.query(hidden)[:, None] + keys)).squeeze(-1)
            weights = torch.softmax(energy.masked_fill(padding, -float("inf")), -1)
            context = torch.bmm(weights[:, None], memory).squeeze(1)
            state = torch.cat([hidden, context], -1)
            frame = self.frame(state)
            frames.append(frame)
            stops.append(self.stop(state).squeeze(-1))
            if bool((torch.sigmoid(stops[-1]) > 0.53).all()):
                break
        return torch.stack(frames, 1), torch.stack(stops, 1)


class VoiceActivity(nn.Module):
    """Speech or not, for a chunk of sound and the state after the last: Fourier bases, an LSTM."""

    def __init__(self, size: int = 64, width: int = 16) -> None:
        super().__init__()
        angles = 2 * math.pi * torch.outer(torch.arange(size // 2 + 1), torch.arange(size)) / size
        self.register_buffer("bases", torch.cat([angles.cos(), -angles.sin()])[:, None])
        self.half = size // 2 + 1
        self.encoder = nn.Sequential(
            nn.Conv1d(self.half, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, width, 3, 2, 1), nn.ReLU()
        )
        self.rnn = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Conv1d(width, 1, 1)

    def forward(
        self, sound: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None = None, rate: int = 16000
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        if sound.dim() == 1:
            sound = sound.unsqueeze(0)
        if rate not in [8000, 16000]:
            raise ValueError("unknown rate: {}".format(rate))  # noqa: UP032 (TorchScript's language)
        sound = functional.pad(sound[:, None], (16, 16), mode="reflect")
        found = functional.conv1d(sound, self.bases, stride=32)
        found = torch.sqrt(found[:, : self.half] ** 2 + found[:, self.half :] ** 2)
        found = self.encoder(found).transpose(1, 2)
        found, after = self.rnn(found, state)
        return torch.sigmoid(self.head(functional.relu(found).transpose(1, 2))).mean(2), after


class Rotary(nn.Module):
    """Causal attention with rotary positions and grouped keys (Su et al., 2021)."""

    def __init__(self, width: int = 32, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        rates = 10000 ** (-torch.arange(0, self.size, 2) / self.size)
        self.register_buffer("rates", rates, persistent=False)

    def turned(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def forward(self, x: torch.Tensor, offset: int = 0) -> torch.Tensor:
        batch, length, _ = x.shape
        angles = torch.outer(torch.arange(offset, offset + length, dtype=self.rates.dtype), self.rates)
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        query = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        key = self.key(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        value = self.value(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        repeats = self.heads // self.groups
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
        query, key = self.turned(query, cos, sin), self.turned(key, cos, sin)
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.size)
        scores += torch.full((length, length), float("-inf")).triu(1)
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, -1))


class Mamba(nn.Module):
    """A selective scan, step by step (Gu and Dao, 2023)."""

    def __init__(self, width: int = 8, states: int = 4) -> None:
        super().__init__()
        self.width, self.states = width, states
        self.enter = nn.Linear(width, 2 * width)
        self.conv = nn.Conv1d(width, width, 3, groups=width, padding=2)
        self.selects = nn.Linear(width, 2 * states + 1)
        self.step = nn.Linear(1, width)
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))
        self.d = nn.Parameter(torch.ones(width))
        self.leave = nn.Linear(width, width)

    def scan(self, u: torch.Tensor) -> torch.Tensor:
        b, c, delta = torch.split(self.selects(u), [self.states, self.states, 1], dim=-1)
        delta = functional.softplus(self.step(delta))
        decay = torch.exp(delta[..., None] * -torch.exp(self.log_a))
        taken = delta[..., None] * b[:, :, None] * u[..., None]
        h = torch.zeros(u.size(0), self.width, self.states, dtype=u.dtype, device=u.device)
        ys = torch.jit.annotate(list[torch.Tensor], [])
        for t in range(u.size(1)):
            h = decay[:, t] * h + taken[:, t]
            ys.append(torch.einsum("bds,bs->bd", h, c[:, t]))
        return torch.stack(ys, 1) + u * self.d

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, gate = self.enter(x).chunk(2, dim=-1)
        u = self.conv(u.transpose(1, 2))[..., : x.size(1)].transpose(1, 2)
        return self.leave(self.scan(functional.silu(u)) * functional.silu(gate))


class MoE(nn.Module):
    """A mixture of experts: each token goes to the two that its router likes best (Shazeer et al., 2017)."""

    def __init__(self, width: int = 8, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.size(-1))
        weights, chosen = torch.topk(self.router(tokens).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            if rows.numel() > 0:
                out.index_add_(0, rows, expert(tokens[rows]) * weights[rows, place, None])
        return out.view(x.shape)


class DLRM(nn.Module):
    """Recommendations from numbers and bags of categories (Naumov et al., 2019)."""

    def __init__(self, tables: int = 3, width: int = 4) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, width, mode="sum") for _ in range(tables))
        rows, columns = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.top = nn.Sequential(nn.Linear(width + rows.numel(), 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(
        self, numbers: torch.Tensor, categories: list[torch.Tensor], offsets: list[torch.Tensor]
    ) -> torch.Tensor:
        dense = self.bottom(numbers)
        vectors = [dense]
        for k, table in enumerate(self.tables):
            vectors.append(table(categories[k], offsets[k]))
        stacked = torch.stack(vectors, 1)
        pairs = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([dense, pairs], 1))


class GCN(nn.Module):
    """Two graph convolutions over a list of edges (Kipf and Welling, 2017)."""

    def __init__(self, inputs: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, 8, bias=False), nn.Linear(8, classes, bias=False)

    def spread(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        loops = torch.arange(x.size(0), device=x.device)
        source, target = torch.cat([edges[0], loops]), torch.cat([edges[1], loops])
        degree = torch.zeros(x.size(0), device=x.device).scatter_add_(0, target, torch.ones(target.numel()))
        norm = degree.rsqrt()[source] * degree.rsqrt()[target]
        return torch.zeros_like(x).index_add_(0, target, x[source] * norm[:, None])

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.spread(self.first(x), edges))
        x = functional.dropout(x, 0.5, self.training)
        return functional.log_softmax(self.spread(self.second(x), edges), dim=-1)


def bags(*numbers: int) -> list[torch.Tensor]:
    return [torch.tensor([*numbers, 5 * k]) for k in range(3)]


KIND = "sequences, graphs and tables, small"
SAMPLES = [
    Sample(KIND, "WaveNet", lambda: (WaveNet(), (torch.randn(2, 1, 30),))),
    Sample(KIND, "TCN", lambda: (TCN(), (torch.randn(2, 4, 12),)), way="traced"),
    Sample(
        KIND,
        "Tacotron decoder",
        lambda: (TacotronDecoder(), (torch.randn(2, 5, 8), torch.tensor([5, 3]))),
        lambda: (torch.randn(2, 5, 8), torch.tensor([5, 3, 1])),
    ),
    Sample(
        KIND,
        "voice activity",
        lambda: (VoiceActivity(), (torch.randn(2, 256), (torch.zeros(2, 2, 16), torch.zeros(2, 2, 16)))),
    ),
    Sample(KIND, "RoPE attention", lambda: (Rotary(), (torch.randn(2, 6, 32), 3))),
    Sample(KIND, "Mamba scan", lambda: (Mamba(), (torch.randn(2, 7, 8),))),
    Sample(KIND, "mixture of experts", lambda: (MoE(), (torch.randn(2, 5, 8),))),
    Sample(
        KIND,
        "DLRM",
        lambda: (DLRM(), (torch.randn(2, 5), bags(1, 2, 3), [torch.tensor([0, 2])] * 3)),
        lambda: (torch.randn(2, 5), bags(1, 2, 3), [torch.tensor([0, 2, 3])] * 3),
    ),
    Sample(
        KIND,
        "graph convolution",
        lambda: (GCN(), (torch.randn(5, 6), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))),
        lambda: (torch.randn(5, 6), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 9]])),
    ),
]
