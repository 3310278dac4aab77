"""Make ``fixtures/fleet``: the companions of three models, and 200 failures of theirs in one stream.

    python -m tools.make_fleet FOLDER

``NAME.ptdbg`` is a model's companion; ``failures.json`` has for each failure the model, PyTorch's text with
unique handles and with the original ones, and its text where the debug info is at hand. ``unique.log`` and
``plain.log`` are the former two as an application logs them. Each model runs in a process of its own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.failures.models.three_models import NAMES

SEED = 7


def main(folder: Path) -> None:
    """Write the fixtures."""
    failures = []
    with tempfile.TemporaryDirectory() as made:
        for name in NAMES:
            command = [sys.executable, "-W", "ignore", "-m", "tests.failures.models.three_models", made, name]
            subprocess.run(command, check=True)  # noqa: S603 (our own)
            (folder / f"{name}.ptdbg").write_bytes((Path(made) / f"{name}.ptdbg").read_bytes())
            texts = json.loads((Path(made) / f"{name}.json").read_text("utf-8"))
            failures += [
                {"model": name, "unique": unique, "plain": plain, "explained": explained}
                for unique, plain, explained in texts
            ]
    random.Random(SEED).shuffle(failures)  # noqa: S311 (no secret)
    (folder / "failures.json").write_text(json.dumps(failures, indent=1) + "\n", "utf-8")
    for form in ("unique", "plain"):
        text = "".join(f"INFO running {one['model']}\nERROR {one[form]}\n" for one in failures)
        (folder / f"{form}.log").write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
