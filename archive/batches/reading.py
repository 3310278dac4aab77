"""Facts about many files: files, folders and globs → the files, and what is read of each, in their order."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.batches.inputs import (
    OtherFiles,
    found,
    is_manifest,
    names_several,
    other_files,
    recognised,
    shards_of,
)
from archive.batches.outcome import Outcome, OutcomeKind, outcomes
from archive.io.places import absolute, last_part
from archive.io.urls import is_url, name_of
from archive.reader.recognition import listed_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence

    from archive.batches.inputs import InputFile
    from archive.batches.outcome import Reading
    from archive.reader.recognition import FileKind

FactsT = TypeVar("FactsT")
INDEX_ENDING = ".index.json"
"""How the name of an index of shards ends."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files to read.

    Attributes:
        files: each once, in the order of the input; those of a folder sorted.
        searched: whether all are from folders that were searched.
        others: the files in folders that the command does not take.
    """

    files: list[InputFile]
    searched: bool
    others: OtherFiles


def listing(
    inputs: Sequence[str],
    kinds: Collection[FileKind],
    skipped: Collection[str] = (),
    *,
    mapped: bool = True,
) -> FoundFiles:
    """The files that are given, and those of some kinds in folders and of globs."""
    if "" in inputs:
        raise ArchiveError(expected="a path", found="an empty one")
    files, others = recognised(inputs, skipped, kinds.__contains__, mapped=mapped)
    if not files:
        where = ", ".join(map(name_of, inputs))
        raise ArchiveError(f"no file in it that this command takes{other_files(others)}", file=where)
    return FoundFiles(files, all(map(names_several, inputs)), others)


def found_files(inputs: Sequence[str], *, mapped: bool = True) -> FoundFiles:
    """The files that are given, and all in folders and of globs but manifests and shards.

    Only indexes of shards are opened, known by the name that Hugging Face's libraries give them. Others that
    are counted are empty folders, links to folders, pipes and the like, which are never opened.
    """
    files = [file for file in found(inputs) if not file.searched or not is_manifest(last_part(file.name))]
    indexes = [file.name for file in files if file.relative.endswith(INDEX_ENDING)]
    shards = {shard for index in indexes for shard in shards_of(index, mapped=mapped)}
    files = [file for file in files if not file.searched or absolute(file.name) not in shards]
    no_files = [file for file in files if file.searched and not is_url(file.name) and _is_no_file(file.name)]
    skipped = set(no_files)
    files = [file for file in files if file not in skipped]
    others = OtherFiles()
    for file in no_files:
        if (kind := listed_kind(file.name)) is not None:
            others.add(file, kind)
    if not files:
        raise ArchiveError(f"no file in it{other_files(others)}", file=", ".join(map(name_of, inputs)))
    return FoundFiles(files, all(map(names_several, inputs)), others)


def _is_no_file(path: str) -> bool:
    """Whether something is there that isn't a file; a broken link is an error of whoever opens it."""
    place = Path(path)
    return place.exists() and not place.is_file()


def readings(
    read: Callable[[InputFile], FactsT], files: Sequence[InputFile], workers: int
) -> Generator[Reading[FactsT]]:
    """Read files in a pool of processes: :func:`archive.batches.outcome.outcomes`."""
    return outcomes(partial(_read, read), files, workers)


def _read(read: Callable[[InputFile], FactsT], file: InputFile) -> Reading[FactsT]:
    return Outcome(file, OutcomeKind.DONE, facts=read(file))
