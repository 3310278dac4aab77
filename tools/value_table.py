"""Faults planted in models of transformers, timm and our own, in each form: which line `run` names.

python -m tools.value_table PACKAGES [MODEL ...]

PACKAGES is a folder with transformers, timm and what they need. A line is right if it is where the eager
model with the fault first computes something else than the one without. Each form with a fault is compared
with the model's archives and its program without one, a quantised one with the same without one; each form
without a fault with all others. Prints a row for each model, and each comparison that went wrong.
"""

from __future__ import annotations

import copy
import io
import sys
import tempfile
import warnings
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import archive
from archive.backend import lower, save_lowered
from archive.base.source_files import is_no_models
from tests.values.models import CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import FrameType

Line = tuple[str, int]
TOLERANCE, OF_8_BITS = 1e-5, 0.03


class Scored(nn.Module):
    """A model, and the entropy of what it returns first."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.least: float = 0.01

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Where ``least`` is 0, a logarithm of 0 times 0."""
        scores = self.model(x)
        scores = torch.relu(scores - scores.mean())
        logarithms = torch.log(scores + self.least)
        return scores * logarithms


class First(nn.Module):
    """A model of transformers, which returns several things."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first of them."""
        return self.model(x, return_dict=False)[0]


class Model(NamedTuple):
    """A model to plant faults in.

    Attributes:
        make: the model, before it is scored.
        input: for it.
        scale: a module, and the number of it that is off; a parameter is multiplied as it is.
        swapped: two modules whose weights change places.
        norm: a norm, and the name of its epsilon.
        coarse: a linear or convolutional layer.
    """

    make: Callable[[], nn.Module]
    input: Callable[[], torch.Tensor]
    scale: tuple[str, str]
    swapped: tuple[str, str]
    norm: tuple[str, str]
    coarse: str


def of_transformers(name: str, **sizes: Any) -> nn.Module:  # noqa: ANN401 (as each takes them)
    """A small model of transformers with random weights."""
    transformers = import_module("transformers")
    config = getattr(transformers, f"{name}Config")(**sizes)
    return First(getattr(transformers, f"{name}Model")(config))


def of_timm(name: str, **sizes: Any) -> nn.Module:  # noqa: ANN401
    """A model of timm with random weights."""
    made: nn.Module = import_module("timm").create_model(
        name, pretrained=False, scriptable=True, num_classes=10, **sizes
    )
    return made


def tokens() -> torch.Tensor:
    """Words."""
    return torch.randint(3, 90, (2, 9))


def images(size: int) -> torch.Tensor:
    """Two pictures."""
    return torch.rand(2, 3, size, size)


BERT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LAYER = "model.encoder.layer"
MODELS = {
    "transformer": Model(
        *CASES["transformer"],
        scale=("blocks.1.attention", "scale"),
        swapped=("blocks.1.attention.query", "blocks.1.attention.key"),
        norm=("blocks.0.norm", "eps"),
        coarse="blocks.0.up",
    ),
    "convolutional": Model(
        *CASES["convolutional"],
        scale=("layers.0.second", "weight"),
        swapped=("layers.1.first", "layers.1.second"),
        norm=("layers.0.norm", "eps"),
        coarse="layers.1.first",
    ),
    "BERT": Model(
        partial(of_transformers, "Bert", **BERT, intermediate_size=64),
        tokens,
        scale=(f"{LAYER}.0.attention.self", "scaling"),
        swapped=(f"{LAYER}.1.attention.self.query", f"{LAYER}.1.attention.self.key"),
        norm=(f"{LAYER}.0.output.LayerNorm", "eps"),
        coarse=f"{LAYER}.1.intermediate.dense",
    ),
    "GPT-2": Model(
        partial(of_transformers, "GPT2", vocab_size=99, n_embd=32, n_layer=2, n_head=4, use_cache=False),
        tokens,
        scale=("model.h.1.mlp.c_fc", "weight"),
        swapped=("model.h.0.attn.c_proj", "model.h.1.attn.c_proj"),
        norm=("model.h.1.ln_2", "eps"),
        coarse="model.h.0.mlp.c_proj",
    ),
    "Llama": Model(
        partial(
            of_transformers, "Llama", **BERT, intermediate_size=64, num_key_value_heads=2, use_cache=False
        ),
        tokens,
        scale=("model.layers.0.self_attn", "scaling"),
        swapped=("model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj"),
        norm=("model.layers.0.post_attention_layernorm", "variance_epsilon"),
        coarse="model.layers.1.mlp.down_proj",
    ),
    "ViT": Model(
        partial(of_transformers, "ViT", **BERT | {"image_size": 16, "patch_size": 4}, intermediate_size=64),
        partial(images, 16),
        scale=("model.layers.0.mlp.fc2", "weight"),
        swapped=("model.layers.1.attention.q_proj", "model.layers.1.attention.k_proj"),
        norm=("model.layernorm", "eps"),
        coarse="model.layers.1.mlp.fc1",
    ),
    "resnet": Model(
        partial(of_timm, "test_resnet"),
        partial(images, 32),
        scale=("layer2.0.conv2", "weight"),
        swapped=("layer1.0.conv1", "layer1.0.conv2"),
        norm=("layer3.0.bn1", "eps"),
        coarse="layer4.0.conv1",
    ),
    "efficientnet": Model(
        partial(of_timm, "test_efficientnet"),
        partial(images, 32),
        scale=("classifier", "weight"),
        swapped=("blocks.3.0.bn1", "blocks.3.0.bn2"),
        norm=("blocks.1.0.bn1", "eps"),
        coarse="conv_head",
    ),
    "vit": Model(
        partial(of_timm, "test_vit", img_size=32, depth=2),
        partial(images, 32),
        scale=("blocks.1.mlp.fc2", "weight"),
        swapped=("blocks.0.attn.proj", "blocks.1.attn.proj"),
        norm=("blocks.1.norm2", "eps"),
        coarse="blocks.1.attn.qkv",
    ),
    "convnext": Model(
        partial(of_timm, "test_convnext"),
        partial(images, 32),
        scale=("stages.1.blocks.0.conv_dw", "weight"),
        swapped=("stages.2.blocks.0.mlp.fc1", "stages.2.blocks.1.mlp.fc1"),
        norm=("stages.2.blocks.1.norm", "eps"),
        coarse="stages.1.blocks.1.mlp.fc1",
    ),
}


