"""Lowering and running, each as a ratio to PyTorch's own in the same run; printed as Markdown.

Runs take turns, so that whatever else the machine does falls on all of them; each ratio is that of the
fastest ones. PyTorch has one thread: several differ more from call to call than what is measured.
"""

from __future__ import annotations

import io
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from archive.backend import Delegate, lower, save_lowered
from tools.models import TOKENS, bert_model, resnet50, saved, traced

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 60
CALLS = 3
SIDES = (32, 64, 128)


def fastest(*ways: Callable[[], object], rounds: int = ROUNDS, calls: int = CALLS) -> list[float]:
    """Seconds that a call of each way takes at its best; ways take turns."""
    for way in ways:
        for _ in range(3):
            way()  # TorchScript optimizes in its first calls
    times = [float("inf")] * len(ways)
    for _ in range(rounds):
        for place, way in enumerate(ways):
            start = time.perf_counter()
            for _ in range(calls):
                way()
            times[place] = min(times[place], (time.perf_counter() - start) / calls)
    return times


def row(*cells: object) -> None:
    """A row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |")


def ms(seconds: float) -> str:
    """Milliseconds."""
    return f"{seconds * 1e3:.2f} ms"


def lowering() -> None:
    """Tracing and saving against lowering and saving."""
    model, mask = bert_model(), torch.ones_like(TOKENS)
    module = traced(model, TOKENS, mask)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bert.ptl"
        trace, kept, low, low_saved = fastest(
            lambda: traced(model, TOKENS, mask),
            lambda: saved(module),
            lambda: lower(module, "aten"),
            lambda: save_lowered(lower(module, "aten"), path, force=True),
            rounds=3,
            calls=1,
        )
    print("\n| 12-layer BERT-like model | time | against trace + save |\n|---|---|---|")
    whole = trace + kept
    row("`torch.jit.trace` + `torch.jit.save`", ms(whole), "1.00x")
    row("`lower`", ms(low), f"{low / whole:.2f}x")
    row("`lower` + `save_lowered` (`.ptl`)", ms(low_saved), f"{low_saved / whole:.2f}x")


def recorded(delegate: Delegate, inputs: tuple[torch.Tensor, ...], *, memory: bool) -> object:
    """A call that is recorded."""
    with delegate.recording(memory=memory):
        return delegate(*inputs)


def running() -> None:
    """Each way of running the same model."""
    print(
        "\n| model | eager | TorchScript | ahead of time, TorchScript | machine | recording | with memory |"
    )
    print("|---|---|---|---|---|---|---|")
    models: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = {
        f"ResNet-50-like, {side} px": (resnet50(8), (torch.randn(1, 3, side, side),)) for side in SIDES
    }
    models["BERT-like, 8 tokens"] = bert_model(), (TOKENS, torch.ones_like(TOKENS))
    for name, (model, inputs) in models.items():
        module = traced(model, *inputs) if "BERT" in name else torch.jit.script(model)
        lowered = lower(module, "aten")
        buffer = io.BytesIO(saved(lowered))
        loaded, delegate = torch.jit.load(buffer), Delegate.of(lowered)

        ways = [partial(way, *inputs) for way in (model, module, loaded, delegate)]
        ways += [partial(recorded, delegate, inputs, memory=memory) for memory in (False, True)]
        with torch.no_grad():
            eager, plain, ahead, machine, recording, with_memory = fastest(*ways)
        row(
            name,
            ms(eager),
            ms(plain),
            f"{ms(ahead)} ({ahead / plain:.2f}x TorchScript)",
            f"{ms(machine)} ({machine / eager:.2f}x eager)",
            f"{ms(recording)} ({recording / machine:.2f}x the machine)",
            f"{ms(with_memory)} ({with_memory / machine:.2f}x)",
        )


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("## Lowering and running")
    lowering()
    running()


if __name__ == "__main__":
    main()
