"""Files, folders and globs, as a command is given them, → the files that they name, each once."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError, several
from archive.base.limits import DEFAULT_LIMITS
from archive.base.quick_dataclass import dataclass
from archive.formats.tensor_files.hugging_face import read_index
from archive.io import places
from archive.io.globs import Globs
from archive.io.mapped import by_ranges, source_of
from archive.io.places import absolute, folder_of, is_folder, joined, last_part, resolved
from archive.io.urls import is_url, name_of
from archive.reader.recognition import ARCHIVE_KINDS, OPENED_KINDS, FileKind, listed_kind
from archive.reader.recognition.kinds import claims, claims_falsely

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Self

KNOWN_KINDS = {*ARCHIVE_KINDS, FileKind.COMPANION}
"""The kinds of files of this tool. A command that takes some of them skips the others without a note."""
LARGEST_INDEX = 1 << 25
"""Bytes of the largest remote index of shards that is read to find them."""
MANIFEST_NAME = "manifest.jsonl"
"""A manifest's name among companions, and how it ends beside a folder of results."""


def is_manifest(name: str) -> bool:
    """Whether a file is a manifest, by its name."""
    return name == MANIFEST_NAME or name.endswith(f".{MANIFEST_NAME}")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is read, given itself or found.

    Attributes:
        name: its path, as given or found.
        relative: its path below the folder that was searched; its last part where it was given itself.
        searched: whether it was found, by a folder or a glob, or given itself.
        known: what a manifest says about it.
    """

    name: str
    relative: str
    searched: bool = False
    known: Any = None

    @property
    def label(self) -> str:
        """Its path for messages: of a URL, without what may be secret."""
        return name_of(self.name)

    @property
    def targets(self) -> list[str]:
        """The files that are written."""
        return []

    def in_folder(self, folder: str) -> str | None:
        """The file of the same relative path in another folder; None where there is none."""
        path = joined(folder, self.relative)
        return path if places.exists(path) else None

    def absolute(self) -> Self:
        """The same with absolute paths, for processes that work in another folder."""
        return replace(self, name=absolute(self.name))


class OtherFiles(Counter[FileKind]):
    """The numbers of files that a command does not take, by their kind.

    Attributes:
        model_bytes: the bytes of those that are models, in folders of this machine.
        claiming: those whose names claim that they are models, each with its kind.
    """

    model_bytes = 0

    def __init__(self) -> None:
        super().__init__()
        self.claiming: list[tuple[str, FileKind]] = []

    def __str__(self) -> str:
        """How many there are, of each kind; those that are named like models are named."""
        named = [name for name, _ in self.claiming]
        return counts(self) + (f"; named like models: {several(named)}" if named else "")

    def without(self, kinds: Collection[FileKind]) -> OtherFiles:
        """The files of other kinds than these; their bytes are not counted again."""
        left = OtherFiles()
        left.update({kind: count for kind, count in self.items() if kind not in kinds})
        left.claiming = [(name, kind) for name, kind in self.claiming if kind not in kinds]
        return left

    def add_all(self, others: OtherFiles) -> None:
        """Count the files of another search, too."""
        self.update(others)
        self.claiming += others.claiming
        self.model_bytes += others.model_bytes

    def add(self, file: InputFile, kind: FileKind) -> None:
        """Count a file."""
        self[kind] += 1
        if claims(file.name):
            self.claiming.append((file.label, kind))
        if kind in OPENED_KINDS and not is_url(file.name):
            with suppress(OSError):  # gone in the meantime
                self.model_bytes += os.path.getsize(file.name)  # noqa: PTH202 (start-up)


def recognised(
    inputs: Iterable[str], skipped: Iterable[str], is_wanted: Callable[[FileKind], bool], *, mapped: bool
) -> tuple[list[InputFile], OtherFiles]:
    """The files that are given, and those in folders and of globs that are of a wanted kind.

    Others that should be models are taken, too: reading them is an error.

    Returns:
        The files, without the shards of models whose index is among them, but with each index, whatever
        others name; and how many others there are of each kind, manifests excluded.
    """
    files: list[InputFile] = []
    others = OtherFiles()
    shards, indices = set[str](), set[str]()
    for file in found(inputs, {resolved(folder) for folder in skipped}):
        kind = listed_kind(file.name, mapped=mapped) if file.searched else None
        if kind is None or is_wanted(kind) or is_false_model(file.name, kind):
            files.append(file)
            if kind is FileKind.SHARDED:
                shards |= shards_of(file.name, mapped=mapped)
                indices.add(absolute(file.name))
        else:
            if kind is FileKind.SAVED:  # only what is counted is worth a look
                kind = listed_kind(file.name, mapped=mapped, look=True) or kind
            if not is_manifest(last_part(file.name)):
                others.add(file, kind)
    shards -= indices
    return [file for file in files if not file.searched or absolute(file.name) not in shards], others


def is_false_model(file: str, kind: FileKind) -> bool:
    """Whether a file of a folder should be a model and isn't one; only files are opened."""
    return claims_falsely(file, kind) and (is_url(file) or os.path.isfile(file))  # noqa: PTH113 (start-up)


