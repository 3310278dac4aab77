"""Freeze files of our own formats: split with its companion, embedded, kept aside, the manifest of a batch.

    python -m tools.make_frozen            write fixtures/frozen/v4 and list it in MANIFEST.tsv
    python -m tools.make_frozen FOLDER     write the same files elsewhere, to look at

The folder's number is the version of companions, which embedded and kept-aside records are. While the folder
exists, nothing is done: later versions must read what is frozen.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import archive
from archive.companion.layout import VERSION
from tools import manifest

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FROZEN = FIXTURES / "frozen" / f"v{VERSION}"
EMBEDDED = (
    "releases/torch-1.9.0/nested.ptl",  # inline rows, call stacks of three elements
    "releases/torch-2.13.0/lowered-host.ptl",  # string tables, delegated source ranges
    "oracles/plain_two_methods.pt",  # TorchScript alone
)
EXPORTED = (
    "exported/choice_strict.pt2",  # conditions inside of conditions
    "exported/decoder_decomposed.pt2",  # layers that share their instances
)
SPLIT = EMBEDDED + EXPORTED
MIGRATED = {
    "releases/torch-1.8.0/nested.ptl": "2.13",  # pair rows, module paths
    "releases/torch-1.9.0/nested.ptl": "2.13",  # other rows, other call stacks
    "releases/torch-2.13.0/traced.ptl": "1.9",  # a lossy way
}
BATCH = {
    "a/old.ptl": "releases/torch-1.9.0/nested.ptl",  # migrated
    "new.ptl": "releases/torch-2.13.0/nested.ptl",  # unchanged
    "refused.pt": "releases/torch-1.2.0/consts.pt",  # a failure: nothing later reads its module tree
}
TARGET = "2.13"


def frozen_name(name: str) -> str:
    """``torch-1.9.0_nested.ptl``, of the archive's path below the fixtures."""
    path = Path(name)
    return f"{path.parent.name}_{path.name}"


def batch_inputs(folder: Path) -> Path:
    """The folder that the batch migrates, made anew."""
    for name, fixture in BATCH.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(FIXTURES / fixture, folder / name)
    return folder


def _write_batch(out: Path) -> None:
    """Migrate a folder; one file of it cannot be."""
    with TemporaryDirectory() as made:
        models = batch_inputs(Path(made) / "models")
        words = ["migrate", models.name, "-o", "out", "--to", TARGET, "-j", "1"]
        command = [sys.executable, "-m", "archive", *words, "--manifest", "out/manifest.jsonl"]
        done = subprocess.run(command, cwd=made, check=False, capture_output=True)  # noqa: S603 (our own command)
        assert done.returncode == 1, done.stderr
        shutil.copytree(Path(made) / "out", out)


def write(folder: Path) -> list[Path]:
    """All files, below a new folder."""
    for name in ("split", "embedded", "migrated"):
        (folder / name).mkdir(parents=True)
    for name in SPLIT:
        split = folder / "split" / frozen_name(name)
        archive.split(FIXTURES / name, split, split.with_name(f"{split.name}.ptdbg"))
    for name in EMBEDDED:
        archive.shrink(FIXTURES / name, folder / "embedded" / frozen_name(name), level="embed")
    for name, release in MIGRATED.items():
        archive.migrate(FIXTURES / name, folder / "migrated" / frozen_name(name), to=release, lossy=True)
    _write_batch(folder / "batch")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main() -> int:
    """Run the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FROZEN
    if folder.exists():
        print(f"{folder} is there already, and what is frozen stays as it is", file=sys.stderr)
        return 1
    for path in write(folder):
        print(f"{path.stat().st_size:>8,}  {path.relative_to(folder)}")
    if folder == FROZEN:
        (FIXTURES / manifest.NAME).write_text(manifest.to_table(manifest.rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
