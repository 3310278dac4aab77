"""Values by line: `run`, which notes what each operation of a model computes, beside the plain run.

Both load the file and run it once, in one process with one thread; PyTorch was imported, and each way has
run before.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch.jit.mobile import _load_for_lite_interpreter

import archive
from tools.bench.measuring import Aim, Table, in_turn, ms
from tools.models import TOKENS, bert_model, resnet50, saved, saved_lite, traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    Loads = Callable[[str], Callable[..., object]]

ROUNDS = 2
SIDE = 64
GOAL = 3
LOADS: dict[str, Loads] = {
    ".pt": torch.jit.load,
    ".pt2": lambda path: torch.export.load(path).module(),
    ".ptl": _load_for_lite_interpreter,
}
"""How PyTorch loads each form."""
REASONS = {
    ".pt": "half of it finds the places of operations in the source, a tenth reads the table of ranges; "
    "measured alone, it took 2.2",
    ".ptl": "debug info is read, and the place of each handle looked up one by one: seven tenths of it",
}


def models() -> Iterator[tuple[str, nn.Module, tuple[Tensor, ...]]]:
    """Models, and what each is run with."""
    torch.manual_seed(0)
    yield f"ResNet-50-like, {SIDE} px", resnet50(64), (torch.rand(1, 3, SIDE, SIDE),)
    yield "BERT-like, 8 tokens", bert_model(), (TOKENS, torch.ones_like(TOKENS))


def written(folder: Path, model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, str]:
    """The model in each form."""
    paths = {ending: folder / f"model{ending}" for ending in LOADS}
    module = traced(model, *inputs)
    paths[".pt"].write_bytes(saved(module))
    paths[".ptl"].write_bytes(saved_lite(module))
    torch.export.save(torch.export.export(model, inputs), paths[".pt2"])
    return {ending: str(path) for ending, path in paths.items()}


def plainly(path: str, load: Loads, inputs: tuple[Tensor, ...]) -> None:
    """Load a file and run it."""
    with torch.no_grad():
        load(path)(*inputs)


def noted(path: str, inputs: tuple[Tensor, ...], *, keep: bool) -> None:
    """The same with what each operation computes."""
    with archive.run(path, *inputs, keep=keep) as run:
        assert run.operations


def measure(_: Path) -> Iterator[Table | Aim]:
    """Each model in each form."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    with TemporaryDirectory() as name:
        for title, model, inputs in models():
            for ending, path in written(Path(name), model, inputs).items():
                plain, summed, kept = in_turn(
                    partial(plainly, path, LOADS[ending], inputs),
                    partial(noted, path, inputs, keep=False),
                    partial(noted, path, inputs, keep=True),
                    rounds=ROUNDS,
                )
                shares = (f"{ms(span)} ({span / plain:.1f}x)" for span in (summed, kept))
                rows.append((f"{title}, {ending}", ms(plain), *shares))
                what = f"`run` of {title}, {ending}, of the plain run"
                yield Aim(what, summed / plain, GOAL, "x", reason=REASONS.get(ending, ""))
    headings = ("loaded and run once", "PyTorch", "`run`, summaries", "values kept, too")
    yield Table("Values by line", headings, rows)
