"""Ask another PyTorch release what it makes of archives, in a folder of its own.

    python -m tools.other_release 1.9.0 --python python3.8 build/torch-1.9.0 model.ptl other.pt

installs the release into the folder, where it stays for the next time, loads each archive with it, and
prints ``loads`` or what it said. ``--python`` is an interpreter that the release has a wheel for: 3.6 to 3.9
for 1.8, 3.7 to 3.10 for 1.11, 3.8 to 3.11 for 2.0. Old wheels are large. No test needs this.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

LOAD = """
import sys
import torch
try:
    from torch.jit.mobile import _load_for_lite_interpreter as lite
except ImportError:
    lite = torch.jit.load
for path in sys.argv[1:]:
    try:
        (lite if path.endswith(".ptl") else torch.jit.load)(path)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        print("%s: %s" % (path, lines[0] if lines else type(error).__name__))
    else:
        print("%s: loads" % path)
"""


@click.command()
@click.argument("release")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("archives", nargs=-1, type=click.Path(exists=True))
@click.option("--python", default="python3", show_default=True, help="An interpreter that has a wheel of it.")
def command(release: str, folder: Path, archives: tuple[str, ...], python: str) -> None:
    """Install PyTorch RELEASE into FOLDER, and load ARCHIVES with it."""
    own = folder / "bin" / "python"
    if not (folder / f"torch-{release}").exists():
        _run(python, "-m", "venv", str(folder))
        old = tuple(map(int, release.split(".")[:2])) < (2, 3)
        _run(str(own), "-m", "pip", "install", "-q", f"torch=={release}", "numpy<2" if old else "numpy")
        (folder / f"torch-{release}").touch()
    if archives:
        _run(str(own), "-c", LOAD, *archives)


def _run(*words: str) -> None:
    if subprocess.run(words, check=False).returncode:  # noqa: S603 (the user's own interpreter and paths)
        sys.exit(f"{words[0]} failed; is {words[0]} an interpreter that this release has a wheel for?")


if __name__ == "__main__":
    command()
