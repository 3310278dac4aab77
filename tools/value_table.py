"""Faults planted in models of transformers, timm and our own, in each form: which line `run` names.

python -m tools.value_table PACKAGES SECONDS [MODEL ...]

PACKAGES is a folder with transformers, timm and what they need. After SECONDS of processor time, no further
fault is planted in a model; they begin with another one in each. A line is right if it is where the eager
model with the fault first computes something else than the one without, or where that is folded into. Each
form without a fault is beside all others; with a fault, beside itself and ``BASES`` without it, a quantised
one beside itself, and with a layer of 4 bits beside the program. ``SLOW`` forms have two of the five faults,
in each model other ones.

Prints each comparison that went wrong, and a row for each model: its forms and faults; of the pairs without a
fault, of how many a line was named; of those with one, of how many the right line was named (found), was only
named as one that may be right, or as a layer that may have a norm folded into it (unsure), no line was named
(missed), or another one (wrong).
"""

from __future__ import annotations

import copy
import io
import sys
import tempfile
import warnings
from collections import Counter
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import archive
from archive.backend import lower, save_lowered
from archive.base.source_files import is_no_models
from tests.values.models import CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from types import FrameType

    from archive.debuginfo.values.gaps import ValueDiff, ValueGap

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
        scale: the number or parameter that is off.
        swapped: two modules whose weights change places.
        epsilon: of a norm.
        coarse: a linear or convolutional layer.
    """

    make: Callable[[], nn.Module]
    input: Callable[[], torch.Tensor]
    scale: str
    swapped: tuple[str, str]
    epsilon: str
    coarse: str


@cache
def package(name: str) -> Any:  # noqa: ANN401
    """A package of models. They import torchvision, which may be built for another PyTorch."""
    if not package.cache_info().currsize:
        for operator in "nms", "qnms":  # it looks for these, which no model here uses
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou) -> Tensor"
            )
    return import_module(name)


def of_transformers(name: str, **sizes: Any) -> nn.Module:  # noqa: ANN401 (as each takes them)
    """A small model of transformers with random weights."""
    transformers = package("transformers")
    config = getattr(transformers, f"{name}Config")(**sizes)
    return First(getattr(transformers, f"{name}Model")(config))


def of_timm(name: str, **sizes: Any) -> nn.Module:  # noqa: ANN401
    """A model of timm with random weights."""
    made: nn.Module = package("timm").create_model(
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
        "blocks.1.attention.scale",
        ("blocks.1.attention.query", "blocks.1.attention.key"),
        "blocks.0.norm.eps",
        "blocks.0.up",
    ),
    "convolutional": Model(
        *CASES["convolutional"],
        "layers.0.second.weight",
        ("layers.1.first", "layers.1.second"),
        "layers.0.norm.eps",
        "layers.1.first",
    ),
    "BERT": Model(
        partial(of_transformers, "Bert", **BERT, intermediate_size=64),
        tokens,
        f"{LAYER}.0.attention.self.scaling",
        (f"{LAYER}.1.attention.self.query", f"{LAYER}.1.attention.self.key"),
        f"{LAYER}.0.output.LayerNorm.eps",
        f"{LAYER}.1.intermediate.dense",
    ),
    "GPT-2": Model(
        partial(of_transformers, "GPT2", vocab_size=99, n_embd=32, n_layer=2, n_head=4, use_cache=False),
        tokens,
        "model.h.1.mlp.c_fc.weight",
        ("model.h.0.attn.c_proj", "model.h.1.attn.c_proj"),
        "model.h.1.ln_2.eps",
        "model.h.0.mlp.c_proj",
    ),
    "Llama": Model(
        partial(
            of_transformers, "Llama", **BERT, intermediate_size=64, num_key_value_heads=2, use_cache=False
        ),
        tokens,
        "model.layers.0.self_attn.scaling",
        ("model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj"),
        "model.layers.0.post_attention_layernorm.variance_epsilon",
        "model.layers.1.mlp.down_proj",
    ),
    "ViT": Model(
        partial(of_transformers, "ViT", **BERT | {"image_size": 16, "patch_size": 4}, intermediate_size=64),
        partial(images, 16),
        "model.layers.0.mlp.fc2.weight",
        ("model.layers.1.attention.q_proj", "model.layers.1.attention.k_proj"),
        "model.layernorm.eps",
        "model.layers.1.mlp.fc1",
    ),
    "resnet": Model(
        partial(of_timm, "test_resnet"),
        partial(images, 32),
        "layer2.0.conv2.weight",
        ("layer1.0.conv1", "layer1.0.conv2"),
        "layer3.0.bn1.eps",
        "layer4.0.conv1",
    ),
    "efficientnet": Model(
        partial(of_timm, "test_efficientnet"),
        partial(images, 32),
        "classifier.weight",
        ("blocks.3.0.bn1", "blocks.3.0.bn2"),
        "blocks.1.0.bn1.eps",
        "conv_head",
    ),
    "vit": Model(
        partial(of_timm, "test_vit", img_size=32, depth=2),
        partial(images, 32),
        "blocks.1.mlp.fc2.weight",
        ("blocks.0.attn.proj", "blocks.1.attn.proj"),
        "blocks.1.norm2.eps",
        "blocks.1.attn.qkv",
    ),
    "convnext": Model(
        partial(of_timm, "test_convnext"),
        partial(images, 32),
        "stages.1.blocks.0.conv_dw.weight",
        ("stages.2.blocks.0.mlp.fc1", "stages.2.blocks.1.mlp.fc1"),
        "stages.2.blocks.1.norm.eps",
        "stages.1.blocks.1.mlp.fc1",
    ),
}


# --- faults

Fault: TypeAlias = "Callable[[Scored, Model], None]"
"""Plants something in a model."""


def scale(model: Scored, of: Model) -> None:
    """Off by 2 %."""
    module, name = _attribute(model, of.scale)
    value = getattr(module, name)
    if isinstance(value, nn.Parameter):
        value.data *= 1.02
    else:
        setattr(module, name, value * 1.02)


def _attribute(model: Scored, path: str) -> tuple[nn.Module, str]:
    parent, _, name = path.rpartition(".")
    return model.model.get_submodule(parent), name


def swapped(model: Scored, of: Model) -> None:
    """Two weights in each other's place."""
    one, other = map(model.model.get_submodule, of.swapped)
    one.weight, other.weight = other.weight, one.weight


