"""Measure what small files cost: those that ask for the most by the fewest bytes, by every command.

    python -m tools.costs --seconds 300                    drawn at random
    python -m tools.costs --all --times 1000000            every case by every command
    python -m tools.costs 'entries' --command inspect      cases whose names hold a word

Every line is a case, a command, the repetitions, the file's size, the memory, CPU and output that it took,
the exit status, and by how much that is above the budget. See docs/explanation/fuzzing.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import TYPE_CHECKING

from tests.costs.cases import CASES, COMMANDS, task, warm
from tests.costs.measuring import Budget, Measurer

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


def main() -> int:
    """Measure; 1 if a budget was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="of the cases' names")
    parser.add_argument("--all", action="store_true", help="every case by every command")
    parser.add_argument("--command", choices=COMMANDS, action="append", help="these commands alone")
    parser.add_argument("--times", type=int, default=1 << 20, help="bytes to repeat at most, once inflated")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--every", action="store_true", help="print what stays below its budget, too")
    arguments = parser.parse_args()
    names = [name for name in CASES if all(word in name for word in arguments.words)]
    commands = arguments.command or list(COMMANDS)
    drawn: Iterator[tuple[str, str, int]] = (
        (name, command, arguments.times) for name in names for command in commands
    )
    if not (arguments.all or arguments.words):
        drawn = _drawn(Random(arguments.seed), names, commands, arguments.times)  # noqa: S311 (no secret)
    start, above, runs = time.monotonic(), 0, 0
    with Measurer(warm()) as measurer:
        for name, command, times in drawn:
            above += _measure(measurer, name, command, times, every=arguments.every)
            runs += 1
            if time.monotonic() - start > arguments.seconds:
                break
    print(f"{runs} runs, {above} above their budget")
    return min(above, 1)


def _drawn(
    chance: Random, names: list[str], commands: list[str], most: int
) -> Iterator[tuple[str, str, int]]:
    """Cases, commands and repetitions at random: as many small numbers as large ones."""
    while True:
        yield chance.choice(names), chance.choice(commands), max(1, most >> chance.randrange(12))


def _measure(measurer: Measurer, name: str, command: str, times: int, *, every: bool) -> bool:
    """Measure a case, and print its line; whether it is above its budget."""
    asked = task(command, CASES[name](times))
    cost = measurer.cost(asked)
    problem = Budget.of(asked.size).exceeded(cost)
    if problem or every:
        figures = f"{cost.memory / MIB:.0f} MiB\t{cost.loops:.0f} loops\t{cost.printed / MIB:.1f} MiB out"
        said = problem or cost.said.strip().replace("\n", " ")[-100:]
        print(f"{name}\t{command}\t{times}\t{asked.size} B\t{figures}\t{cost.status}\t{said}", flush=True)
    return bool(problem)


if __name__ == "__main__":
    sys.exit(main())
