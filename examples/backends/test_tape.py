"""The backend computes what the program does, with its failures at the model's lines."""

import io

import pytest
import tape  # noqa: F401 (registers the backend)
import torch

from archive.backend import BackendError, LoweringError, lower


class Layer(torch.nn.Module):
    """A model of which the backend knows all but one operator."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.nn.Linear(8, 8)

    def forward(self, x):
        mixed, _ = self.mix(x, x, x, need_weights=False)
        return torch.nn.functional.gelu(self.out(x + mixed)).cumsum(-1)


def test_a_loaded_program_computes_the_same():
    """In parts, whatever the size of the batch."""
    model, x = Layer().eval(), torch.randn(2, 3, 8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    file = io.BytesIO()
    torch.export.save(lower(program, "tape"), file)
    loaded = torch.export.load(io.BytesIO(file.getvalue())).module()
    for batch in (2, 5):
        x = torch.randn(batch, 3, 8)
        assert torch.equal(loaded(x), program.module()(x))
    with pytest.raises(BackendError, match=r"same dtype(.*\n)+.*MultiheadAttention"):
        loaded(torch.randn(2, 3, 8).double())


def test_modules_are_refused():
    """A tape is made of a program."""
    with pytest.raises(LoweringError, match="lowers exported programs"):
        lower(Layer(), "tape", paths=["out"])