def shards_of(index: str, *, mapped: bool) -> set[str]:
    """The places of the files that an index names; none where it is broken, which opening it will report."""
    try:
        with (
            closing(by_ranges(source_of(index, mapped=mapped), most=LARGEST_INDEX)) as file,
            memory.charged(DEFAULT_LIMITS.allowance(file.weight)),
        ):
            names = read_index(file.data[:]).shards
    except (ArchiveError, OSError):
        return set()
    return {absolute(joined(folder_of(index), name)) for name in names}


def found(inputs: Iterable[str], skipped: Collection[str] = ()) -> Iterator[InputFile]:
    """The files that are given, and those in folders and of globs, sorted folder by folder.

    A glob is a path with ``*``, ``?`` or ``[``, unless a file has that very name; or a URL with ``*``. ``**``
    stands for any folders.
    A file that is named twice is found once, and counts as given itself if it was. Links to folders are not
    followed, since they may lead in circles: a search of a folder yields the link itself.
    """
    inputs = list(inputs)
    known, given_itself = set[str](), {absolute(given) for given in inputs if not is_glob(given)}
    for given in inputs:
        others = given_itself - {absolute(given)}  # an empty folder, which is listed itself, is searched
        for file in _matching(given, skipped) if is_glob(given) else _below(given, skipped):
            place = absolute(file.name)  # two links to one file are two files
            if place not in known:
                known.add(place)
                yield replace(file, searched=False) if place in others else file


def is_glob(given: str) -> bool:
    """Whether an input is a pattern and not a file of that name."""
    if is_url(given):
        return "*" in given.partition("?")[0]
    return has_magic(given) and not os.path.lexists(given)


def names_several(given: str) -> bool:
    """Whether an input may stand for several files."""
    return is_glob(given) or is_folder(given)


def _matching(pattern: str, skipped: Collection[str]) -> Iterator[InputFile]:
    """The files that a glob names, and those in folders that it names."""
    if is_url(pattern):
        yield from _elsewhere(pattern, list(places.matching(pattern)), skipped)
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
            for file in _below(match, skipped):
                relative = Path(os.path.relpath(file.name, fixed)).as_posix()
                yield replace(file, relative=relative, searched=True)


def _below(top: str, skipped: Collection[str]) -> Iterator[InputFile]:
    """A file itself, or the files in a folder; the folder itself where it has none, for messages."""
    if not is_folder(top):
        yield InputFile(top, last_part(top), searched=False)
        return
    if is_url(top):
        yield from _elsewhere(top, list(places.below(top)), skipped)
        return

    def refuse(error: OSError) -> None:
        raise error

    is_empty = True
    for parent, folders, names in os.walk(top, onerror=refuse):
        searched = sorted(name for name in folders if resolved(Path(parent, name)) not in skipped)
        is_empty &= len(searched) == len(folders)
        folders[:] = searched
        links = [name for name in folders if Path(parent, name).is_symlink()]  # walk does not follow them
        for file in (Path(parent, name) for name in sorted([*names, *links])):
            is_empty = False
            yield InputFile(str(file), file.relative_to(top).as_posix(), searched=True)
    if is_empty:
        yield InputFile(top, last_part(top), searched=True)


def _elsewhere(given: str, files: Sequence[tuple[str, str]], skipped: Collection[str]) -> Iterator[InputFile]:
    """The files that a URL stands for."""
    if not files:
        raise ArchiveError("nothing matches" if is_glob(given) else "no file is there", file=name_of(given))
    for file, relative in files:
        top = file.removesuffix(relative)
        inner = (folder for folder in skipped if folder.startswith(top))
        if not any(file.startswith(f"{folder}/") for folder in inner):
            yield InputFile(file, relative, searched=True)


def counts(others: Mapping[FileKind, int]) -> str:
    """The number of files, and of each kind."""
    kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(others.items()))
    return f"{sum(others.values()):,} ({kinds})"


def other_files(others: Mapping[FileKind, int]) -> str:
    """What a message adds where nothing is found that is wanted: the other files, if there are some."""
    files: dict[FileKind, int] = {
        kind: count for kind, count in others.items() if count and kind is not FileKind.EMPTY_FOLDER
    }
    return f", but other files: {counts(files)}" if files else ""
