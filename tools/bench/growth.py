"""How verbs grow: with the rows of an archive, and with the number of archives."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import zstandard

import archive
from tools.bench.measuring import COMMAND, Aim, Table, best, number, release_archives
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = {"fx-1k": 1_000, "fx-10k": 10_000, "fx-100k": 100_000, "fx-1m": 1_000_000}
VERBS = {
    "split": ("split", "{}", "-o", "{out}", "-c", "{aside}", "--force"),
    "compact": ("shrink", "{}", "-o", "{out}", "--force"),
    "verify": ("verify", "{}"),
    "leaks": ("leaks", "{}"),
}
GOALS = {"split": 2.0, "compact": 1.5, "verify": 1.0, "leaks": 1.5}
"""Seconds for 100,000 rows."""
GROWTH = 1.05
CACHE = "what a million rows make is not in the processor's cache, and runs differ by 0.03"
AT_ONCE = (
    "while a record is read, kinds, numbers, places and children of its values take three times its bytes, "
    "and the columns that are made of them once: less only if rows were made before all is read. Tried with "
    "`verify`: children by number -210 MiB, lists of integers a part at a time -180, bytes compared part by "
    "part and pieces of 32 bits -120, places of 16 bits -50"
)
MILLION = ("verify",)
"""Verbs that are measured with a million rows: `leaks` takes half a minute, the others a minute each."""
DEFLATE = (
    "records are read by an interpreted loop, a third of `verify`, a quarter of `compact` "
    "(docs/decisions/compiled.md); half of `split` is deflating, as PyTorch does to prove that it can be "
    "undone and once more as small as may be; writing rows, with all integers at once, is a third less: 0.4 s"
)
ONE_BY_ONE = (
    "57,000 strings are cut out, decoded and searched for paths one by one; rows, which say what strings are "
    "lines of source, are read by their shape"
)
REASONS = {"leaks": ONE_BY_ONE}
"""Why a goal is missed, if for another reason than the others."""
TRIED = {
    "leaks": "rows read by their shape, not by instructions, and the calls of Python looked for only in "
    "lines that may be one: of 4.8 s 3.5, on a machine with other work; no garbage looked for gave 1 to 3 %, "
    "lines counted by `Counter` took twice as long as one by one",
}
"""What was tried for 100,000 rows, by verb."""
ARCHIVES = {"verify": (10, 100, 1_000), "digest": (10, 100, 1_000)}
"""How many archives each verb reads."""
FIXED = 64
"""MiB that any archive may take besides three times its inflated records."""


def costs(words: list[str]) -> tuple[float, float]:
    """Seconds of the processor, and MiB at the peak, of a process."""
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "assert done.returncode in (0, 1), done.stderr\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=True, text=True)  # noqa: S603
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def exponent(first: float, last: float, sizes: tuple[float, float]) -> float:
    """The power of the size by which something grows."""
    return math.log(last / first) / math.log(sizes[1] / sizes[0])


def with_rows(folder: Path) -> Iterator[Table | Aim]:
    """Each verb on each archive, in a new process."""
    out = {"out": str(folder / "out"), "aside": str(folder / "aside")}
    paths = {name: folder / f"{name}.pt" for name in ROWS}
    inflated = {}
    for name in ROWS:
        built(name, folder)
        inflated[name] = _inflated(paths[name])
    base, _ = costs([*COMMAND, "--help"])
    rows: list[tuple[object, ...]] = []
    for verb, words in VERBS.items():
        names = list(ROWS)[: None if verb in MILLION else -1]
        filled = [[*COMMAND, *(word.format(paths[name], **out) for word in words)] for name in names]
        measured = {name: costs(command) for name, command in zip(names, filled, strict=True)}
        seconds = [span for span, _ in measured.values()]
        growth = exponent(seconds[-2] - base, seconds[-1] - base, (ROWS[names[-2]], ROWS[names[-1]]))
        spans = [f"{span:.2f} s" for span in seconds]
        spans += [""] * (len(ROWS) - len(spans))
        largest, (_, peak) = names[-1], measured[names[-1]]
        rows.append((f"`{verb}`", *spans, f"{growth:.2f}", f"{peak:,.0f} MiB"))
        tried = TRIED.get(verb, "")
        what = f"`{verb}` of 100,000 rows"
        yield Aim(
            what, measured["fx-100k"][0], GOALS[verb], " s", reason=REASONS.get(verb, DEFLATE), tried=tried
        )
        what = f"`{verb}`, growth from {names[-2]} to {largest}"
        yield Aim(what, growth, GROWTH, "", reason=CACHE)
        most = FIXED + 3 * inflated[largest] / (1 << 20)
        yield Aim(f"`{verb}` of {largest}, peak", peak, most, " MiB", reason=AT_ONCE)
    data = paths["fx-100k"].read_bytes()
    peer = best(partial(zstandard.compress, data, 19), 1)
    rows.append(("zstd -19", "", "", f"{peer:.2f} s", "", "", ""))
    yield Table(
        "Cost as archives grow",
        ("verb", *ROWS, "growth", "peak of the largest"),
        rows,
        "CPU of whole processes. Measured once: `leaks` of a million rows, 23.4 s (of 100,000, 2.4).",
    )


def _inflated(path: Path) -> int:
    with archive.open(path) as opened:
        return sum(record.size for record in opened.records.values())


def with_archives(folder: Path) -> Iterator[Table | Aim]:
    """Verbs on folders of small archives."""
    paths = release_archives()
    smallest = min(paths, key=lambda path: path.stat().st_size)
    rows: list[tuple[object, ...]] = []
    for verb, counts in ARCHIVES.items():
        spans = []
        for count in counts:
            with TemporaryDirectory(dir=folder) as place:
                for at in range(count):
                    path = smallest if verb == "digest" else paths[at % len(paths)]
                    shutil.copyfile(path, Path(place) / f"{at:05}{path.suffix}")
                spans.append(costs([*COMMAND, verb, place])[0])
        growth = exponent(spans[-2], spans[-1], (counts[-2], counts[-1]))
        cells = [f"{span:.2f} s" for span in spans] + [""] * (len(ARCHIVES["digest"]) - len(spans))
        rows.append((f"`{verb}`", *cells, f"{growth:.2f}"))
        between = f"{number(counts[-2])} to {number(counts[-1])} archives"
        yield Aim(f"`{verb}`, growth from {between}", growth, GROWTH, "")
    headings = ("verb", *(f"{number(count)} archives" for count in ARCHIVES["digest"]), "growth")
    size = smallest.stat().st_size
    note = (
        f"`verify` reads those of all releases in turn, `digest` the smallest one, {size:,} bytes. "
        "Measured once: `digest` of 10,000, 27.4 s (of 1,000, 3.5)."
    )
    yield Table("Cost as folders grow", headings, rows, note)


def measure(folder: Path) -> Iterator[Table | Aim]:
    """With rows, and with archives."""
    yield from with_rows(folder / "models")
    yield from with_archives(folder)
