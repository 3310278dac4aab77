"""Lowering and running, each as a ratio to PyTorch's own in the same run.

PyTorch has one thread: several differ more from call to call than what is measured.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from archive.backend import Delegate, lower, save_lowered
from tools.bench.measuring import ROOT, Aim, Table, in_turn, ms
from tools.models import TOKENS, bert_model, resnet50, saved, traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 30
CALLS = 3
SIDES = (32, 64, 128)
DEPTHS = (1, 2, 4, 8)
MEGABYTES = 200
DEFINED = (
    "the graph is read, followed, folded, emitted and hashed in Python, in steps of 5 to 20 %; PyTorch "
    "compiles the generated statements in a sixth of it; ranges and schemas are read only once"
)
ALLOCATOR = (
    "PyTorch's profiler takes 0.6 ms to begin and end, 2 µs for each mark, and 4 for each allocation or "
    "release, which take 3 more to read; it keeps no history of the CPU's memory, and has no hooks for Python"
)
PEAK = """
import sys, torch
from archive.backend import lower, save_lowered
from tools.bench.lowering import Wide
torch.set_num_threads(1)
save_lowered(lower(torch.jit.script(Wide(1).eval()), "aten"), sys.argv[2], force=True)
lowered = lower(torch.jit.script(Wide(int(sys.argv[1])).eval()), "aten")
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")
now = int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
save_lowered(lowered, sys.argv[2], force=True)
peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
print((peak - now) / 1024)
"""
"""MiB that saving takes beside the model, at its peak: Linux forgets the earlier peak when asked to."""


def lowering() -> Iterator[Table | Aim]:
    """Tracing and saving against lowering and saving."""
    model, mask = bert_model(), torch.ones_like(TOKENS)
    module = traced(model, TOKENS, mask)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bert.ptl"
        trace, kept, low, low_saved = in_turn(
            lambda: traced(model, TOKENS, mask),
            lambda: saved(module),
            lambda: lower(module, "aten"),
            lambda: save_lowered(lower(module, "aten"), path, force=True),
            rounds=3,
        )
    whole = trace + kept
    rows = [
        ("`torch.jit.trace` + `torch.jit.save`", ms(whole), "1.00x"),
        ("`lower`", ms(low), f"{low / whole:.2f}x"),
        ("`lower` + `save_lowered` (`.ptl`)", ms(low_saved), f"{low_saved / whole:.2f}x"),
    ]
    yield Table("Lowering", ("12-layer BERT-like model, traced", "time", "of trace + save"), rows)


def encoder(layers: int) -> nn.Module:
    """Layers of attention, as PyTorch has them."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()


def scripted_anew(model: nn.Module) -> torch.jit.ScriptModule:
    """A model scripted as for the first time: PyTorch keeps what it compiled for a class."""
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    return torch.jit.script(model)


def scripted() -> Iterator[Table | Aim]:
    """Scripted attention of several depths: lowering must not grow faster than the model."""
    rows: list[tuple[object, ...]] = []
    for layers in DEPTHS:
        model = encoder(layers)
        module = torch.jit.script(model)
        kept, low = in_turn(
            lambda: saved(scripted_anew(model)),  # noqa: B023 (used at once)
            lambda: lower(module, "aten"),  # noqa: B023
            rounds=3,
        )
        rows.append((layers, ms(kept), ms(low), f"{low / kept:.1f}x"))
        yield Aim(
            f"lowering scripted attention, {layers} layer{'s' * (layers > 1)}, of script + save",
            low / kept,
            3,
            "x",
            reason=DEFINED,
        )
    yield Table("Lowering scripted attention", ("layers", "script + save", "`lower`", "ratio"), rows)


class Wide(nn.Module):
    """Weights of so many MB, and little code.

    Args:
        megabytes: of weights.
    """

    def __init__(self, megabytes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(megabytes)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        for layer in self.layers:
            x = layer(x)
        return x


def peaks() -> Iterator[Table | Aim]:
    """The memory that ``save_lowered`` takes beside the model, in weights."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PEAK, str(MEGABYTES), str(Path(folder) / "wide.ptl")]
        done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT)  # noqa: S603
    grown = float(done.stdout) / MEGABYTES
    rows = [("`save_lowered`", f"{MEGABYTES} MB", f"{grown:.2f}x")]
    yield Table("Memory of saving", ("what", "weights", "memory besides, in weights"), rows)
    yield Aim("memory of `save_lowered` beside the model, in weights", grown, 0.1, "x")


def recorded(delegate: Delegate, inputs: tuple[torch.Tensor, ...], *, memory: bool) -> object:
    """A call that is recorded."""
    with delegate.recording(memory=memory):
        return delegate(*inputs)


def running() -> Iterator[Table | Aim]:
    """Each way of running the same model."""
    models: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
        f"ResNet-50-like, {side} px": (resnet50(8), (torch.randn(1, 3, side, side),)) for side in SIDES
    }
    models["BERT-like, 8 tokens"] = bert_model(), (TOKENS, torch.ones_like(TOKENS))
    rows = []
    for name, (model, inputs) in models.items():
        module = traced(model, *inputs) if "BERT" in name else torch.jit.script(model)
        lowered = lower(module, "aten")
        loaded, delegate = torch.jit.load(io.BytesIO(saved(lowered))), Delegate.of(lowered)
        ways: list[Callable[[], object]] = [
            partial(way, *inputs) for way in (model, module, loaded, delegate)
        ]
        ways.append(partial(recorded, delegate, inputs, memory=False))
        with torch.no_grad():
            times = in_turn(*ways, rounds=ROUNDS, calls=CALLS, warm=3)
            (with_memory,) = in_turn(partial(recorded, delegate, inputs, memory=True), rounds=ROUNDS // 2)
        eager, plain, ahead, machine, recording = times
        ratios = (
            (ahead, "TorchScript", plain),
            (machine, "eager", eager),
            (recording, "the machine", machine),
            (with_memory, "the machine", machine),
        )
        cells = (f"{ms(ours)} ({ours / peer:.2f}x {of})" for ours, of, peer in ratios)
        rows.append((name, ms(eager), ms(plain), *cells))
        yield Aim(f"{name}: ahead of time, of TorchScript", ahead / plain, 1.1, "x")
        yield Aim(f"{name}: the register machine, of eager", machine / eager, 2, "x")
        yield Aim(f"{name}: recording, of the machine", recording / machine, 1.2, "x")
        yield Aim(f"{name}: recording with memory", with_memory / machine, 1.2, "x", reason=ALLOCATOR)
    ways_run = ("eager", "TorchScript", "ahead of time", "machine", "recording", "with memory")
    yield Table("Running", ("model", *ways_run), rows)


def measure(_: Path) -> Iterator[Table | Aim]:
    """All of these."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for part in (lowering, scripted, peaks, running):
        yield from part()
