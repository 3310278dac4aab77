"""The models that the benchmarks are made on, built on the spot with PyTorch and saved to bytes.

None of them computes anything useful; what counts is how much debug information they have, and of which kind.
Texts in a traced one are Python stacks, with paths of the machine: it isn't a fixture, and its size depends a
little on who calls. A process numbers its debug handles ever on, so that later ones are larger numbers.

    python -m tools.models FOLDER [NAME ...]    write some, or all, into a folder
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from tools.repeated import repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAYERS = 12
WIDTH = 64
HEADS = 4
WORDS = 1_000
TOKENS = torch.arange(1, 9)[None]
ENCODER_LAYERS = 48
ROWS_A_STEP = 14
STEPS_A_GRAPH = 25


@contextmanager
def inline_texts() -> Iterator[None]:
    """Let PyTorch save source ranges as it did before 1.12: each row with its text, no string table."""
    torch._C._set_should_use_format_with_string_table(False)
    try:
        yield
    finally:
        torch._C._set_should_use_format_with_string_table(True)


def saved(module: torch.jit.ScriptModule) -> bytes:
    """A ``.pt`` file."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def saved_lite(module: torch.jit.ScriptModule) -> bytes:
    """A ``.ptl`` file with debug information."""
    return bytes(module._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True))


def traced(module: nn.Module, *inputs: torch.Tensor) -> torch.jit.ScriptModule:
    """What one call of a module does."""
    return torch.jit.trace(module.eval(), inputs, check_trace=False, strict=False)


# --- language models, of the usual depth and small width ---------------------------------------------


def transformers() -> Any:  # noqa: ANN401 (an optional package, whose absence must not change a verdict on types)
    """The package, without its advice on how models are configured."""
    package = importlib.import_module("transformers")
    package.utils.logging.set_verbosity_error()
    return package


def bert_model(layers: int = LAYERS, width: int = WIDTH, heads: int = HEADS) -> nn.Module:
    """An encoder."""
    package = transformers()
    config = package.BertConfig(
        vocab_size=WORDS,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width,
        attn_implementation="eager",
        return_dict=False,
    )
    made: nn.Module = package.BertModel(config)
    return made.eval()


def bert() -> bytes:
    """An encoder, traced."""
    return saved(traced(bert_model(), TOKENS, torch.ones_like(TOKENS)))


def bert_inline() -> bytes:
    """The same with inline texts."""
    with inline_texts():
        return bert()


def gpt() -> bytes:
    """A decoder, traced."""
    package = transformers()
    config = package.GPT2Config(
        vocab_size=WORDS,
        bos_token_id=0,
        eos_token_id=0,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        attn_implementation="eager",
        return_dict=False,
        use_cache=False,
    )
    return saved(traced(package.GPT2Model(config), TOKENS))


# --- a vision model: many bytes of tensors, little code ----------------------------------------------


class Bottleneck(nn.Module):
    """Three convolutions around a short cut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's answer, added to its input."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            x = self.downsample(x)
        out += x
        return self.relu(out)


def resnet50(width: int) -> nn.Module:
    """The classifier of 50 layers."""
    stem = (nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
    stages = []
    channels = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = width << stage
        first = Bottleneck(channels, inner, 1 if stage == 0 else 2)
        channels = 4 * inner
        stages.append(nn.Sequential(first, *(Bottleneck(channels, inner, 1) for _ in range(blocks - 1))))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1_000))
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *stages, *head).eval()


def resnet() -> bytes:
    """Of the real width, 25.6 million parameters, scripted."""
    return saved(torch.jit.script(resnet50(64)))


def resnet_traced() -> bytes:
    """A narrow one, traced."""
    return saved(traced(resnet50(8), torch.zeros(1, 3, 64, 64)))


# --- a model for devices: deep call stacks, a handle for every instruction ---------------------------


def encoder() -> torch.jit.ScriptModule:
    """PyTorch's own encoder, narrow, scripted."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return torch.jit.script(nn.TransformerEncoder(layer, ENCODER_LAYERS).eval())


# --- graphs: any number of operations, each with a Python stack of its own ---------------------------


class Steps(nn.Module):
    """As many steps as are asked for; a step makes 14 source-range rows."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Unrolled by torch.fx."""
        for step in range(self.count):
            y = torch.relu(x * 0.5 + step)
            x = x + torch.sigmoid(y) - torch.cat([x, y], 0).mean()
        return x


class Graphs(nn.Module):
    """Graphs one after another.

    A graph has a local variable an operation, and the tracer walks them all at every operation; hence many
    short graphs. They are no submodules, and so come out as one method, whose rows are in one record. All
    have the same few constants, because PyTorch compares each one with every other when it saves.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        whole, rest = divmod(steps, STEPS_A_GRAPH)
        full = fx.symbolic_trace(Steps(STEPS_A_GRAPH))
        last = [fx.symbolic_trace(Steps(rest))] if rest else []
        self.graphs = (*(fx.GraphModule(full, full.graph) for _ in range(whole)), *last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call them."""
        for graph in self.graphs:
            x = graph.forward(x)
        return x


def graphs(rows: int) -> bytes:
    """About as many source-range rows as are asked for."""
    return saved(traced(Graphs(round(rows / ROWS_A_STEP)), torch.ones(1)))


MODELS: dict[str, Callable[[], bytes]] = {
    "bert": bert,
    "bert-inline": bert_inline,
    "gpt": gpt,
    "resnet": resnet,
    "resnet-traced": resnet_traced,
    "encoder48": lambda: saved(encoder()),
    "encoder48.ptl": lambda: saved_lite(encoder()),
    "fx-1k": partial(graphs, 1_000),
    "fx-2k": partial(graphs, 2_000),
    "fx-8k": partial(graphs, 8_000),
    "fx-10k": partial(graphs, 10_000),
    "fx-100k": partial(graphs, 100_000),
}
REPEATED = {"fx-1m": ("fx-100k", 10)}
"""Archives with so many times the rows of another one: PyTorch traces a million rows in two minutes."""


def built(name: str, folder: Path | None = None) -> bytes:
    """One archive; from the folder if it is there, else built and, given a folder, written to it."""
    path = None if folder is None else folder / (name if "." in name else f"{name}.pt")
    if path is not None and path.exists():
        return path.read_bytes()
    torch.manual_seed(0)
    if name in REPEATED:
        base, times = REPEATED[name]
        data = repeated(built(base, folder), times)
    else:
        data = MODELS[name]()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(data)
        part.replace(path)
    return data


def main() -> None:
    """Build what the command line names."""
    warnings.simplefilter("ignore")
    for name in sys.argv[2:] or (*MODELS, *REPEATED):
        start = time.perf_counter()
        size = len(built(name, Path(sys.argv[1])))
        print(f"{name}: {size:,} bytes, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
