"""Each verb on each of the small archives of ten releases, and what others take for the same files."""

from __future__ import annotations

import pickletools
import warnings
import zipfile
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import torch

import archive
from tools.bench.measuring import Aim, Table, in_turn, release_archives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GOALS = {
    "open + tables": 4,
    "split": 20,
    "compact": 14,
    "migrate": 20,
    "verify": 8,
    "digest": 9,
    "diff": 20,
    "redact": 35,
    "leaks": 6,
}
"""Milliseconds an archive."""
WHY = {
    "compact": "two fifths write each record in the ways that may be smallest, a fifth proves that they say "
    "the same",
    "redact": "three tenths make the companion, a quarter is the proof, a fifth looks for leaks in the "
    "original, a tenth writes source ranges; no step stands out",
    "leaks": "a fifth each cut out the strings, read the lines of source and look for what reveals; all of "
    "it is many small steps",
}
ROUNDS = 2
EVERY = 4
"""Of the archives, one in so many is measured."""


def tables(path: Path) -> None:
    """Open, and read what is debug information."""
    with archive.open(path) as opened:
        for part in ("range_table", "handle_table", "method_table"):
            getattr(opened, part)


def records(path: Path) -> list[bytes]:
    """All records of the zip."""
    with zipfile.ZipFile(path) as opened:
        return [opened.read(name) for name in opened.namelist()]


def opcodes(path: Path) -> None:
    """All opcodes of its pickles."""
    with zipfile.ZipFile(path) as opened:
        for name in opened.namelist():
            if name.endswith((".pkl", ".debug_pkl")):
                for _ in pickletools.genops(opened.read(name)):
                    pass


def verbs(folder: Path, other: Path) -> dict[str, Callable[[Path], object]]:
    """What is done with each archive."""
    out, aside = folder / "out", folder / "aside"
    return {
        "open + tables": tables,
        "split": lambda path: archive.split(path, out, aside, force=True),
        "compact": lambda path: archive.shrink(path, out, force=True),
        "migrate": lambda path: archive.migrate(path, out, to="2.13", lossy=True, force=True),
        "verify": archive.verify,
        "digest": archive.digest,
        "diff": lambda path: archive.diff(path, other),
        "redact": lambda path: archive.redact(path, out, aside, paths="basename", force=True),
        "leaks": archive.leaks,
    }


PEERS: dict[str, Callable[[Path], object]] = {
    "`zipfile`: all records": records,
    "`pickletools.genops`: all pickles": opcodes,
    "`hashlib.sha256`": lambda path: sha256(path.read_bytes()).digest(),
    "`torch.jit.load`": torch.jit.load,
}


def over(work: Callable[[Path], object], paths: list[Path]) -> None:
    """Do it with each archive; one that a verb refuses counts, too."""
    for path in paths:
        try:
            work(path)
        except (archive.ArchiveError, RuntimeError, ValueError):
            continue


def measure(folder: Path) -> Iterator[Table | Aim]:
    """Milliseconds an archive."""
    warnings.simplefilter("ignore")
    paths = release_archives()[::EVERY]
    folder.mkdir(parents=True, exist_ok=True)
    works = PEERS | verbs(folder, paths[0])
    times = in_turn(*(partial(over, work, paths) for work in works.values()), rounds=ROUNDS)
    spans = {name: seconds / len(paths) * 1e3 for name, seconds in zip(works, times, strict=True)}
    zipped = spans["`zipfile`: all records"]
    size = sum(path.stat().st_size for path in paths) / len(paths)
    yield Table(
        "Small archives",
        ("an archive", "CPU", "of `zipfile`"),
        [(name, f"{span:.2f} ms", f"{span / zipped:.1f}x") for name, span in spans.items()],
        f"{len(paths)} archives of ten releases, {size:,.0f} bytes on average.",
    )
    for name, goal in GOALS.items():
        yield Aim(f"{name}, a small archive", spans[name], goal, " ms", reason=WHY.get(name, ""))
