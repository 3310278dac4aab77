"""How fast files are searched: by ``leaks``, and by the proof of ``redact``.

    python -m tools.bench_leaks

``leaks`` reads what is beside tensors: the JSON of a program whose nodes repeat those of a fixture, generated
code and source ranges of a fixture many times over, a shared object. Its peer is ``strings -n 4``, which
prints the texts of the same bytes as they are stored, and looks for nothing. The proof reads all bytes of an
archive of 1 GB, for some texts and for thousands; its peer is SHA-256 of the file, by ``hashlib``.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import shutil
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import archive
from archive.base.limits import unbounded
from archive.container.container import Container
from archive.container.write import new_member, write_archive
from archive.privacy.redact.proof import prove
from archive.privacy.redact.removed import Removed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.container.write import Member

FIXTURES = Path(__file__).parent.parent / "fixtures"
ROUNDS = 3
NODES = 40
"""How often the nodes of a program are repeated, each time by other names."""
COPIES = 200
"""How often generated code and source ranges are."""
STRINGS = shutil.which("strings")
TENSORS, TENSOR = 16, 16 << 20
"""Tensors of the large archive, and the elements of each."""


def seconds(work: Callable[[], object]) -> float:
    """Those of the fastest of some runs."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


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
    """Generated code and source ranges of a fixture, many times over."""
    with Container.open(FIXTURES / "releases" / "torch-2.13.0" / "nested.ptl") as opened:
        for copy in range(COPIES):
            for name, record in opened.records.items():
                if name.startswith("code/"):
                    yield new_member(f"code/c{copy}/{name}", bytes(record.view()))
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


def leaks(table: Table, folder: Path) -> None:
    """``leaks`` of what is beside tensors."""
    for title, members in (("a program", of_program), ("a script", of_script), ("compiled", of_object)):
        path = written(folder / "model.pt2", "model", members())
        read = archive.leaks(path).read
        ours = seconds(partial(archive.leaks, path))
        row = f"{read / 1e6:,.1f} MB, {read / 1e6 / ours:,.0f} MB/s"
        if STRINGS is None:
            table.add_row(f"leaks: {title}", "", "no `strings` here", row)
            continue
        command = [STRINGS, "-n", "4", str(path)]
        peer = seconds(partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL))
        table.add_row(f"leaks: {title}", f"{ours / peer:.1f}x", "strings -n 4", row)


def proof(table: Table, folder: Path) -> None:
    """The proof of 1 GB."""
    path = written(folder / "large.pt", "large", of_tensors())
    peer = seconds(lambda: hashlib.sha256(path.read_bytes()).digest())
    source = Path(torch.nn.functional.__file__).read_bytes()
    lines = {line.strip() for line in source.split(b"\n")}
    few = Removed(paths={b"/home/ann/net.py"}, lines=set(sorted(lines)[-20:]))
    many = Removed(paths={b"/home/ann/%d/net.py" % number for number in range(300)}, lines=lines)
    for removed in (few, many):
        with Container.open(path) as opened:
            count = sum(prove(opened, removed, unbounded()).sought.values())
            ours = seconds(partial(prove, opened, removed, unbounded()))
        row = f"{path.stat().st_size / 1e6 / ours:,.0f} MB/s"
        table.add_row(f"the proof, for {count:,} texts", f"{ours / peer:.2f}x", "SHA-256", row)


def main() -> None:
    """Measure and print."""
    table = Table("what", "time", "of that of", "note")
    with TemporaryDirectory() as folder:
        for part in (leaks, proof):
            if part.__name__ in (sys.argv[1:] or ("leaks", "proof")):
                part(table, Path(folder))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
