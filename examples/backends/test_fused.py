"""The backend keeps all rules: `python -m pytest examples/backends`."""

import fused  # noqa: F401 (registers the backend)
import torch

from archive.backend import Delegate, lower, save_lowered
from archive.backend.conformance import conformance  # noqa: F401 (a fixture)


class Scaled(torch.nn.Module):
    """A model for the backend."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x * 2.5)
        return torch.relu(x * 0.5)


class Squashed(torch.nn.Module):
    """A model that it refuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * 2.5)


def test_the_backend_keeps_all_rules(conformance):  # noqa: F811 (the fixture)
    """Results, handles, errors, saving and loading, here and in a new process."""
    conformance(
        "fused",
        Scaled(),
        good=(torch.randn(3),),
        bad={"x * 2.5": (torch.ones(3, dtype=torch.int64),)},
        unsupported={"torch.sigmoid": Squashed()},
        gradients=False,  # the kernel has none
    )


def test_four_operators_are_two_events(tmp_path):
    """The kernel does two operators at a time, and the event has the handle of the first."""
    save_lowered(lower(Scaled(), "fused"), tmp_path / "scaled.pt")
    delegate = Delegate.load(tmp_path / "scaled.pt")
    with delegate.recording() as recording:
        delegate(torch.randn(3))
    assert [name for _, _, _, name in recording.operations] == ["aten::mul", "aten::mul"]
