"""The measurements that support the claims, each beside a peer of the same run, and beside its aim.

    python -m tools.bench                        every part, as Markdown
    python -m tools.bench cold logs              some
    python -m tools.bench --quick                those that take a minute together
    python -m tools.bench --write BENCHMARKS.md  every part; the page is made of this one run

A part is a module of this folder. It runs in a process of its own, so that none is slowed by what another has
imported; models that it builds are kept in ``build/bench``. The last table is of all aims. Exit status 1: a
part failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from tools.bench.measuring import ROOT, Aim, Table, aims_table, measured_by

PARTS = {
    "cold": "commands as new processes",
    "logs": "logs without failures, and failures a second",
    "service": "failures explained where they happen, and all other records",
    "small": "each verb on small archives",
    "growth": "time and memory as archives and folders grow",
    "inside": "growth with tensors, records of code, failures, models of a store, archives of a folder",
    "sizes": "how small files become",
    "records": "decoding, encoding, copies",
    "leaks": "the search of `leaks`, and of the proof of `redact`",
    "large": "all verbs on a large model, beside `torch.jit.load`",
    "tensors": "`diff` and `digest` of large checkpoints",
    "stores": "what a store takes, on the disk and in time",
    "lowering": "lowering and running",
    "values": "`run`: what each operation computes, beside the plain run",
    "effects": "effects: capturing, replaying, sizes",
    "exported": "exported programs",
    "shares": "shares of the memory that is allowed",
}
QUICK = ("cold", "logs", "small")
FOLDER = ROOT / "build" / "bench"
HEAD = """# Benchmarks

`make bench` writes this page: everything below is from one run{of}. Times are of the processor. Peers ran
in turn with what is measured. "missed" stands beside each aim that was not reached. `make bench-quick`
prints the first parts in a minute, `python -m tools.bench PART` one part. Models are built on the spot
(`tools/models.py`): traced BERT- and GPT-like models of 12 layers, a ResNet-50-like one, a scripted
`nn.TransformerEncoder` of 48 layers, traced fx graphs of 1 k to 100 k source-range rows, and ten times the
last one in one method. Sizes are in bytes.
"""


def measured(parts: list[str], out: TextIO) -> int:
    """Run parts and print their tables, then the aims; the number of parts that fail."""
    aims: list[Aim] = []
    spans: dict[str, float] = {}
    failed = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        for part in parts:
            start = time.monotonic()
            results, error = pool.submit(measured_by, part, FOLDER).result()
            aims += [result for result in results if isinstance(result, Aim)]
            for table in (result for result in results if isinstance(result, Table)):
                print(f"\n{table}", file=out, flush=True)
            spans[part] = time.monotonic() - start
            print(f"{part}: {spans[part]:.0f} s", error, file=sys.stderr)
            failed += bool(error)
    print(f"\n{length(spans)}\n\n{aims_table(aims)}", file=out)
    return failed


def length(spans: dict[str, float]) -> str:
    """How long the run took, by the clock: of all parts, and of each."""
    minutes, seconds = divmod(round(sum(spans.values())), 60)
    each = ", ".join(f"{part} {span:.0f}" for part, span in spans.items())
    return f"The run took {minutes} min {seconds} s, models included; in seconds: {each}."


def machine() -> str:
    """What the run was made on, as far as it matters to others."""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}"
    return f", on {os.cpu_count()} cores, with {versions}"


def main() -> int:
    """Measure and print, or write."""
    listed = "\n".join(f"  {name:10}{what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        description="The measurements that support the claims.",
        epilog=f"parts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--quick", action="store_true", help=f"the parts {', '.join(QUICK)}")
    parser.add_argument("--write", type=Path, help="the page that is written, of all parts")
    asked = parser.parse_args()
    if unknown := [part for part in asked.parts if part not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    if asked.write is None:
        return int(measured(asked.parts or list(QUICK if asked.quick else PARTS), sys.stdout) > 0)
    page = FOLDER / "page.md"
    with page.open("w", encoding="utf-8") as out:
        out.write(HEAD.format(of=machine()))
        failed = measured(list(PARTS), out)
    if not failed:
        asked.write.write_bytes(page.read_bytes())
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
