"""Writes two files in processes that are killed: forks of a small process, as those of a test's take longer.

python -m tests.io.killed SYSTEM FOLDER FORCE ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from archive.io.output import replacing_all
from tests.support.faults import deaths, system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORCE = "force"


def write_two(folder: Path, force: bool, meanwhile: Callable[[], object] = lambda: None) -> None:  # noqa: FBT001
    """Write two files together."""
    with replacing_all(folder / "first", folder / "second", force=force) as files:
        for file in files:
            file.write(b"new")
        meanwhile()


def _all_deaths() -> Iterator[list[dict[str, str]]]:
    """The deaths on each system, by its name, a folder, and whether files are replaced."""
    for kind, at, force in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True):
        folder = Path(at)
        with system(kind):
            yield list(deaths(lambda: write_two(folder, force == FORCE), folder))  # noqa: B023


if __name__ == "__main__":
    json.dump(list(_all_deaths()), sys.stdout)
