"""Values by line: `run`, which notes what each operation of a model computes, beside the plain run.

Both load the file and run it once, in one process with one thread; PyTorch was imported, and each way has
run before. With small inputs an operation takes less time than to note it; with those of real use, its
elements count. Models are built anew for these, and measured once: rounds would take a minute.
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
SIDES = (64, 224)
BASE_LAYERS, BASE_WIDTH, BASE_HEADS, BASE_TOKENS = 4, 768, 12, 128
"""BERT-base has 12 such layers: all are alike, and this many do for the ratio."""
GOAL = 3
LOADS: dict[str, Loads] = {
    ".pt": torch.jit.load,
    ".pt2": lambda path: torch.export.load(path).module(),
    ".ptl": _load_for_lite_interpreter,
}
"""How PyTorch loads each form."""
REASONS = {
    ".ptl": "PyTorch loads a lite archive without its debug info. Of the time of `run`, a third reads the "
    "tables of debug info and the module tree, a seventh parses the code that says which module is called, "
    "a tenth finds lines, and a fifth runs the model",
}
TRIED = {
    ".ptl": "finding once what operations share of their call stacks, and events without call stacks, gave "
    "0.6 to 0.8 of the time; only what ran could be read, but a tag does not name its record",
}


def models() -> Iterator[tuple[str, nn.Module, tuple[Tensor, ...], int]]:
    """Models, what each is run with, and in how many rounds."""
    torch.manual_seed(0)
    small, large = SIDES
    yield f"ResNet-50-like, {small} px", resnet50(64), (torch.rand(1, 3, small, small),), ROUNDS
    yield "BERT-like, 8 tokens", bert_model(), (TOKENS, torch.ones_like(TOKENS)), ROUNDS
    yield f"ResNet-50-like, {large} px", resnet50(64), (torch.rand(1, 3, large, large),), 1
    tokens = torch.arange(BASE_TOKENS)[None]
    base = bert_model(BASE_LAYERS, BASE_WIDTH, BASE_HEADS)
    yield (
        f"BERT, {BASE_LAYERS} layers {BASE_WIDTH} wide, {BASE_TOKENS} tokens",
        base,
        (
            tokens,
            torch.ones_like(tokens),
        ),
        1,
    )


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
        for title, model, inputs, rounds in models():
            for ending, path in written(Path(name), model, inputs).items():
                plain, summed, kept = in_turn(
                    partial(plainly, path, LOADS[ending], inputs),
                    partial(noted, path, inputs, keep=False),
                    partial(noted, path, inputs, keep=True),
                    rounds=rounds,
                    warm=int(rounds > 1),
                )
                shares = (f"{ms(span)} ({span / plain:.1f}x)" for span in (summed, kept))
                rows.append((f"{title}, {ending}", ms(plain), *shares))
                what = f"`run` of {title}, {ending}, of the plain run"
                yield Aim(
                    what,
                    summed / plain,
                    GOAL,
                    "x",
                    reason=REASONS.get(ending, ""),
                    tried=TRIED.get(ending, ""),
                )
    headings = ("loaded and run once", "PyTorch", "`run`, summaries", "values kept, too")
    yield Table("Values by line", headings, rows)
