"""Files with many of one thing in them, made in a fraction of the time that PyTorch takes: tensors, code.

They are what PyTorch writes, record by record, and PyTorch loads them. All things in a file have the same
size, but each has its own name, numbers and texts: nothing is found again that was found before.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from archive.container.write import new_member, write_archive
from tests.attacks.pieces import MARK, number, pickled, several, text
from tools.bench.measuring import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from archive.container.write import Member

FIRST = (
    b"ctorch._utils\n_rebuild_tensor_v2\nq\1",
    b"ctorch\nFloatStorage\nq\2",
    b"ccollections\nOrderedDict\nq\3",
)
"""Names that the first tensor has, and all others refer to."""
ROWS = 4
"""Source ranges of a record of code."""
CODE = """\
class Block(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.m{0}.Block,
    x: Tensor) -> Tensor:
    h = torch.relu(x)
    return torch.add(h, {0})
"""
SOURCE = "def forward(self, x):\n    h = torch.relu(x)\n    return h + {}\n"
TOP = """\
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
{}  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return x
"""


def tensors(path: Path, count: int) -> Path:
    """A state dict by ``torch.save``, of so many tensors, each in a storage of its own."""
    rows = b"".join(text(f"layers.{at}.weight") + _tensor(at) for at in range(count))

    def members() -> Iterator[Member]:
        yield new_member("data.pkl", pickled(b"}q\0(", rows, b"u"))
        yield new_member("byteorder", b"little")
        for at in range(count):
            yield new_member(f"data/{at}", struct.pack("<4f", at, at, at, at))
        yield new_member("version", b"3\n")

    return _written(path, members())


def _tensor(at: int) -> bytes:
    call, kind, hooks = (b"h\1", b"h\2", b"h\3") if at else FIRST
    storage = several(text("storage"), kind, text(str(at)), text("cpu"), number(4)) + b"Q"
    shape = several(number(2), number(2))
    strides = several(number(2), number(1))
    return call + several(storage, number(0), shape, strides, b"\x89", hooks + b")R") + b"R"


def code(path: Path, count: int) -> Path:
    """A TorchScript archive of a module of so many modules, each with a class and a record of its own."""
    names = [f"m{at}" for at in range(count)]
    attributes = "".join(f"  {name} : __torch__.{name}.Block\n" for name in names)
    training = text("training") + b"\x89"
    parts = (
        text(name) + b"c__torch__.%b\nBlock\n)\x81}(" % name.encode() + training + b"ub" for name in names
    )

    def members() -> Iterator[Member]:
        yield new_member("data.pkl", pickled(b"c__torch__\nM\n)\x81}(", training, *parts, b"ub"))
        yield new_member("code/__torch__.py", TOP.format(attributes).encode())
        yield new_member("code/__torch__.py.debug_pkl", _ranges("class M: pass\n", "/srv/net/top.py", 0))
        for at, name in enumerate(names):
            ranges = _ranges(SOURCE.format(at), f"/srv/net/{name}.py", (at + 1) * ROWS)
            yield new_member(f"code/__torch__/{name}.py", CODE.format(at).encode())
            yield new_member(f"code/__torch__/{name}.py.debug_pkl", ranges)
        yield new_member("constants.pkl", pickled(b")"))
        yield new_member("version", b"3\n")

    return _written(path, members())


def _ranges(source: str, file: str, tag: int) -> bytes:
    """Source ranges with inline texts, numbered from a tag on."""
    first = several(text(source) + b"q\0", text(file) + b"q\1", number(1)) + b"q\2"
    rows = (
        several(
            number(20 * at),
            several(b"h\2" if at else first, number(3 * at), number(3 * at + 3)),
            _number(tag + at),
        )
        for at in range(ROWS)
    )
    return pickled(MARK, *rows, b"tq\3")


def _number(value: int) -> bytes:
    """An integer, in as many bytes as PyTorch takes for it."""
    two_bytes = 1 << 8 <= value < 1 << 16
    return b"M" + struct.pack("<H", value) if two_bytes else number(value)


def _written(path: Path, members: Iterable[Member]) -> Path:
    with path.open("wb") as file:
        write_archive(file, path.stem, members)
    return path


def failures(path: Path, count: int) -> Path:
    """A log of so many failures of the fleet's models, each with a number and a time of its own."""
    blocks = (FIXTURES / "fleet" / "unique.log").read_text().split("INFO running ")[1:]
    with path.open("w") as log:
        for at in range(count):
            log.write(f"2026-03-01 12:00:{at % 60:02} INFO request {at}: {blocks[at % len(blocks)]}")
    return path
