"""How small the debug information of torchvision's models becomes; no part of ``make bench``.

    python -m pip install --no-deps torchvision==0.28.0 pillow
    python -m tools.bench.vision

Eight models with random weights are scripted, and saved as ``.pt`` and as ``.ptl``, as apps have them:
without debug handles. Each file that is made of them is checked: ``verify`` finds no error, and PyTorch loads
it and computes the same. What is not so is listed at the end, and the exit status is 1.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.jit.mobile import _load_for_lite_interpreter

import archive
from archive.check.verify import verify
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tools.bench.sizes import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLASSIFIERS = (
    *("squeezenet1_1", "shufflenet_v2_x1_0", "mobilenet_v3_small", "mobilenet_v2"),
    *("efficientnet_b0", "resnet18", "resnet50"),
)
SEGMENTER = "deeplabv3_resnet50"
HEADINGS = ("model", "file", "debug info in it", "companion", "split", "compact", "embed")
IMAGE = (1, 3, 64, 64)


def torchvision_models() -> Any:  # noqa: ANN401 (a module without types)
    """Torchvision's models, which need none of its compiled operators: those may not fit this PyTorch."""
    register = torch.library.register_fake
    torch.library.register_fake = partial(_registered, register)
    try:
        return importlib.import_module("torchvision.models")
    finally:
        torch.library.register_fake = register


def _registered(register: Callable[..., Any], name: object, *others: Any, **named: Any) -> Any:  # noqa: ANN401
    if str(name).startswith("torchvision::"):
        return lambda function: function
    return register(name, *others, **named)


def models() -> Iterator[tuple[str, torch.jit.ScriptModule]]:
    """The models by name, scripted."""
    found = torchvision_models()
    for name in CLASSIFIERS:
        torch.manual_seed(0)
        yield name, torch.jit.script(getattr(found, name)(weights=None).eval())
    torch.manual_seed(0)
    segmenter = getattr(found.segmentation, SEGMENTER)(weights=None, weights_backbone=None)
    yield SEGMENTER, torch.jit.script(segmenter.eval())


def rows(folder: Path, faults: list[str]) -> Iterator[tuple[str, ...]]:
    """Each model as both kinds of archive, and what is left of them; all together at the end.

    What is wrong with a file goes to ``faults``.
    """
    sums = [0] * (len(HEADINGS) - 1)
    for name, module in models():
        pt, lite = folder / f"{name}.pt", folder / f"{name}.ptl"
        module.save(str(pt))
        lite.write_bytes(module._save_to_buffer_for_lite_interpreter())
        for path in (pt, lite):
            sizes = measured(path, faults)
            sums = [before + size for before, size in zip(sums, sizes, strict=True)]
            yield row(path.name, sizes)
        for path in folder.iterdir():
            path.unlink()
    yield row("together", sums)


def row(name: str, sizes: list[int]) -> tuple[str, ...]:
    """A row of the table: bytes, and the shares of the file."""
    file, debug, companion, *left = sizes
    shares = (f"{size:,} ({size / file:.1%})" for size in left)
    return (name, f"{file:,}", f"{debug:,} ({debug / file:.2%})", f"{companion:,}", *shares)


def measured(path: Path, faults: list[str]) -> list[int]:
    """The numbers of a row."""
    companion, small, compact, embed = (path.with_name(f"{part}-{path.name}") for part in HEADINGS[3:])
    with archive.open(path) as opened:
        debug = stored(opened)
    split(path, small, companion)
    shrink(path, compact)
    shrink(path, embed, level="embed")
    expected = computed(path)
    for made in (small, compact, embed):
        faults.extend(f"{made.name}: {one}" for one in verify(made) if one.severity == "error")
        if not torch.equal(computed(made), expected):
            faults.append(f"{made.name}: another result")
    return [path.stat().st_size, debug, *(one.stat().st_size for one in (companion, small, compact, embed))]


def computed(path: Path) -> torch.Tensor:
    """What PyTorch computes with an archive."""
    load = _load_for_lite_interpreter if path.suffix == ".ptl" else torch.jit.load
    torch.manual_seed(0)
    with torch.no_grad():
        result = load(str(path))(torch.randn(IMAGE))
    tensor: torch.Tensor = result["out"] if isinstance(result, dict) else result
    return tensor


def main() -> None:
    """Measure and print, as Markdown."""
    faults: list[str] = []
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    with tempfile.TemporaryDirectory() as folder:
        for one in rows(Path(folder), faults):
            print(f"| {' | '.join(one)} |", flush=True)
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
