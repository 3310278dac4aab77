"""A model, and the same quantised to 8 bits, one layer of it too coarsely: archives to be run.

    python examples/values/quantised_model.py FOLDER

Writes ``model.pt``, ``quantised.pt`` and ``inputs.pt``. Needs PyTorch.
"""

import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """A residual layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Widen, bend and narrow."""
        hidden = functional.gelu(self.up(x))
        return x + self.down(hidden)


class Net(nn.Module):
    """Three layers, and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Layer(), Layer(), Layer())
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores of four classes."""
        return torch.softmax(self.head(self.layers(x)), dim=-1)


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
warnings.simplefilter("ignore")  # both scripting and eager quantisation are deprecated
torch.manual_seed(0)
model = Net().eval()
torch.save(torch.rand(8, 16), folder / "inputs.pt")
torch.jit.script(model).save(folder / "model.pt")

weight = model.layers[1].up.weight.data  # the mistake: 4 bits, where 8 were meant
step = weight.abs().max() / 7
model.layers[1].up.weight.data = torch.round(weight / step) * step
quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
torch.jit.script(quantised).save(folder / "quantised.pt")
