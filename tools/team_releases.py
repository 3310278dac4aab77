"""Releases of one team's scripted model: a few small edits between each, as source control would show them.

    python -m tools.team_releases FOLDER COUNT

FOLDER gets ``team-01.pt``, ``team-02.pt`` and so on, and the same saved for the lite interpreter with debug
info, ``team-01.ptl``. The model is five files of source: blocks that call each other and PyTorch's layers,
and helper functions. From release to release two to eight edits are made (:data:`EDITS`), all in one or two
of the files; every sixth release gets a new block. Weights differ in each. Each release is saved by a process
of its own, so that debug handles start anew.
"""

from __future__ import annotations

import linecache
import os
import random
import sys
import types
import warnings
from pathlib import Path

import torch

SEED = 15
FILES, BLOCKS_A_FILE = 5, 4
LAYERS = (
    "torch.nn.Linear(8, 8)",
    "torch.nn.LayerNorm(8)",
    "torch.nn.Dropout(0.1)",
    "torch.nn.GELU()",
    "torch.nn.Softmax(-1)",
    "torch.nn.Hardswish()",
    "torch.nn.Bilinear(8, 8, 8)",
)
STATEMENTS = (
    "{name} = torch.relu({name} * {number})",
    "{name} = torch.nn.functional.dropout({name}, p={number}, training=self.training)",
    "{name} = torch.cat([{name}, {name}], -1)[..., :8]",
    "{name} = {name}.transpose(0, 1).contiguous().transpose(0, 1)",
    "{name} = torch.where({name} > {number}, {name}, torch.zeros_like({name}))",
    "{name} = {name} + torch.tanh({name} / (1.0 + {number}))",
    "{name} = scaled({name}, {number})",
    "if {name}.size(0) > 64:\n    {name} = {name} - {name}.mean(0, keepdim=True)",
)
COMMENTS = (
    "# the loss is steadier with this",
    "# see the notes of the last release",
    "# keeps activations in range",
)
NAMES = ("x", "hidden", "out", "state", "features")
HELPERS = '''
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    """Scale a tensor, but not below its least value."""
    low = x.min()
    scaled_x = x * by
    return torch.maximum(scaled_x, low)

'''


class Block:
    """One class of the model: layers, and statements between them."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.variable = chance.choice(NAMES)
        self.layers = [chance.choice(LAYERS) for _ in range(chance.randrange(1, 4))]
        self.lines = [statement(chance) for _ in range(chance.randrange(6, 18))]

    def source(self) -> str:
        """The class."""
        made = [f"        self.layer{at} = {layer}" for at, layer in enumerate(self.layers)]
        body = [
            self.variable + " = x",
            *(line.replace("{name}", self.variable) for line in self.lines),
            *(self._call(at, layer) for at, layer in enumerate(self.layers)),
            f"return {self.variable}",
        ]
        indented = [f"        {line}" for text in body for line in text.splitlines()]
        head = [f"class {self.name}(torch.nn.Module):", "    def __init__(self) -> None:"]
        forward = "    def forward(self, x: torch.Tensor) -> torch.Tensor:"
        return "\n".join([*head, "        super().__init__()", *made, "", forward, *indented, "", ""])

    def _call(self, at: int, layer: str) -> str:
        given = ", ".join([self.variable] * (1 + ("Bilinear" in layer)))
        return f"{self.variable} = self.layer{at}({given})"


def statement(chance: random.Random) -> str:
    """A statement about ``{name}``."""
    return chance.choice(STATEMENTS).replace("{number}", str(round(chance.random(), 3)))


def insert(block: Block, chance: random.Random) -> None:
    """A statement more."""
    block.lines.insert(chance.randrange(len(block.lines) + 1), statement(chance))


def remove(block: Block, chance: random.Random) -> None:
    """A statement less."""
    if len(block.lines) > 1:
        del block.lines[chance.randrange(len(block.lines))]


def change(block: Block, chance: random.Random) -> None:
    """Another statement in the place of one."""
    block.lines[chance.randrange(len(block.lines))] = statement(chance)


def comment(block: Block, chance: random.Random) -> None:
    """A comment."""
    block.lines.insert(chance.randrange(len(block.lines)), chance.choice(COMMENTS))


def rename(block: Block, chance: random.Random) -> None:
    """Another name for the variable."""
    block.variable = chance.choice(NAMES)


EDITS = (insert, insert, remove, change, change, comment, rename)


class Team:
    """The source of the model as it is now: blocks in files."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)  # noqa: S311 (no secret)
        self.files = [
            [Block(f"Block{file}{at}", self.chance) for at in range(BLOCKS_A_FILE)] for file in range(FILES)
        ]

    def edit(self, release: int) -> None:
        """Go on to the next release."""
        for file in self.chance.sample(self.files, self.chance.choice((1, 2))):
            for _ in range(self.chance.randrange(2, 5)):
                self.chance.choice(EDITS)(self.chance.choice(file), self.chance)
        if release % 6 == 0:
            self.chance.choice(self.files).append(Block(f"Added{release}", self.chance))

    def sources(self) -> dict[str, str]:
        """The text of each file, by its name."""
        found = {
            f"team/blocks{at}.py": "import torch\n" + HELPERS + "\n".join(block.source() for block in file)
            for at, file in enumerate(self.files)
        }
        names = [(f"blocks{at}", block.name) for at, file in enumerate(self.files) for block in file]
        lines = ["import torch", *(f"from {file} import {name}" for file, name in names), ""]
        lines += [
            "class Team(torch.nn.Module):",
            "    def __init__(self) -> None:",
            "        super().__init__()",
        ]
        lines += [f"        self.{name.lower()} = {name}()" for _, name in names]
        lines += ["", "    def forward(self, x: torch.Tensor) -> torch.Tensor:"]
        lines += [f"        x = self.{name.lower()}(x)" for _, name in names]
        return found | {"team/model.py": "\n".join([*lines, "        return x", ""])}


def save(sources: dict[str, str], path: Path) -> None:
    """Save a release both ways, compiled under relative names: no path of this machine gets into it."""
    for file, code in sources.items():
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        module = types.ModuleType(Path(file).stem)
        module.__file__ = file
        sys.modules[module.__name__] = module
        exec(compile(code, file, "exec"), vars(module))  # noqa: S102 (our own source)
    model = sys.modules["model"].Team().eval()
    scripted = torch.jit.script(model)
    scripted.save(str(path.with_suffix(".pt")))
    scripted._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)


def make(folder: Path, count: int) -> None:
    """Save releases into a folder."""
    team = Team()
    for release in range(1, count + 1):
        child = os.fork()
        if not child:
            torch.manual_seed(release)
            warnings.simplefilter("ignore")
            save(team.sources(), folder / f"team-{release:02}.ptl")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        team.edit(release)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]))
