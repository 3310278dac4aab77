"""The table in ``docs/how-to/publish.md``: what models of others reveal, what `redact --for publish` leaves.

    python -m tools.publish_table [MODEL…]     measures all models, or some
    python -m tools.publish_table --page       makes the page of what was measured

``docs/how-to/publish.tsv`` keeps what was measured. Models of packages that are not installed are skipped,
and their rows stay as they are: silero-vad 6.2.3, torchvision 0.28.0 and transformers 5.23.0 were installed
beside PyTorch 2.13.0. silero-vad's archive is as its package has it; the others are saved here, with weights
drawn at random.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import archive
from archive import LeakKind
from tools.model_data import YES, ModelData, Row, markdown, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = (
    "model",
    "package",
    "version",
    "saved",
    "bytes",
    "paths",
    "people",
    "source",
    "others",
    "left",
    "same",
    "exact",
)
KINDS = {
    "paths": {
        LeakKind.HOME,
        LeakKind.TEMPORARY,
        LeakKind.PACKAGES,
        LeakKind.DRIVE,
        LeakKind.UNC,
        LeakKind.PATH,
    },
    "people": {LeakKind.USER, LeakKind.HOST, LeakKind.EMAIL},
    "source": {LeakKind.SOURCE, LeakKind.COMMENT},
}
"""The kinds of findings that a column counts; those that are in none are others."""

Made = tuple[Any, tuple[Any, ...]]
"""A model, and an example call."""


class Sample(NamedTuple):
    """A model that is measured.

    Attributes:
        package: where it comes from.
        saved: how it is saved: ``as published``, ``scripted``, ``traced``, ``lite`` or ``exported``.
        make: makes it.
    """

    package: str
    saved: str
    make: Callable[[], Made]


def vision(name: str, size: int = 64) -> Callable[[], Made]:
    """A model of torchvision, for an image of so many pixels a side."""

    def make() -> Made:
        torch, models = import_module("torch"), import_module("torchvision.models")
        options = {"weights_backbone": None} if "." in name else {}
        module = import_module(f"torchvision.models.{name.partition('.')[0]}") if "." in name else models
        model = getattr(module, name.rpartition(".")[2])(weights=None, **options).eval()
        image = torch.rand(3, size, size) if "detection" in name else torch.rand(1, 3, size, size)
        return model, ([image],) if "detection" in name else (image,)

    return make


def bert() -> Made:
    """A small BERT."""
    torch, transformers = import_module("torch"), import_module("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=100, return_dict=False, **sizes)
    return transformers.BertModel(config).eval(), (torch.arange(8)[None],)


def gpt2() -> Made:
    """A small GPT-2, which keeps nothing for a next call."""
    torch, transformers = import_module("torch"), import_module("transformers")
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 100}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(**sizes, **ends, use_cache=False, return_dict=False)
    return transformers.GPT2Model(config).eval(), (torch.arange(8)[None],)


def vit() -> Made:
    """A small vision transformer."""
    torch, transformers = import_module("torch"), import_module("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.ViTConfig(image_size=32, patch_size=8, return_dict=False, **sizes)
    return transformers.ViTModel(config).eval(), (torch.randn(1, 3, 32, 32),)


def silero() -> Made:
    """The voice detector, for a piece of sound."""
    torch = import_module("torch")
    return silero_file(), (torch.sin(torch.arange(512) / 9.0)[None], 16000)


def silero_file() -> Path:
    """The archive, found without an import of its package."""
    spec = find_spec("silero_vad")
    (folder,) = spec.submodule_search_locations if spec and spec.submodule_search_locations else [""]
    return next(Path(folder, "data").glob("*.jit"))


SAMPLES = {
    "silero-vad": Sample("silero-vad", "as published", silero),
    "resnet18, scripted": Sample("torchvision", "scripted", vision("resnet18")),
    "resnet18, traced": Sample("torchvision", "traced", vision("resnet18")),
    "resnet18, exported": Sample("torchvision", "exported", vision("resnet18")),
    "mobilenet_v3_small, lite": Sample("torchvision", "lite", vision("mobilenet_v3_small")),
    "ssdlite320, scripted": Sample(
        "torchvision", "scripted", vision("detection.ssdlite320_mobilenet_v3_large", 320)
    ),
    "lraspp, exported": Sample("torchvision", "exported", vision("segmentation.lraspp_mobilenet_v3_large")),
    "bert, traced": Sample("transformers", "traced", bert),
    "bert, exported": Sample("transformers", "exported", bert),
    "gpt2, traced": Sample("transformers", "traced", gpt2),
    "gpt2, exported": Sample("transformers", "exported", gpt2),
    "vit, traced": Sample("transformers", "traced", vit),
    "vit, exported": Sample("transformers", "exported", vit),
}
DATA = ModelData("how-to/publish", COLUMNS, SAMPLES)


def saved(sample: Sample, folder: Path) -> tuple[Path, tuple[Any, ...]]:
    """The file of a model, and an example call."""
    torch = import_module("torch")
    torch.manual_seed(0)
    model, arguments = sample.make()
    path = folder / f"model{'.pt2' if sample.saved == 'exported' else '.pt'}"
    if sample.saved == "as published":
        return model, arguments
    if sample.saved == "exported":
        torch.export.save(torch.export.export(model, arguments), path)
    elif sample.saved == "traced":
        torch.jit.trace(model, arguments).save(path)
    elif sample.saved == "scripted":
        torch.jit.script(model).save(path)
    else:
        scripted = torch.jit.script(model)
        scripted._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
    return path, arguments


def result(path: Path, saved_as: str, arguments: tuple[Any, ...]) -> list[bytes]:
    """What a call of a saved model gives, bit by bit."""
    torch = import_module("torch")
    torch.manual_seed(0)
    if saved_as == "exported":
        model = torch.export.load(path).module()
    elif saved_as == "lite":
        model = import_module("torch.jit.mobile")._load_for_lite_interpreter(str(path))
    else:
        model = torch.jit.load(path)
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(model(*arguments))
    return [one.detach().contiguous().numpy().tobytes() for one in leaves]


def row_of(name: str, version: str) -> Row:
    """Measure a model."""
    sample = SAMPLES[name]
    with tempfile.TemporaryDirectory() as folder:
        path, arguments = saved(sample, Path(folder))
        out, companion, back = (Path(folder, one) for one in (f"out{path.suffix}", "private.ptdbg", "back"))
        before = archive.leaks(path).counted()
        archive.redact(path, out, companion, preset="publish", partial=True)
        left = archive.leaks(out).counted()
        archive.join(out, companion, back)
        same = result(path, sample.saved, arguments) == result(out, sample.saved, arguments)
        counts = {column: sum(one.kind in kinds for one in before) for column, kinds in KINDS.items()}
        counts["others"] = len(before) - sum(counts.values())
        facts = {"bytes": path.stat().st_size, **counts, "left": len(left)}
        checks = {"same": same, "exact": back.read_bytes() == path.read_bytes()}
    row = {key: str(value) for key, value in facts.items()}
    row |= {key: YES if value else "no" for key, value in checks.items()}
    return {"model": name, "package": sample.package, "version": version, "saved": sample.saved, **row}


def table(found: dict[str, Row]) -> str:
    """The table, in Markdown."""
    head = [
        "model",
        "of",
        "bytes",
        "paths",
        "people",
        "source text",
        "others",
        "left",
        "computes the same",
        "joined exactly",
    ]
    lines = [head, ["---"] * 2 + ["---:"] * 6 + ["---"] * 2]
    for row in found.values():
        counts = [f"{int(row[column]):,}" for column in ("bytes", *KINDS, "others", "left")]
        lines.append([row["model"], f"{row['package']} {row['version']}", *counts, row["same"], row["exact"]])
    return markdown(lines)


def main(arguments: list[str]) -> None:
    """Measure what the command line names."""
    warnings.simplefilter("ignore")
    found = DATA.rows()
    if arguments != ["--page"]:
        for name in arguments or SAMPLES:
            version = version_of(SAMPLES[name].package)
            if version is None:
                print(f"{name}: skipped, {SAMPLES[name].package} is not installed")
                continue
            found[name] = row_of(name, version)
            print(*found[name].values(), flush=True)
            DATA.write(found)
    DATA.rewrite(table(DATA.rows()))


if __name__ == "__main__":
    main(sys.argv[1:])
