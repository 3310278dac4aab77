"""Files, folders and globs, as a command is given them, → the files that they name, each once."""

from __future__ import annotations

import os
import re
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.base.globs import Globs
from archive.base.urls import is_url, name_of
from archive.batches import elsewhere
from archive.batches.places import absolute, is_folder, last_part, resolved
from archive.reader.recognition import ARCHIVE_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

KNOWN_KINDS = {*ARCHIVE_KINDS, FileKind.COMPANION}
"""The kinds of files of this tool. A command that takes some of them skips the others without a note."""


class Input(NamedTuple):
    """A file that was found.

    Attributes:
        file: its path.
        name: its path below the folder that was searched; its last part where it was given itself.
        searched: whether it was found, by a folder or a glob, or given itself.
    """

    file: str
    name: str
    searched: bool


def found(inputs: Iterable[str], skipped: Collection[str] = ()) -> Iterator[Input]:
    """The files that are given, and those in folders and of globs, sorted folder by folder.

    A glob is a path with ``*``, ``?`` or ``[``, unless a file has that very name; or a URL with ``*``. ``**``
    stands for any folders.
    A file that is named twice is found once, and counts as given itself if it was. Links to folders are not
    followed, for they may lead in circles: a search of a folder yields the link itself.

    Args:
        inputs: files, folders to search, and globs.
        skipped: folders that are not searched, without links.

    Raises:
        ArchiveError: nothing matches a glob.
        OSError: a folder cannot be read.
    """
    inputs = list(inputs)
    known, named = set[str](), {absolute(given) for given in inputs if not is_glob(given)}
    for given in inputs:
        others = named - {absolute(given)}  # an empty folder is found by its own name
        for one in _matching(given, skipped) if is_glob(given) else _below(given, skipped):
            place = absolute(one.file)  # two links to one file are two files
            if place not in known:
                known.add(place)
                yield one._replace(searched=False) if place in others else one


def is_glob(given: str) -> bool:
    """Whether an input is a pattern and not a file of that name."""
    if is_url(given):
        return "*" in given.partition("?")[0]
    return has_magic(given) and not os.path.lexists(given)


def names_several(given: str) -> bool:
    """Whether an input may stand for several files."""
    return is_glob(given) or is_folder(given)


def _matching(pattern: str, skipped: Collection[str]) -> Iterator[Input]:
    """The files that a glob names, and those in folders that it names.

    Raises:
        ArchiveError: there are none.
    """
    if is_url(pattern):
        yield from _elsewhere(pattern, list(elsewhere.matching(pattern)), skipped)
        return
    parts = Path(pattern).parts
    first = next(place for place, part in enumerate(parts) if has_magic(part))
    fixed = Path(*parts[:first])
    before = os.path.dirname(re.split(r"[*?[]", pattern, maxsplit=1)[0])  # noqa: PTH120 (a Path would lose "./")
    globs = Globs([parts[first:]], as_shell=True)
    matches = sorted(match for match, _ in globs.found(before))
    if pattern.endswith(os.sep):
        matches = [match for match in matches if is_folder(match)]
    if not matches:
        raise ArchiveError("nothing matches", file=pattern)
    top = Path(resolved(fixed))
    inner = [folder for folder in skipped if top in Path(folder).parents]  # others are not searched into
    for match in matches:
        if not any(Path(resolved(match)).is_relative_to(folder) for folder in inner):
            for one in _below(match, skipped):
                yield one._replace(name=os.path.relpath(one.file, fixed), searched=True)


def _below(top: str, skipped: Collection[str]) -> Iterator[Input]:
    """A file itself, or the files in a folder; the folder where it has none, so that it is told."""
    if not is_folder(top):
        yield Input(top, last_part(top), searched=False)
        return
    if is_url(top):
        yield from _elsewhere(top, list(elsewhere.below(top)), skipped)
        return
    is_empty = True
    for parent, folders, names in os.walk(top, onerror=_refuse):
        searched = sorted(name for name in folders if resolved(Path(parent, name)) not in skipped)
        is_empty &= len(searched) == len(folders)
        folders[:] = searched
        links = [name for name in folders if Path(parent, name).is_symlink()]  # walk does not follow them
        for file in (Path(parent, name) for name in sorted([*names, *links])):
            is_empty = False
            yield Input(str(file), str(file.relative_to(top)), searched=True)
    if is_empty:
        yield Input(top, last_part(top), searched=True)


def _elsewhere(given: str, files: Sequence[tuple[str, str]], skipped: Collection[str]) -> Iterator[Input]:
    """The files that a URL stands for.

    Raises:
        ArchiveError: there are none.
    """
    if not files:
        raise ArchiveError("nothing matches" if is_glob(given) else "no file is there", file=name_of(given))
    for file, relative in files:
        top = file.removesuffix(relative)
        inner = (folder for folder in skipped if folder.startswith(top))
        if not any(file.startswith(f"{folder}/") for folder in inner):
            yield Input(file, relative, searched=True)


def told(others: Mapping[FileKind, int]) -> str:
    """The number of files, and of each kind."""
    kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(others.items()))
    return f"{sum(others.values()):,} ({kinds})"


def other_files(others: Mapping[FileKind, int]) -> str:
    """What a message adds where nothing is found that is wanted: the other files, if there are some."""
    files: dict[FileKind, int] = {
        kind: count for kind, count in others.items() if count and kind is not FileKind.EMPTY_FOLDER
    }
    return f", but other files: {told(files)}" if files else ""


def _refuse(error: OSError) -> None:
    raise error
