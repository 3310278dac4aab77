"""README and the pages under ``docs/``: run what they show, and compare or rewrite its output.

python -m tools.pages [PAGE ...]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
DECISIONS = ROOT / "docs" / "decisions"
"""The folder of pages for developers: they show no output."""
PAGES = (
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent != DECISIONS),
)
TIME = {"SOURCE_DATE_EPOCH": "1760000000"}
"""The time at which pages are run: a store notes it, and its bytes differ by it."""
BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)


def blocks(text: str) -> list[str]:
    """The ``console`` blocks of a page."""
    return BLOCK.findall(text)


def typed(command: str, folder: Path, given: bytes = b"") -> bytes:
    """What a command of a page prints, as a reader types it, with some bytes on standard input."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(  # noqa: S602 (a page's own commands)
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, **TIME, "PATH": path},
        input=given,
        check=True,
        capture_output=True,
    ).stdout


def rewritten(text: str, folder: Path, printed: Callable[[str, Path], bytes] = typed) -> str:
    """A page with true output. Its commands run one after the other.

    Args:
        text: of the page.
        folder: an empty one, where the commands run; they find ``fixtures`` and ``examples`` there.
        printed: what a command prints in the folder.
    """

    def run(block: str) -> str:
        commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
        return "".join(f"$ {command}\n{shown(printed(command, folder))}" for command in commands)

    def shown(output: bytes) -> str:
        lines = [line.rstrip() for line in output.decode().splitlines()]  # Markdown shows no blanks at ends
        return "".join(f"{line}\n" for line in lines)

    for name in ("fixtures", "examples"):
        (folder / name).symlink_to(ROOT / name)
    return BLOCK.sub(lambda match: run(match[1]), text)


def main(pages: list[Path]) -> None:
    """Rewrite pages."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            text = page.read_text(encoding="utf-8")
            page.write_text(rewritten(text, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="all, if none is given")
    main([page.resolve(strict=True) for page in parser.parse_args().pages] or list(PAGES))
