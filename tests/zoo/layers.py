"""Layers of ``torch.nn`` that are models by themselves."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.sample import Sample

WIDTH = 16


def steps(length: int = 5, width: int = WIDTH) -> torch.Tensor:
    """A batch of two sequences, batch first."""
    return torch.randn(2, length, width)


def sounds(longest: int) -> tuple[torch.Tensor, ...]:
    """Scores of the sounds of 9 steps, two texts, how many steps each takes, and their lengths."""
    scores = torch.randn(9, 2, 5).log_softmax(2)
    return scores, torch.randint(1, 5, (2, 3)), torch.tensor([longest, 8]), torch.tensor([3, 2])


def transformer() -> nn.Module:
    return nn.Transformer(WIDTH, 2, 2, 2, 32, batch_first=True)


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True), 2)


def decoder() -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 2, 32, batch_first=True), 2)


KIND = "layers of torch.nn"
SAMPLES = [
    Sample(KIND, "Transformer", lambda: (transformer(), (steps(), steps(4)))),
    Sample(KIND, "TransformerEncoder", lambda: (encoder(), (steps(),))),
    Sample(
        KIND,
        "TransformerDecoder",
        lambda: (decoder(), (steps(), steps(4))),
        lambda: (steps(), steps(4, 12)),
    ),
    Sample(
        KIND,
        "MultiheadAttention",
        lambda: (nn.MultiheadAttention(WIDTH, 4, batch_first=True), (steps(), steps(4), steps(4))),
    ),
    Sample(
        KIND,
        "LSTM",
        lambda: (nn.LSTM(WIDTH, 8, 2, batch_first=True, bidirectional=True), (steps(),)),
        lambda: (steps().double(),),
    ),
    Sample(
        KIND, "GRU", lambda: (nn.GRU(WIDTH, 8, 2, batch_first=True), (steps(),)), lambda: (steps().double(),)
    ),
    Sample(
        KIND, "RNN", lambda: (nn.RNN(WIDTH, 8, batch_first=True), (steps(),)), lambda: (steps().double(),)
    ),
    Sample(
        KIND,
        "LSTMCell",
        lambda: (nn.LSTMCell(WIDTH, 8), (torch.randn(2, WIDTH), (torch.zeros(2, 8), torch.zeros(2, 8)))),
        lambda: (torch.randn(2, WIDTH), (torch.zeros(2, 7), torch.zeros(2, 8))),
    ),
    Sample(
        KIND,
        "EmbeddingBag",
        lambda: (nn.EmbeddingBag(9, 4, mode="mean"), (torch.tensor([1, 2, 8]), torch.tensor([0, 1]))),
        lambda: (torch.tensor([1, 2, 9]), torch.tensor([0, 1])),
    ),
    Sample(
        KIND,
        "AdaptiveLogSoftmaxWithLoss",
        lambda: (
            nn.AdaptiveLogSoftmaxWithLoss(WIDTH, 20, [5, 10]),
            (torch.randn(4, WIDTH), torch.tensor([0, 6, 11, 19])),
        ),
        way="traced",
    ),
    Sample(
        KIND,
        "CTCLoss",
        lambda: (
            nn.CTCLoss(),
            sounds(9),
        ),
        lambda: sounds(10),
    ),
]
