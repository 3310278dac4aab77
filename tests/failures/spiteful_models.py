"""Models of real PyTorch whose source has what forms of logs escape, in the lines that explanations show."""

# TorchScript reads the annotations of attributes: they must not be postponed.
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.jit.mobile

from tests.failures.ambiguous_models import without_debug_info
from tests.support.reports import Report


class Spite(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len("it's") > 3 and x.dim() < 9:  # it's "q" <b> & \\ \n ü %25 %0A 'x' """ \u{1b} 語 ]]> {#a}
            x = x + 1
        return torch.cat([x, x[0]], len("it's\\") - 5)  # don't "q" </pre> & \\ü ''' ``` &amp; ,"


class Latin(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x[0]], len("größer's") - 8)  # größer's


class Raise(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) == 2:
            raise ValueError('it\'s "q" <b> & \\ ü')  # it's "q" <b> & \\ \n ü
        return x


def reports(folder: Path) -> dict[str, Report]:
    """The failure of each model in both interpreters, but for what says the same with debug records."""
    found = {}
    for model in (Spite, Latin, Raise):
        scripted = torch.jit.script(model())
        for suffix, load in ((".pt", torch.jit.load), (".ptl", torch.jit.mobile._load_for_lite_interpreter)):
            path, bare = folder / f"{model.__name__}{suffix}", folder / f"{model.__name__}.bare{suffix}"
            if suffix == ".pt":
                scripted.save(str(path))
            else:
                scripted._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
            without_debug_info(path, bare)
            stripped, full = (_failure(load(str(file))) for file in (bare, path))
            if stripped != full:
                found[path.name] = Report(path, stripped, full)
    return found


def _failure(model: Callable[[torch.Tensor], object]) -> bytes:
    with pytest.raises((RuntimeError, IndexError, torch.jit.Error)) as caught:
        model(torch.ones(2, 3))
    return f"{caught.value}\n".encode()
