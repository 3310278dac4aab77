"""A model whose source has characters that are four bytes of UTF-8, and two units of UTF-16."""

from __future__ import annotations

import torch


class Astral(torch.nn.Module):
    """Its ranges stand behind such characters, and hold some."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # 🐍 → 🐉
        """😀 first, then everything else: 🅰🅱."""
        y = x + 1; z = y * 2  # fmt: skip # noqa: E702 (a second range in the line) 🎉
        name = "😀𝄞"; w = torch.add(z, len(name)); v = w - y  # fmt: skip # noqa: E702 (the same)
        return torch.relu(v)
