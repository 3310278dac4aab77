"""``docs/reference/attacks.md``: what becomes of ``tests/attacks`` here, in PyTorch and in scanners.

    python -m tools.attack_table                    measures this project again; keeps the other columns
    python -m tools.attack_table SCANNERS/bin/python   measures PyTorch and the scanners instead

The second form needs PyTorch, and an environment with the extra ``scanners``. ``docs/reference/attacks.tsv``
keeps what was measured; the page is made of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.attacks.attack import MARKER, MIB, problems
from tests.attacks.catalogue import ATTACKS, GROUPS
from tests.attacks.not_yet import NOT_YET
from tests.attacks.running import Runner, run_attack
from tools.attack_peers import TORCH, WAYS
from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.attacks.attack import Attack
    from tests.attacks.running import Outcome

DATA, PAGE = ROOT / "docs" / "reference" / "attacks.tsv", ROOT / "docs" / "reference" / "attacks.md"
COLUMNS = ("attack", "here", *WAYS)
HEAD = """\
# Attacks

Programs in `tests/attacks` build each of these files by hand and run the commands on them. The columns after
*here* were measured with PyTorch 2.13.0, picklescan 1.0.5, modelscan 0.8.8 and fickling 0.1.12, by
`python -m tools.attack_table`.

- *here*: how the commands ended (well, with findings, refused), the most memory above the start-up's, the
  most CPU time of one command, on a machine that takes 4 ms for 200,000 rounds of a loop. A file may take
  64 MiB and 256 times its size. **succeeds** marks attacks that take more, or end in another way;
  `tests/attacks/not_yet.py` says why.
- *torch.jit.load*, *lite interpreter*, *torch.load* (with `weights_only=False`): **runs it** where the
  payload ran; memory where it is above 64 MiB; a crash is named by its signal.
- *picklescan*, *modelscan*, *fickling*: whether a scanner flags a file, passes it, or fails; `-`: no file for
  it. Several words are of several files: of the containers, `m.pt` is a model without a payload, and `w.pt`
  holds one. Records, logs and texts hold none. fickling flags every model of TorchScript, honest ones too.
"""
NO_FILE = "-"
SUCCEEDS = "**succeeds**"
STATUSES = {0: "well", 1: "findings", 2: "refused"}
SIZES = (4, 16, 64, 256, 1024, 4096)
"""Classes of memory, in MiB."""
LOOP_SECONDS = 0.004
"""Of CPU, for the loop of :mod:`tests.support.cost`: of the machine whose seconds the page shows."""
TIMES = (1, 3, 12)
"""Classes of CPU time, in seconds."""


def here(attack: Attack, files: dict[str, bytes], outcomes: Sequence[Outcome]) -> str:
    """The cell of this project: statuses of the commands, and classes of the most memory and time."""
    if any(problems(attack, files, one) for one in outcomes):
        return SUCCEEDS
    memory = _class(max(one.memory for one in outcomes) / MIB, SIZES)
    seconds = _class(LOOP_SECONDS * max(one.loops for one in outcomes), TIMES)
    return f"{statuses(one.status for one in outcomes)}; ≤ {memory} MiB; ≤ {seconds} s"


def statuses(found: Iterable[int]) -> str:
    """What commands ended with, in words."""
    return ", ".join(STATUSES[one] for one in sorted(set(found)))


def _class(value: float, bounds: Sequence[int]) -> int:
    return next(bound for bound in bounds if value <= bound)


def measured_here() -> dict[str, str]:
    """Attack → cell."""
    cells = {}
    with Runner() as runner, tempfile.TemporaryDirectory() as folder:
        runner.calibrate(_made(Path(folder) / "calibration"))
        for number, (name, attack) in enumerate(ATTACKS.items()):
            if name in NOT_YET:
                cells[name] = SUCCEEDS
                continue
            files = attack.files()
            outcomes = [
                one for _, one in run_attack(runner, attack, files, _made(Path(folder) / str(number)))
            ]
            cells[name] = here(attack, files, outcomes)
            print(name, cells[name], file=sys.stderr)
    return cells


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def measured_peers(way: str, python: str) -> dict[str, str]:
    """Attack → cell of a loader or scanner, which the interpreter ``python`` has."""
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(folder) / str(number) for number, name in enumerate(ATTACKS)}
        files = {name: _files(attack.files(), places[name]) for name, attack in ATTACKS.items()}
        answers = iter(_answers(way, python, [path for paths in files.values() for path in paths]))
        return {
            name: _cell([next(answers) for _ in paths], ran=(places[name] / MARKER).exists())
            for name, paths in files.items()
        }


def _files(files: dict[str, bytes], folder: Path) -> list[Path]:
    """Write an attack's files, and return those for PyTorch and scanners: none where a companion attacks."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    if any(name.endswith(".ptdbg") for name in files):
        return []
    return [folder / name for name in files if name.endswith((".pt", ".ptl"))]


def _answers(way: str, python: str, paths: list[Path]) -> list[tuple[str, int]]:
    """A word and the bytes of memory for each file."""
    command = [python, "-m", "tools.attack_peers", way, *map(str, paths)]
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines()]


def _cell(answers: list[tuple[str, int]], *, ran: bool) -> str:
    """All that a loader or scanner makes of an attack's files."""
    if not answers:
        return NO_FILE
    memory = max(size for _, size in answers) // MIB
    said = ", ".join(dict.fromkeys(word for word, _ in answers))
    return "; ".join(["**runs it**"] * ran + [said] + [f"{memory:,} MiB"] * (memory > SIZES[2]))


def read() -> dict[str, dict[str, str]]:
    """Attack → column → cell, as written before."""
    if not DATA.exists():
        return {}
    head, *lines = (line.split("\t") for line in DATA.read_text("utf-8").splitlines())
    return {line[0]: dict(zip(head, line, strict=True)) for line in lines}


def written(rows: dict[str, dict[str, str]]) -> str:
    """The text of the data."""
    lines = [COLUMNS, *([name, *(rows[name].get(one, NO_FILE) for one in COLUMNS[1:])] for name in ATTACKS)]
    return "".join("\t".join(line) + "\n" for line in lines)


def table(rows: dict[str, dict[str, str]]) -> str:
    """The page's tables, one a group of attacks."""
    parts = []
    for group, attacks in GROUPS.items():
        lines = [["attack", *COLUMNS[1:]], ["---"] * len(COLUMNS)]
        lines += [
            [f"**{name}**: {attack.says}", *(rows[name].get(one, NO_FILE) for one in COLUMNS[1:])]
            for name, attack in attacks.items()
        ]
        parts.append(f"\n## {group}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "".join(parts)


def main(scanners: Sequence[str]) -> None:
    """Measure, and write both files."""
    rows = {name: {"attack": name, **read().get(name, {})} for name in ATTACKS}
    for column in WAYS if scanners else ("here",):
        for name, cell in _column(column, scanners).items():
            rows[name][column] = cell
        DATA.write_text(written(rows), "utf-8")  # after each: a way may take minutes
        PAGE.write_text(HEAD + table(rows), "utf-8")


def _column(column: str, scanners: Sequence[str]) -> dict[str, str]:
    """Attack → cell of a column, measured now."""
    if column == "here":
        return measured_here()
    return measured_peers(column, sys.executable if column in TORCH else scanners[0])


if __name__ == "__main__":
    main(sys.argv[1:])
