"""Fuzz one target, guided by the branches that its inputs reach; needs atheris (the extra ``fuzz``).

    python -m tools.fuzz_guided ranges 60      for a minute

Inputs are changed by the target's own mutations and by libFuzzer's, in turn. The corpus starts with the
target's seeds, and is kept under ``build/fuzz``; an input that breaks something is written to the folder of
findings, and ends the run with status 1. See docs/explanation/fuzzing.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["archive"], enable_loader_override=False):
    from tests.fuzz.mutations import LONGEST
    from tests.fuzz.running import ALL_TARGETS, attempt, keep

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.targets import Target

CORPUS = Path("build/fuzz")
MEMORY_MB = 1536


def main() -> None:
    """Run one target; the process ends with it."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    target, corpus = ALL_TARGETS[name], CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-rss_limit_mb={MEMORY_MB}",
        "-timeout=20",
        "-print_final_stats=1",
    ]
    atheris.Setup(
        [sys.argv[0], *options, str(corpus)], execution(name, target), custom_mutator=mutator(target)
    )
    atheris.Fuzz()


def execution(name: str, target: Target) -> Callable[[bytes], None]:
    """A function that runs the target on an input."""

    def run(data: bytes) -> None:
        problem = attempt(target, data)[1]
        if problem:
            print(f"{problem}: {keep(name, data)}", flush=True)
            raise SystemExit(1)

    return run


def mutator(target: Target) -> Callable[[bytes, int, int], bytes]:
    """A function that changes an input, to at most so many bytes."""

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        chance = Random(seed)  # noqa: S311 (no secret)
        if data and chance.randrange(3):
            return target.mutate(chance, data)[:longest]
        changed: bytes = atheris.Mutate(data, longest)
        return changed

    return mutate


if __name__ == "__main__":
    main()
