"""Fuzz the library: changed records, zips, companions and logs, each read as the library reads them.

    python -m tools.fuzz --seconds 60                  all targets, a minute each
    python -m tools.fuzz ranges handles --runs 100000
    python -m tools.fuzz --seed 7 container            other inputs
    python -m tools.fuzz --corpus build/fuzz log       changes what `make fuzz` found, too

Every line is a target's name, executions, executions a second, the share of inputs that were read, and its
findings, whose inputs are kept under ``tests/fuzz/found``. See docs/explanation/fuzzing.md.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

from tests.fuzz.running import ALL_TARGETS, FOUND, TARGETS, keep, run
from tests.fuzz.targets import Target

MEMORY = 1 << 30
"""Bytes that a target may take, beyond what its imports take: no input is longer than a few KB."""


def main() -> int:
    """Run the targets one after the other; 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(ALL_TARGETS))
    parser.add_argument("--runs", type=int, default=sys.maxsize, help="executions of each target")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of CPU for each target")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--corpus", type=Path, help="a folder with one folder of further inputs a target")
    parser.add_argument("--keep", type=Path, default=FOUND, help="the folder for inputs that break something")
    arguments = parser.parse_args()
    bound_memory(MEMORY)
    found = 0
    for name in arguments.targets or TARGETS:
        target = with_corpus(ALL_TARGETS[name], arguments.corpus and arguments.corpus / name)
        outcome = run(target, f"{name} {arguments.seed}", runs=arguments.runs, seconds=arguments.seconds)
        share = outcome.accepted / outcome.runs
        print(f"{name}\t{outcome.runs}\t{outcome.rate:.0f}/s\t{share:.0%}\t{len(outcome.findings)}")
        for problem, data in outcome.findings.items():
            print(f"  {problem}: {keep(name, data, arguments.keep)}")
        sys.stdout.flush()
        found += len(outcome.findings)
    return min(found, 1)


def with_corpus(target: Target, folder: Path | None) -> Target:
    """The target with the inputs of a folder among its seeds, if there is one."""
    if folder is None or not folder.is_dir():
        return target
    more = [path.read_bytes() for path in folder.iterdir()]
    return Target(target.run, lambda: [*target.seeds, *more], target.mutate)


def bound_memory(more: int) -> None:
    """Let this process grow by so many bytes, and no more."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, hard))


if __name__ == "__main__":
    sys.exit(main())
