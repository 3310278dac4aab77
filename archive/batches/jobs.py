"""Plans which files a command reads and writes, and checks the plan before anything is written."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.mapped import source_of
from archive.base.output import STANDARD_OUTPUT as OUTPUT_NAME
from archive.batches.inputs import KNOWN_KINDS, found, resolved, told
from archive.container.container import Container
from archive.formats.record_kinds import EMBEDDED
from archive.reader.recognition import ARCHIVE_KINDS, FileKind, listed_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

COMPANION_SUFFIX = ".ptdbg"
"""Added to an archive's name for its companion beside it."""
STANDARD_OUTPUT = "-"
"""The target that stands for standard output."""


class Use(Enum):
    """Whether a command reads companions of archives or in them, writes them, or neither."""

    NONE = auto()
    READ = auto()
    EMBEDDED = auto()
    WRITTEN = auto()


@dataclass(frozen=True, slots=True)
class Job:
    """The paths of one file's work.

    Attributes:
        file: the input.
        out: the output.
        companion: the second input or output, as ``use`` says.
        use: whether the companion is read or written.
        replaces: whether existing targets may be replaced even without ``--force``.
        streamed: whether the output is written to standard output; ``out`` is its name then.
        mapped: whether the files that are read are mapped.
    """

    file: Path
    out: Path
    companion: Path
    use: Use
    replaces: bool = False
    streamed: bool = False
    mapped: bool = True

    @property
    def sources(self) -> list[Path]:
        """The files that are read."""
        return [self.file, self.companion] if self.use is Use.READ else [self.file]

    @property
    def targets(self) -> list[Path]:
        """The files that are written."""
        if self.streamed:
            return []
        return [self.out, self.companion] if self.use is Use.WRITTEN else [self.out]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """All that a command has to do.

    Attributes:
        jobs: one job a file.
        many: whether several files or a folder were given.
        left_out: the number of archives in folders without the companion that is to be read.
        use: whether companions are read or written.
        others: the numbers of files in folders that are neither archives nor companions, by their kind.
    """

    jobs: list[Job]
    many: bool
    left_out: int
    others: Mapping[FileKind, int]
    use: Use = Use.NONE

    @property
    def lacking(self) -> str:
        """What the archives that are left out lack."""
        return "an embedded companion" if self.use is Use.EMBEDDED else "a companion"


def plan(
    inputs: Sequence[str],
    out: str,
    companion: str | None = None,
    use: Use = Use.NONE,
    wanted: Collection[FileKind] = ARCHIVE_KINDS,
    *,
    mapped: bool = True,
) -> FilePlan:
    """Plan the work on files and folders.

    Args:
        inputs: files, and folders to search.
        out: the target of a single file, or ``-`` for standard output; a folder for several files, or if it
            exists or ends with a slash.
        companion: the same for companions. By default they are beside the archives without debug info.
        use: whether companions are read or written.
        wanted: the kinds of files that are taken from folders, recognised by content.
        mapped: whether files are mapped, already to recognise them.

    Raises:
        ArchiveError: there is nothing to do, a file is where a folder is needed, or a target would overwrite
            an input or another target.
        OSError: a folder cannot be read.
    """
    if "" in (*inputs, out, companion):
        raise ArchiveError(expected="a path", found="an empty one")
    many = len(inputs) > 1 or Path(inputs[0]).is_dir()
    streamed = out == STANDARD_OUTPUT
    if streamed and (many or use is Use.WRITTEN):
        raise ArchiveError("takes one file, and several are written", file=OUTPUT_NAME)
    folders = [Path(folder) for folder in (out, companion) if folder is not None]
    if many:
        _check_folders(folders)
    jobs, left_out, others = [], 0, Counter[FileKind]()
    # Targets may lie in a searched folder; what an earlier run wrote there is no input.
    for file, relative, searched in found(inputs, {resolved(folder) for folder in folders}):
        kind = listed_kind(file, mapped=mapped) if searched else None
        if kind is not None and kind not in wanted:
            others[kind] += kind not in KNOWN_KINDS
            continue
        target = Path(OUTPUT_NAME) if streamed else _target(out, relative, many=many)
        debug = _companion_of(file if use is Use.READ else target)
        if companion is not None:
            debug = _target(companion, _companion_of(relative), many=many)
        if searched and _lacks_companion(file, debug, use, mapped=mapped):
            left_out += 1
        else:
            jobs.append(Job(file, target, debug, use, streamed=streamed, mapped=mapped))
    planned = FilePlan(jobs, many, left_out, +others, use)
    if not jobs:
        what = "archive" if wanted is ARCHIVE_KINDS else "companion"
        which = f" with {planned.lacking}" if use in (Use.READ, Use.EMBEDDED) else ""
        beside = f", but other files: {told(others)}" if others else ""
        raise ArchiveError(f"no {what}{which} in it{beside}", file=", ".join(inputs))
    _check_targets(jobs)
    return planned


def _lacks_companion(file: Path, companion: Path, use: Use, *, mapped: bool) -> bool:
    """Whether an archive in a folder lacks the companion that is to be read; False if that cannot be told."""
    if use is not Use.EMBEDDED:
        return use is Use.READ and not companion.exists()
    try:
        with Container.open(source_of(file, mapped=mapped)) as container:
            return EMBEDDED not in container.records
    except (ArchiveError, OSError):  # its job will report that
        return False


def _target(path: str, relative: Path, *, many: bool) -> Path:
    """The path itself, or if it names a folder, the relative path below it."""
    folder = many or path.endswith(("/", os.sep)) or Path(path).is_dir()
    return Path(path, relative) if folder else Path(path)


def _companion_of(path: Path) -> Path:
    """The companion's path beside an archive."""
    return path.with_name(path.name + COMPANION_SUFFIX)


def _check_folders(folders: Sequence[Path]) -> None:
    """Refuse a file where a folder is needed.

    Raises:
        ArchiveError: one of these paths is a file.
    """
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise ArchiveError("is a file; several inputs need a folder", file=str(folder))


def _check_targets(jobs: Sequence[Job]) -> None:
    """Refuse targets that would overwrite an input or one another.

    Raises:
        ArchiveError: one would.
    """
    inputs = {resolved(path) for job in jobs for path in job.sources}
    written: dict[Path, Path] = {}
    for job in jobs:
        for target in job.targets:
            place = resolved(target)
            if place in inputs:
                raise ArchiveError("is an input, too; nothing is written", file=str(target))
            if place in written:
                files = " and ".join(dict.fromkeys(map(str, (written[place], job.file))))
                raise ArchiveError(
                    f"would be written twice, for {files}; nothing is written", file=str(target)
                )
            written[place] = job.file
