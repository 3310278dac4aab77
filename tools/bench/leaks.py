"""How fast files are searched: by ``leaks``, and by the proof of ``redact``.

``leaks`` reads what is beside tensors: the JSON of a program whose nodes repeat those of a fixture, 20 MB of
generated code with source ranges, a shared object. Its peer is ``strings -n 4``, which prints the texts of
the same bytes as they are stored, and looks for nothing. The proof reads all bytes of an archive of 270 MB,
for some texts and for thousands; its peer is SHA-256 of the file, by ``hashlib``.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import shutil
import zipfile
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch

import archive
from archive.container.container import Container
from archive.container.write import new_member, write_archive
from archive.privacy.redact.proof import prove
from archive.privacy.redact.removed import Removed
from tools.bench.measuring import FIXTURES, Aim, Table, in_turn, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.container.write import Member

ROUNDS = 2
NODES = 40
"""How often the nodes of a program are repeated, each time by other names."""
RECORDS, CODE = 20, 1_000_000
"""Records of generated code, and bytes of each: the code of a fixture, each time with other names."""
STRINGS = shutil.which("strings")
EACH_TEXT = (
    "each line is cut out and counted, and paths in JSON need all of its brackets. Tried, and stays: marks "
    "of all detectors ruled out together, detectors only around marks, letters of all encodings in columns; "
    "JSON read as far as places ask isn't faster, as signatures stand last. Lines counted by `Counter` and "
    "places of texts in columns were 5 % slower; classes without a generator and UTF-8 checked once 5 % "
    "faster, which stays out; no step takes more than a fifth"
)
TENSORS, TENSOR = 4, 16 << 20
"""Tensors of the large archive, and the elements of each."""


def written(path: Path, root: str, members: Iterator[Member]) -> Path:
    """An archive."""
    with path.open("wb") as file:
        write_archive(file, root, members)
    return path


def of_program() -> Iterator[Member]:
    """A program whose nodes are those of a fixture many times over, and what a ``.pt2`` has besides."""
    with Container.open(FIXTURES / "exported" / "decoder_decomposed.pt2") as opened:
        for name, record in opened.records.items():
            data = bytes(record.view())
            if name == "models/model.json":
                program = json.loads(data)
                graph = program["graph_module"]["graph"]
                nodes = json.dumps(graph["nodes"])
                graph["nodes"] = [
                    node
                    for copy in range(NODES)
                    for node in json.loads(nodes.replace('"name": "', f'"name": "c{copy}_'))
                ]
                data = json.dumps(program).encode()
            yield new_member(name, data)


def of_script() -> Iterator[Member]:
    """Records of a fixture's generated code many times over, each with the fixture's source ranges."""
    with Container.open(FIXTURES / "releases" / "torch-2.13.0" / "nested.ptl") as opened:
        name = "code/__torch__/models.py"
        code, ranges = (bytes(opened.records[one].view()) for one in (name, f"{name}.debug_pkl"))
        copies = CODE // len(code)
        for record in range(RECORDS):
            texts = (code.replace(b"self", b"self%d_%d" % (record, copy)) for copy in range(copies))
            yield new_member(f"code/__torch__/m{record}.py", b"".join(texts))
            yield new_member(f"code/__torch__/m{record}.py.debug_pkl", ranges)
        yield new_member("data.pkl", bytes(opened.records["data.pkl"].view()))


def of_object() -> Iterator[Member]:
    """A compiled model with debug sections."""
    packed = (FIXTURES / "compiled" / "compiled.pt2.xz").read_bytes()
    with zipfile.ZipFile(io.BytesIO(lzma.decompress(packed))) as opened:
        for name in opened.namelist():
            yield new_member(name.partition("/")[2], opened.read(name))


def of_tensors() -> Iterator[Member]:
    """A scripted model with large tensors."""
    numbers = np.random.default_rng(0)
    with Container.open(FIXTURES / "releases" / "torch-2.13.0" / "nested.pt") as opened:
        for name, record in opened.records.items():
            yield new_member(name, bytes(record.view()))
    for number in range(TENSORS):
        tensor = numbers.standard_normal(TENSOR, np.float32)
        yield new_member(f"data/{100 + number}", tensor.tobytes())


def leaks(folder: Path) -> Iterator[Table | Aim]:
    """``leaks`` of what is beside tensors."""
    rows = []
    for title, members, goal in (
        ("a program", of_program, 150),
        ("a script", of_script, 40),
        ("a compiled model", of_object, 60),
    ):
        path = written(folder / "model.pt2", "model", members())
        size = archive.leaks(path).read / 1e6
        strings = partial(run, STRINGS, "-n", "4", path) if STRINGS else path.read_bytes
        ours, peer = in_turn(partial(archive.leaks, path), strings, rounds=ROUNDS)
        ratio = f"{ours / peer:.1f}x" if STRINGS else "no `strings` here"
        rows.append((title, f"{size:,.1f} MB", f"{size / ours:,.0f} MB/s", ratio))
        yield Aim(f"`leaks` of {title}", size / ours, goal, " MB/s", more=True, reason=EACH_TEXT)
    yield Table("The search of `leaks`", ("what", "beside tensors", "speed", "of `strings -n 4`"), rows)


def proof(folder: Path) -> Iterator[Table | Aim]:
    """The proof of a large archive."""
    path = written(folder / "large.pt", "large", of_tensors())
    size = path.stat().st_size / 1e6
    source = Path(torch.nn.functional.__file__).read_bytes()
    lines = {line.strip() for line in source.split(b"\n")}
    few = Removed(paths={b"/home/ann/net.py"}, lines=set(sorted(lines)[-20:]))
    many = Removed(paths={b"/home/ann/%d/net.py" % number for number in range(300)}, lines=lines)
    rows = []
    for removed in (few, many):
        with Container.open(path) as opened:
            count = sum(prove(opened, removed).sought.values())
            ours, peer = in_turn(
                partial(prove, opened, removed),
                lambda: hashlib.sha256(path.read_bytes()).digest(),
                rounds=ROUNDS,
                warm=0,
            )
        rows.append((f"{count:,}", f"{size / ours:,.0f} MB/s", f"{ours / peer:.2f}x"))
        yield Aim(f"the proof, {count:,} texts", size / ours, 200, " MB/s", more=True)
    yield Table(f"The proof of `redact`, {size:,.0f} MB", ("texts", "speed", "of SHA-256"), rows)


def measure(_: Path) -> Iterator[Table | Aim]:
    """Both."""
    with TemporaryDirectory() as folder:
        yield from leaks(Path(folder))
        yield from proof(Path(folder))
