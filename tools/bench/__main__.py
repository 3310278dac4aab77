"""The measurements that support the claims, each beside a peer of the same run, and beside its aim.

    python -m tools.bench                        every part, as Markdown
    python -m tools.bench cold logs              some
    python -m tools.bench --quick                those that take a minute together
    python -m tools.bench --write BENCHMARKS.md  every part; the page is made of this one run
    python -m tools.bench much                   the sizes of notes that were measured once: an hour

A part is a module of this folder. It runs in a process of its own, so that none is slowed by what another has
imported; two at a time, but those that only a quiet machine measures well. Models are kept in
``build/bench`` for the next run, all else that parts make for the other parts of this run. The last table is
of all aims. Exit status 1: a part failed.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import platform
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from tools.bench.measuring import ROOT, Aim, Measured, Table, aims_table, measured_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTS = {
    "cold": "commands as new processes",
    "logs": "logs without failures, and failures a second",
    "service": "failures explained where they happen, and all other records",
    "small": "each verb on small archives",
    "large": "all verbs on a large model, beside `torch.jit.load`",
    "tensors": "`diff` and `digest` of large checkpoints",
    "effects": "effects: capturing, replaying, sizes",
    "growth": "time and memory as archives and folders grow",
    "inside": "growth with tensors, records of code, failures, models of a store, archives of a folder",
    "sizes": "how small files become",
    "exported": "exported programs",
    "shares": "shares of the memory that is allowed",
    "records": "decoding, encoding, copies",
    "stores": "what a store takes, on the disk and in time",
    "values": "`run`: what each operation computes, beside the plain run",
    "lowering": "lowering and running",
    "leaks": "the search of `leaks`, and of the proof of `redact`",
}
ONCE = {"much": "growth at ten times the sizes of `growth` and `inside`, only where it is named: an hour"}
QUICK = ("cold", "logs", "small")
ALONE = ("cold", "logs", "service", "small", "large", "tensors", "effects")
"""Parts beside which none runs: by the clock, in threads, in milliseconds and less."""
FOLDER = ROOT / "build" / "bench"
MODELS = FOLDER / "models"
BUILDERS = ("models.py", "repeated.py", "team_releases.py")
"""Files of ``tools`` that build the models."""
HEAD = """# Benchmarks

`make bench` writes this page: everything below is from one run{of}. {length} Times are of the
processor. Peers ran in turn with what is measured. "missed" stands beside each aim that was not reached.
`make bench-quick` prints the first parts in a minute, `python -m tools.bench PART` one part. Models are built
on the spot (`tools/models.py`): traced BERT- and GPT-like models of 12 layers, a ResNet-50-like one, a
scripted `nn.TransformerEncoder` of 48 layers, traced fx graphs of 1 k to 100 k source-range rows, and ten
times the last one in one method. Sizes are in bytes."""


def measured(parts: Sequence[str]) -> Iterator[Measured]:
    """What each part measures, those first that run alone; its seconds go to standard error."""
    context = multiprocessing.get_context("spawn")
    for workers, are_alone in ((1, True), (2, False)):
        some = [part for part in parts if (part in ALONE) == are_alone]
        with ProcessPoolExecutor(workers, context, max_tasks_per_child=1) as pool:
            for one in pool.map(measured_by, some, repeat(FOLDER)):
                print(f"{one.part}: {one.seconds:.0f} s", one.error, file=sys.stderr)
                yield one


def shown(parts: Sequence[str], done: list[Measured]) -> Iterator[str]:
    """The tables of parts, which are noted as done, and that of all aims."""
    for one in measured(parts):
        done.append(one)
        yield from (f"\n{result}" for result in one.results if isinstance(result, Table))
    yield f"\n{aims_table([result for one in done for result in one.results if isinstance(result, Aim)])}"


def clear() -> None:
    """Leave of earlier runs nothing but models, and these only if they would be built the same again."""
    stamp = MODELS / "built-by"
    sources = [(ROOT / "tools" / name).read_bytes() for name in BUILDERS]
    key = hashlib.sha256(b"".join([*sources, torch.__version__.encode()])).hexdigest()
    are_current = stamp.exists() and stamp.read_text() == key
    for path in FOLDER.glob("*"):
        if path.is_file():
            path.unlink()
        elif path != MODELS or not are_current:
            shutil.rmtree(path)
    MODELS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)


def length(seconds: float, done: Sequence[Measured]) -> str:
    """How long the run took, by the clock: all of it, and each part."""
    minutes, left = divmod(round(seconds), 60)
    each = ", ".join(f"{one.part} {one.seconds:.0f}" for one in done)
    alone = f"{', '.join(ALONE[:-1])} and {ALONE[-1]}"
    return (
        f"It took {minutes} min {left} s, models included; in seconds: {each}. All but {alone} ran two at a "
        "time."
    )


def machine() -> str:
    """What the run was made on, as far as it matters to others."""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}"
    return f", on {os.cpu_count()} cores, with {versions}"


def main() -> int:
    """Measure and print, or write the page."""
    listed = "\n".join(f"  {name:10}{what}" for name, what in (PARTS | ONCE).items())
    parser = argparse.ArgumentParser(
        description="The measurements that support the claims.",
        epilog=f"parts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--quick", action="store_true", help=f"the parts {', '.join(QUICK)}")
    parser.add_argument("--write", type=Path, help="the page that is written, of all parts")
    asked = parser.parse_args()
    if unknown := [part for part in asked.parts if part not in PARTS | ONCE]:
        parser.error(f"no such part: {', '.join(unknown)}")
    parts = [] if asked.write else asked.parts or (QUICK if asked.quick else [])
    clear()
    start = time.monotonic()
    done, texts = list[Measured](), list[str]()
    for text in shown(parts or list(PARTS), done):
        print(text, flush=True)
        texts.append(text)
    took = length(time.monotonic() - start, done)
    print(f"\n{took}")
    failed = any(one.error for one in done)
    if asked.write and not failed:
        head = HEAD.format(of=machine(), length=took)
        asked.write.write_text("\n".join([head, *texts, ""]), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
