"""Makes ``fixtures/training``: two checkpoints of one training, each with the optimizer's state.

    python -m tools.make_training FOLDER

The first layer is frozen after the first epoch, as in fine-tuning. Ids differ from run to run, so the
fixtures are frozen and are not compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn


def main(folder: Path) -> None:
    """Train, and save a checkpoint after each of two epochs."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in (1, 2):
        inputs, wanted = torch.randn(16, 6), torch.randn(16, 2)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
        facts = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(facts, folder / f"epoch{epoch}.pt")
        for parameter in model[0].parameters():
            parameter.requires_grad_(False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
