"""The tables of models in ``docs/reference/lowered.md``: what lowers, and what its files do in stock PyTorch.

    python -m tools.lowering_table [MODEL…]     measures all models, or some, on one core
    python -m tools.lowering_table --page       makes the page of what was measured

``docs/reference/lowered.tsv`` keeps what was measured, with the version of the package. Models of packages
that are not installed are skipped, and their rows stay as they are: torchvision 0.28.0, torchaudio 2.11.0,
timm 1.0.31 and transformers 5.23.0 were installed beside PyTorch 2.13.0. ``tests/zoo`` has the models.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.zoo.catalogue import SAMPLES
from tests.zoo.measuring import Outcome, measured
from tools.model_data import YES, ModelData, Row, markdown, version_of

if TYPE_CHECKING:
    from tests.zoo.sample import Sample

CHECKS = ("lowers", "TorchScript", "lite", "line")
COLUMNS = ("model", "version", *CHECKS, "seconds", "memory", "size", "unlowered")
DATA = ModelData("reference/lowered", COLUMNS, SAMPLES)
MIB, KIB = 1 << 20, 1 << 10


def row_of(sample: Sample, version: str, outcome: Outcome) -> Row:
    """A row of the data."""
    found = (outcome.refusal, outcome.torchscript, outcome.lite, outcome.line)
    lowers = not outcome.refusal
    checks = [
        (one.splitlines() or [YES])[0] if lowers or place == 0 else "-" for place, one in enumerate(found)
    ]
    sizes = (f"{outcome.memory}", f"{outcome.size}", f"{outcome.unlowered}")
    values = (sample.name, version, *checks, f"{outcome.seconds:.2f}", *sizes)
    return dict(zip(COLUMNS, values, strict=True))


def tables(found: dict[str, Row]) -> str:
    """The tables, in Markdown, after a sentence with the sums."""
    kinds: dict[str, list[Row]] = {}
    for name, row in found.items():
        kinds.setdefault(SAMPLES[name].kind, []).append(row)
    sums = [sum(row[check] == YES for row in found.values()) for check in CHECKS]
    summary = f"Of {len(found)} models {sums[0]} lower; {sums[1]} compute the same in TorchScript, "
    summary += f"{sums[2]} in the lite interpreter; {sums[3]} fail at the model's line."
    lines = [["kind", "models", *CHECKS], ["---", *["---:"] * 5]]
    for kind, own in kinds.items():
        lines.append([kind, str(len(own)), *(str(sum(row[check] == YES for row in own)) for check in CHECKS)])
    head = ["model", "from", "as", *CHECKS, "seconds", "memory", "`.pt`", "unlowered"]
    models = [head, ["---", "---", "---", *["---"] * 4, *["---:"] * 4], *map(_line, found.values())]
    return f"{summary}\n\n{markdown(lines)}\n{markdown(models)}"


def _line(row: Row) -> list[str]:
    sample = SAMPLES[row["model"]]
    size, unlowered = (
        f"{int(row[name]) / KIB:,.0f} KiB" if row[name] != "0" else "-" for name in COLUMNS[-2:]
    )
    memory = f"{int(row['memory']) / MIB:,.0f} MiB"
    checks = [row[name] for name in CHECKS]
    origin = f"{sample.package} {row['version']}"
    return [sample.name, origin, sample.way, *checks, row["seconds"], memory, size, unlowered]


def measure(names: list[str]) -> dict[str, Outcome]:
    """Measure models in a process of their own."""
    command = [sys.executable, "-m", "tools.lowering_table", "--here", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (this tool)
    if done.returncode:
        raise SystemExit(f"{', '.join(names)}: {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: Outcome(**outcome) for name, outcome in found.items()}


def measure_all(names: list[str]) -> None:
    """Measure models, those of a kind together, and write the data."""
    found = DATA.rows()
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(SAMPLES[name].kind, []).append(name)
    for kind, own in kinds.items():
        version = version_of(SAMPLES[own[0]].package)
        if version is None:
            print(f"{kind}: skipped, {SAMPLES[own[0]].package} is not installed")
            continue
        for name, outcome in measure(own).items():
            found[name] = row_of(SAMPLES[name], version, outcome)
            print(*found[name].values(), flush=True)
        DATA.write(found)


def main(arguments: list[str]) -> None:
    """Measure what the command line names."""
    warnings.simplefilter("ignore")
    if arguments[:1] == ["--here"]:
        with tempfile.TemporaryDirectory() as folder:
            found = measured([SAMPLES[name] for name in arguments[1:]], Path(folder))
        print(json.dumps({name: asdict(outcome) for name, outcome in found.items()}))
        return
    if arguments != ["--page"]:
        measure_all(arguments or list(SAMPLES))
    DATA.rewrite(tables(DATA.rows()))


if __name__ == "__main__":
    main(sys.argv[1:])
