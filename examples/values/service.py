"""A service that lowers its model, and notes the values of every 100th call.

    python examples/values/service.py FOLDER

Writes ``model.pt``, and ``values.json`` of a call in which a number became infinite. Needs PyTorch.
"""

import sys
import warnings
from pathlib import Path

import torch
from torch import nn

from archive.backend import Delegate, lower, save_lowered


class Net(nn.Module):
    """Scores by the logarithm of what a layer finds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores of four classes."""
        found = torch.relu(self.layer(x))
        return self.head(torch.log(found + x.abs().amin()))


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
warnings.simplefilter("ignore")  # scripting is deprecated
torch.manual_seed(0)
save_lowered(lower(torch.jit.script(Net().eval()), "aten"), folder / "model.pt", force=True)

service = Delegate.load(folder / "model.pt")
requests = torch.rand(1000, 1, 16)
requests[500:] *= torch.rand(1, 16) > 0.5  # from the 500th on, some sensors send 0
with torch.inference_mode(), service.recording(values=True, every=100) as recording:
    for request in requests:
        service(request)

runs = service.runs(recording)
print(f"{len(runs)} of {len(requests)} calls were recorded")
number, run = next((at, run) for at, run in enumerate(runs) if run.first_inf is not None)
first = run.first_inf
print(f"call {100 * number}: {Path(first.line).name}: {first.op} in {first.place.module}")
print(f"  {first.place.source.text}: {first.results[0].inf} infinite, of {first.inputs[0].low} and more")
run.save_json(folder / "values.json", force=True)