# --- faults


def scale(model: Scored, of: Model) -> None:
    """Off by 2 %."""
    path, name = of.scale
    module = model.model.get_submodule(path)
    value = getattr(module, name)
    if isinstance(value, nn.Parameter):
        value.data *= 1.02
    else:
        setattr(module, name, value * 1.02)


def swapped(model: Scored, of: Model) -> None:
    """Two weights in each other's place."""
    one, other = map(model.model.get_submodule, of.swapped)
    one.weight, other.weight = other.weight, one.weight


def epsilon(model: Scored, of: Model) -> None:
    """As another release has it."""
    path, name = of.norm
    setattr(model.model.get_submodule(path), name, 1e-2)


def logarithm(model: Scored, _: Model) -> None:
    """Of 0."""
    model.least = 0.0


def coarse(model: Scored, of: Model) -> None:
    """A layer of 4 bits."""
    weight = model.model.get_submodule(of.coarse).weight.data
    step = weight.abs().max() / 7
    weight.copy_(torch.round(weight / step) * step)


FAULTS = (scale, swapped, epsilon, logarithm, coarse)


# --- forms


def traced(model: nn.Module, x: torch.Tensor) -> torch.jit.ScriptModule:
    """TorchScript of what ran."""
    return torch.jit.trace(model, x)


def scripted(model: nn.Module, _: torch.Tensor) -> torch.jit.ScriptModule:
    """TorchScript of the source."""
    return torch.jit.script(model)


def frozen(model: nn.Module, x: torch.Tensor) -> torch.jit.ScriptModule:
    """Without modules, and with norms folded."""
    return torch.jit.freeze(traced(model, x))


def lite(model: nn.Module, x: torch.Tensor) -> bytes:
    """For the lite interpreter."""
    data: bytes = traced(model, x)._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    return data


def lowered(model: nn.Module, x: torch.Tensor) -> bytes:
    """For this library's backend."""
    with tempfile.TemporaryDirectory() as folder:
        save_lowered(lower(traced(model, x), "aten"), Path(folder, "lowered.pt"))
        return Path(folder, "lowered.pt").read_bytes()


def migrated(model: nn.Module, x: torch.Tensor) -> bytes:
    """As PyTorch 1.9 writes it."""
    with tempfile.TemporaryDirectory() as folder:
        archive.migrate(saved(traced(model, x)), Path(folder, "old.pt"), to="1.9", lossy=True)
        return Path(folder, "old.pt").read_bytes()