def epsilon(model: Scored, of: Model) -> None:
    """As another release has it."""
    setattr(*_attribute(model, of.epsilon), 1e-2)


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
SLOW = ("lowered", "migrated", "strict", "decomposed", "pt2e")
BASES = ("eager", "traced", "scripted", "exported")


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


def runs_of(model: nn.Module, x: torch.Tensor, names: Collection[str]) -> Iterator[tuple[str, archive.Run]]:
    """A run of each form of these names that the model exists in."""
    yield "eager", archive.run(model, x)
    for make in FORMS:
        if make.__name__ in names:
            try:
                with torch.no_grad():
                    run = archive.run(saved(make(model, x)), x)
            except Exception as error:  # noqa: BLE001 (PyTorch raises errors of any kind)
                print(f"  not {make.__name__}: {str(error).strip().splitlines()[0][:200]}", flush=True)
            else:
                yield make.__name__, run


# --- the right line


class Stacks(TorchDispatchMode):
    """Keeps the first result of each operator, and the lines of others than PyTorch that led to it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[list[str], torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """Run an operator."""
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if isinstance(first, torch.Tensor):
            self.seen.append(([*_lines(sys._getframe(1))], first.clone()))
        return result


def _lines(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_no_models(file):
            yield f"{file}:{frame.f_lineno}"
        frame = frame.f_back


def parting(faulty: nn.Module, model: nn.Module, x: torch.Tensor) -> list[str]:
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


def planted(
    name: str, forms: Collection[str], seconds: float
) -> Iterator[tuple[str, list[str], str, archive.Run]]:
    """Each fault, the lines where it is, and a run of each form with it, until some time is over."""
    of, at = MODELS[name], [*MODELS].index(name)
    model, x = made(of)
    end = process_time() + seconds
    for number in range(at, at + len(FAULTS)):
        plant = FAULTS[number % len(FAULTS)]
        faulty = copy.deepcopy(model)
        plant(faulty, of)
        lines = parting(faulty, model, x)
        left_out = {form for nth, form in enumerate(SLOW) if (number + nth) % len(FAULTS) > 1}
        for form, run in runs_of(faulty, x, {*forms} - left_out):
            yield plant.__name__, lines, form, run
        if process_time() > end:
            break


def row(
    name: str, bases: Mapping[str, archive.Run], faults: Iterable[tuple[str, list[str], str, archive.Run]]
) -> str:
    """What came of one model."""
    print(f"{name}: {', '.join(bases)}", flush=True)
    exact = {form: run for form, run in bases.items() if form not in QUANTISED}
    false = sum(_is_false_alarm(mine, base, exact) for mine in exact for base in exact)
    found, planted_faults = Counter[str](), set[str]()
    for fault, lines, form, run in faults:
        planted_faults.add(fault)
        for base, tolerance in _bases(form, fault, exact):
            diff = run.diff(bases[base], tolerance=tolerance)
            came = judged(diff, lines)
            found[came] += 1
            if came != "found":
                where = ", ".join(line.rpartition("/")[2] for line in lines[:4])
                print(f"  {came}: {fault}: {form} beside {base}: {_words(diff)}, not {where}", flush=True)
    counts = " | ".join(str(found[came]) for came in ("found", "unsure", "missed", "wrong"))
    return f"| {name} | {len(bases)} | {len(planted_faults)} | {false} of {len(exact) ** 2} | {counts} |"


def _bases(form: str, fault: str, exact: Collection[str]) -> Iterator[tuple[str, float]]:
    """What a form with a fault is beside, and the tolerance."""
    yield form, TOLERANCE
    if form not in QUANTISED:
        yield from ((base, TOLERANCE) for base in BASES if base in exact and base != form)
    elif fault == coarse.__name__:
        yield "exported", OF_8_BITS


def _is_false_alarm(mine: str, base: str, runs: Mapping[str, archive.Run]) -> bool:
    """Whether a line of a form without a fault is named."""
    diff = runs[mine].diff(runs[base], tolerance=TOLERANCE)
    if diff.is_beyond:
        print(f"  false alarm: {mine} beside {base}: {_words(diff)}", flush=True)
    return diff.is_beyond


def judged(diff: ValueDiff, lines: Sequence[str]) -> str:
    """What a comparison came to, if the innermost of these lines has the fault."""
    if diff.first and _is_right(diff.first, lines):
        return "found"
    unsure = (diff.uncertain and _is_right(diff.uncertain[0], lines)) or (
        diff.first is not None and diff.may_hide_norm(diff.first)
    )
    return "unsure" if unsure else "wrong" if diff.first else "missed"


def _is_right(found: ValueGap, lines: Sequence[str]) -> bool:
    pair = found.pair
    if pair.mine.node and pair.base.node:  # export gives functions the line of their caller
        return found.known.line in lines
    return lines[0] in {found.known.line, found.layer and found.layer.line}


def _words(diff: ValueDiff) -> str:
    named = (each for each in (diff.first, *diff.uncertain[:1]) if each)
    return "; ".join(
        f"{each.known.line.rpartition('/')[2]} {each.pair.mine.op} beside {each.pair.base.op}"
        f" ({each.pair.how}) in {each.known.place.module}: {each.gap.max_rel:.2g}"
        for each in named
    )


def main() -> None:
    """Print the table."""
    folder, seconds, *names = sys.argv[1:]
    sys.path.append(folder)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(
        "| model | forms | faults | false alarms | found | unsure | missed | wrong |",
        "|---" * 8 + "|",
        sep="\n",
    )
    for name in names or MODELS:
        bases = dict(runs_of(*made(MODELS[name]), {make.__name__ for make in FORMS}))
        print(row(name, bases, planted(name, bases, float(seconds))), flush=True)


if __name__ == "__main__":
    main()
