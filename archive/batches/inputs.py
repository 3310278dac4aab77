"""Files and folders, as a command is given them, → the files in them, each by its kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archive.reader.recognition import ARCHIVE_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

KNOWN_KINDS = {*ARCHIVE_KINDS, FileKind.COMPANION}
"""The kinds of files of this tool. A command that takes some of them skips the others without a note."""


class Input(NamedTuple):
    """A file that was found.

    Attributes:
        file: its path.
        relative: its path below the folder that was searched; its name where it was given itself.
        searched: whether a folder was searched for it.
    """

    file: Path
    relative: Path
    searched: bool


def found(inputs: Sequence[str], skipped: Collection[Path] = ()) -> Iterator[Input]:
    """The files that are given and those in folders, sorted folder by folder.

    Args:
        inputs: files, and folders to search.
        skipped: folders that are not searched, without links.

    Raises:
        OSError: a folder cannot be read.
    """
    for top in map(Path, inputs):
        if not top.is_dir():
            yield Input(top, Path(top.name), searched=False)
            continue
        for parent, folders, names in os.walk(top, onerror=_refuse):
            folders[:] = sorted(name for name in folders if resolved(Path(parent, name)) not in skipped)
            for file in (Path(parent, name) for name in sorted(names)):
                yield Input(file, file.relative_to(top), searched=True)


def told(others: Mapping[FileKind, int]) -> str:
    """The number of files, and of each kind."""
    kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(others.items()))
    return f"{sum(others.values()):,} ({kinds})"


def resolved(path: Path) -> Path:
    """The path without links. Links that lead in a circle stay: whatever opens the path names them."""
    return Path(os.path.realpath(path))


def _refuse(error: OSError) -> None:
    raise error
