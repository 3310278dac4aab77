"""Commands as new processes, from start to end, against a process that imports numpy."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from tools.bench.measuring import COMMAND, Aim, Table, in_turn, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "oracles/plain_stack.ptl"
COMMANDS = {
    "symbolicate FILE 1445": 1.0,
    "inspect FILE": 1.2,
    "verify FILE": 1.2,
    "leaks FILE": 1.2,
    "digest FILE": 1.2,
    "--help": 0.3,
}
"""Commands and their goals, in the time of ``import numpy``."""
WHY = {
    "symbolicate FILE 1445": "construct takes 0.1 of it, NumPy with one thread 0.65 to 0.85, and all tables "
    "are columns: small archives without NumPy would need a second reader of each format. Tried: dataclasses "
    "whose methods are not compiled (12 % less), click imported without looking for garbage (2 %), "
    "`__init__` compiled when it is first called (0.5 %, left)",
    "leaks FILE": "its patterns, which are compiled when it runs, take 23 ms",
    "--help": "`import click` is three quarters of it. Tried: no garbage looked for meanwhile (5 % less), no "
    "`shutil` for the width (4 %), no `signal` and `mmap` (3 %)",
}
"""Why goals are missed, and what was tried."""
ROUNDS = 12
IMPORTS = "import zipfile, mmap, struct, re, json"


def measure(_: Path) -> Iterator[Table | Aim]:
    """Each command, in turn with its peers."""
    words = [[FILE if word == "FILE" else word for word in command.split()] for command in COMMANDS]
    ways = [partial(run, *COMMAND, *command, statuses=(0, 1)) for command in words]
    peers = [partial(run, sys.executable, "-c", text) for text in ("import numpy", IMPORTS, "")]
    numpy, library, empty, *times = in_turn(*peers, *ways, rounds=ROUNDS)
    rows = [
        (f"`{text}`", f"{seconds * 1e3:.0f} ms", f"{seconds / numpy:.2f}x")
        for text, seconds in (
            ("python -c ''", empty),
            (IMPORTS, library),
            ("import numpy", numpy),
            *(
                (f"debug-archive {command}", seconds)
                for command, seconds in zip(COMMANDS, times, strict=True)
            ),
        )
    ]
    yield Table("Cold commands", ("a new process", "CPU", "of `import numpy`"), rows, f"FILE is `{FILE}`.")
    for (command, goal), seconds in zip(COMMANDS.items(), times, strict=True):
        what = f"`{command}`, a new process, in `import numpy`"
        yield Aim(what, seconds / numpy, goal, "x", reason=WHY.get(command, ""))
