"""What companions of exported programs take, and how long a split: BERT, GPT-2, ViT, ResNet, random weights.

None of them trained the dictionaries of companions (``tools/make_words.py``).

The peers, in the same run: of the companion the better of zstd 19 and xz -9e of all metadata as text; of
reading, packing and stripping a program, and of a whole split, ``json.loads`` and ``json.dumps`` of its
record.
"""

from __future__ import annotations

import json
import logging
import lzma
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import zstandard

import archive
from archive.base.json_text import read_json
from archive.formats.exported.program import Program, without_metadata
from archive.formats.record_kinds import is_program
from archive.normalform.pool import Pool
from archive.normalform.programs import ProgramPacker
from tools.bench.measuring import Aim, Table, in_turn
from tools.models import transformers

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 2
TWICE = (
    "`json` writes the record twice, with metadata to prove that it comes back, and without, which takes as "
    "long as the peer; texts within it are parsed, and built again to prove them"
)
MEMO = (
    "comparing bytes and no views, counting costs in one pass, and proving origins by their JSON made 3.2 "
    "to 2.9 of GPT-2, and 3.6 to 3.3 of ResNet; a memo of strings gave 1 %"
)
NOTE = (
    "Of transformers, with random weights: 12 layers, 96 wide; ResNet of 16 blocks. Exported non-strict, and "
    "strict and decomposed. The last columns are times, in that of the JSON of the record, read and written."
)
LAYERS = {"hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 12, "intermediate_size": 192}
HEADINGS = (
    "program",
    "nodes",
    "file",
    "metadata",
    "companion",
    "of zstd, xz",
    "what is left",
    "compact",
    "embedded",
    "packed, in JSON",
    "the whole split, in JSON",
)


class Row(NamedTuple):
    """What is measured of a program; sizes in bytes.

    Attributes:
        name: of the program.
        nodes: in it.
        size: of the file.
        metadata: of all metadata as text.
        companion: of the companion.
        peer: of the metadata compressed by the better of zstd and xz.
        left: of the file whose nodes have no metadata but module stacks.
        compact: of the compact file.
        embedded: of the file with the companion inside.
        packed: time of reading, packing and stripping it, in that of ``json.loads`` and ``json.dumps``.
        whole: the same of the whole split: weights, compression, files, and the proof that a join is exact.
    """

    name: str
    nodes: int
    size: int
    metadata: int
    companion: int
    peer: int
    left: int
    compact: int
    embedded: int
    packed: float
    whole: float

    def cells(self) -> tuple[object, ...]:
        """Of the table."""
        share = f"{self.companion / self.peer:.2f}"
        small = [f"{size:,} ({size / self.size:.1%})" for size in (self.left, self.compact, self.embedded)]
        cells = (self.name, f"{self.nodes:,}", f"{self.size:,}", f"{self.metadata:,}", f"{self.companion:,}")
        return (*cells, share, *small, f"{self.packed:.1f}", f"{self.whole:.1f}")


def models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules with random weights, and example arguments."""
    package = transformers()
    words = (torch.ones(1, 16, dtype=torch.int64),)
    bert = package.BertConfig(vocab_size=500, max_position_embeddings=64, **LAYERS)
    gpt2 = package.GPT2Config(
        vocab_size=500, n_positions=64, n_embd=96, n_layer=12, n_head=4, use_cache=False
    )
    vit = package.ViTConfig(image_size=32, patch_size=8, **LAYERS)
    resnet = package.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[3, 4, 6, 3])
    return {
        "bert": (package.BertModel(bert), words),
        "gpt2": (package.GPT2Model(gpt2), words),
        "vit": (package.ViTModel(vit), (torch.rand(1, 3, 32, 32),)),
        "resnet": (package.ResNetModel(resnet), (torch.rand(1, 3, 64, 64),)),
    }


def packed(record: memoryview) -> bytes:
    """A program's record without metadata, which is packed."""
    tree = read_json(record)
    packer = ProgramPacker(Pool())
    packer.add(Program.of("model", tree))
    packer.columns()
    return without_metadata(tree, record) or b""


def row(name: str, path: Path) -> Row:
    """Measure a file."""
    small, aside = path.with_suffix(".small"), path.with_suffix(".ptdbg")
    done = archive.split(path, small, aside, force=True)
    with archive.open(path) as opened:
        sites = [site for program in opened.programs.values() for site in program.sites.values()]
        text = "\n".join(json.dumps(site.metadata) for site in sites).encode()
        (record,) = (bytes(one.view()) for name, one in opened.records.items() if is_program(name))
    ours, whole, theirs = in_turn(
        lambda: packed(memoryview(record)),
        lambda: archive.split(path, small, aside, force=True),
        lambda: json.dumps(json.loads(record)),
        rounds=ROUNDS,
    )
    peer = min(len(zstandard.compress(text, 19)), len(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)))
    compact, embedded = (
        archive.shrink(path, small, level=one, force=True).out_size for one in ("compact", "embed")
    )
    return Row(
        name,
        len(sites),
        done.size,
        len(text),
        done.companion_size,
        peer,
        done.out_size,
        compact,
        embedded,
        ours / theirs,
        whole / theirs,
    )


def measure(_: Path) -> Iterator[Table | Aim]:
    """Export, and measure."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    rows = []
    with TemporaryDirectory() as folder:
        for name, (model, arguments) in models().items():
            for kind, strict in (("", False), (", strict, decomposed", True)):
                program = torch.export.export(model.eval(), arguments, strict=strict)
                path = Path(folder) / f"{name}.pt2"
                torch.export.save(program.run_decompositions() if strict else program, path)
                rows.append(row(name + kind, path))
    yield Table("Exported programs", HEADINGS, [measured.cells() for measured in rows], NOTE)
    for measured in rows:
        yield Aim(f"companion of {measured.name}, of zstd, xz", measured.companion / measured.peer, 0.6, "x")
        what = f"packing {measured.name}, in its JSON"
        yield Aim(what, measured.packed, 3, "x", reason=TWICE, tried=MEMO)
    yield Aim("companion of an exported BERT", rows[0].companion, 2_600, " B")