def exported(model: nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    """A program of what ran."""
    return torch.export.export(model, (x,))


def strict(model: nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    """A program of the bytecode."""
    return torch.export.export(model, (x,), strict=True)


def decomposed(model: nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    """In fewer operators."""
    return exported(model, x).run_decompositions()


def dynamic(model: nn.Module, x: torch.Tensor) -> torch.jit.ScriptModule:
    """Linear layers of 8 bits, in TorchScript."""
    eager = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
    return traced(eager, x)


def pt2e(model: nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    """All that XNNPACK computes in 8 bits, in a program."""
    xnnpack_quantizer = import_module("executorch.backends.xnnpack.quantizer.xnnpack_quantizer")
    quantize_pt2e = import_module("torchao.quantization.pt2e.quantize_pt2e")
    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
    quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
    prepared = quantize_pt2e.prepare_pt2e(exported(model, x).module(), quantizer)
    prepared(x)
    return exported(quantize_pt2e.convert_pt2e(prepared), x)


FORMS: Sequence[Callable[[nn.Module, torch.Tensor], Any]] = (
    *(traced, scripted, lite, frozen, lowered, migrated),
    *(exported, strict, decomposed, dynamic, pt2e),
)
QUANTISED = {"dynamic", "pt2e"}


def saved(made: Any) -> bytes:  # noqa: ANN401 (what forms return)
    """A form as its file."""
    if isinstance(made, bytes):
        return made
    file = io.BytesIO()
    if isinstance(made, torch.export.ExportedProgram):
        torch.export.save(made, file)
    else:
        torch.jit.save(made, file)
    return file.getvalue()


def runs_of(
    model: nn.Module, x: torch.Tensor, names: Collection[str] | None = None
) -> dict[str, archive.Run]:
    """A run of each form that the model exists in."""
    runs = {"eager": archive.run(model, x)}
    for make in FORMS:
        name = make.__name__
        if names is not None and name not in names:
            continue
        try:
            with torch.no_grad():
                runs[name] = archive.run(saved(make(model, x)), x)
        except Exception as error:  # noqa: BLE001 (PyTorch raises errors of any kind)
            print(f"  not {name}: {str(error).strip().splitlines()[0][:200]}", flush=True)
    return runs


# --- the right line


class Stacks(TorchDispatchMode):
    """Keeps the first result of each operator, and the lines of others than PyTorch that led to it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[list[Line], torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """Run an operator."""
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if isinstance(first, torch.Tensor):
            self.seen.append(([*_lines(sys._getframe(1))], first.clone()))
        return result


def _lines(frame: FrameType | None) -> Iterator[Line]:
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_no_models(file):
            yield file, frame.f_lineno
        frame = frame.f_back


def parting(faulty: nn.Module, model: nn.Module, x: torch.Tensor) -> list[Line]:
    """The lines, innermost first, where a model first computes something else than another one."""
    runs = []
    for each in (faulty, model):
        with torch.inference_mode(), Stacks() as stacks:
            each(x)
        runs.append(stacks.seen)
    return next(lines for (lines, one), (_, other) in zip(*runs, strict=True) if not torch.equal(one, other))


# --- the table


def made(of: Model) -> tuple[Scored, torch.Tensor]:
    """A model whose norms do something, and its input."""
    torch.manual_seed(0)
    model, x = Scored(of.make()).eval(), of.input()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.rand_like(parameter)
    return model.requires_grad_(False), x


def row(name: str) -> str:
    """What came of one model."""
    of = MODELS[name]
    model, x = made(of)
    bases = runs_of(model, x)
    print(f"{name}: {', '.join(bases)}", flush=True)
    exact = {each: run for each, run in bases.items() if each not in QUANTISED}
    false = [*_false_alarms(exact)]
    right = Counter[str]()
    for plant in FAULTS:
        faulty = copy.deepcopy(model)
        plant(faulty, of)
        lines = parting(faulty, model, x)
        for mine, run in runs_of(faulty, x, bases).items():
            others = {"eager", "traced", "scripted", "exported", mine} - {"frozen"}
            for base in {mine} if mine in QUANTISED else others & {*exact}:
                found = run.diff(bases[base], tolerance=TOLERANCE).first
                _judge(right, f"{plant.__name__}: {mine} beside {base}", found, lines)
            if mine in QUANTISED and plant is coarse:
                found = run.diff(bases["exported"], tolerance=OF_8_BITS).first
                _judge(right, f"{plant.__name__}: {mine} beside exported", found, lines)
    return f"| {name} | {', '.join(bases)} | {len(false)} | {right['right']} of {right.total()} |"


def _false_alarms(runs: Mapping[str, archive.Run]) -> Iterator[str]:
    """The pairs of forms without a fault of which a line is named."""
    for mine, run in runs.items():
        for base, reference in runs.items():
            diff = run.diff(reference, tolerance=TOLERANCE)
            if diff.is_beyond:
                first = diff.first and (diff.first.known.line, diff.first.pair.how, diff.first.gap)
                print(f"  false alarm: {mine} beside {base}: {first}", flush=True)
                yield f"{mine} beside {base}"


def _judge(right: Counter[str], what: str, found: Any, lines: list[Line]) -> None:  # noqa: ANN401
    named = found and found.known.line
    is_right = named == "{}:{}".format(*lines[0])
    if found and found.pair.layer:
        is_right |= found.pair.layer.line == "{}:{}".format(*lines[0])
    if found and found.pair.mine.node and found.pair.base.node:  # export gives functions their caller's line
        is_right |= named in map("{}:{}".format, *zip(*lines, strict=True))
    right["right" if is_right else "wrong"] += 1
    if not is_right:
        where = [f"{Path(file).name}:{number}" for file, number in lines[:4]]
        how = found and (found.pair.how, found.pair.mine.op, found.known.place.module, found.gap.max_rel)
        print(f"  wrong: {what}: {named} {how}, not {where}", flush=True)


def main() -> None:
    """Print the table."""
    folder, *names = sys.argv[1:]
    sys.path.append(folder)
    for name in "nms", "qnms":  # torchvision may be built for another PyTorch; its operators are not used
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou) -> Tensor")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = [row(name) for name in names or MODELS]
    print("| model | forms | false alarms | faults found |\n|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
