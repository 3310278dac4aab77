"""A model to lower: an image classifier whose ``features`` are lowered and whose ``head`` is not.

Its two residual blocks each halve the image; one branch rounds up, the other one down. So the sides of an
image must be multiples of 4; with other sides, a sum in one of the blocks fails, as its sizes do not match.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from archive.backend.lower.lowering import lower

CLASSES = 10
SIDE = 32
BAD_SIDE = 34
SEED = 0


class ResidualBlock(nn.Module):  # type: ignore[misc]  # of PyTorch, whose types are not followed
    """Halves an image, and adds to it what two convolutions find."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.widen = nn.Conv2d(channels, width, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        found = torch.relu(self.first_norm(self.first(image)))
        found = self.second_norm(self.second(found))
        smaller = self.widen(functional.avg_pool2d(image, 2))
        return torch.relu(found + smaller)


class Features(nn.Module):  # type: ignore[misc]
    """Computes a vector of features for an image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.layer1 = ResidualBlock(16, 32)
        self.layer2 = ResidualBlock(32, 64)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Find features."""
        found = torch.relu(self.norm(self.stem(image)))
        found = self.layer2(self.layer1(found))
        return torch.flatten(self.pool(found), 1)


class Classifier(nn.Module):  # type: ignore[misc]
    """Scores an image for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.features = Features()
        self.head = nn.Linear(64, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Score images."""
        return self.head(self.features(image))


class Example(NamedTuple):
    """The classifier with its features lowered, and tensors to call it with.

    Attributes:
        bad: an image for which a residual block fails.
    """

    host: torch.jit.ScriptModule
    image: torch.Tensor
    features: torch.Tensor
    scores: torch.Tensor
    bad: torch.Tensor

    def calls(self) -> bytes:
        """Image, scores and bad image for :mod:`archive.cli.demo.stock`."""
        buffer = io.BytesIO()
        torch.save((self.image, self.scores, self.bad), buffer)
        return buffer.getvalue()


def lowered_example(backend: str) -> Example:
    """The classifier with its features lowered to a backend; its weights are drawn with a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        classifier = Classifier().eval().requires_grad_(False)
        image, bad = torch.randn(1, 3, SIDE, SIDE), torch.randn(1, 3, BAD_SIDE, BAD_SIDE)
    features, scores = classifier.features(image), classifier(image)
    classifier.features = lower(classifier.features, backend)
    return Example(torch.jit.script(classifier), image, features, scores, bad)
