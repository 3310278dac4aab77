"""Plans which files a batch reads and writes, and checks the plan before anything is written."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, several
from archive.base.quick_dataclass import dataclass
from archive.batches.inputs import (
    KNOWN_KINDS,
    MANIFEST_NAME,
    InputFile,
    OtherFiles,
    is_false_model,
    names_several,
    other_files,
    recognised,
)
from archive.io import places
from archive.io.output import STANDARD_OUTPUT as OUTPUT_NAME
from archive.io.urls import name_of
from archive.reader.recognition import ARCHIVE_KINDS, FileKind, listed_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from archive.io.places import Fingerprint

COMPANION_SUFFIX = ".ptdbg"
"""Added to an archive's name for its companion beside it."""
MANIFEST_SUFFIX = ".jsonl"
"""The end of a manifest's name, so that no model is mistaken for one."""
STANDARD_OUTPUT = "-"
"""The target that stands for standard output."""


class CompanionUse(Enum):
    """Whether a verb reads companions of archives or in them, writes them, or neither."""

    NONE = auto()
    READ = auto()
    EMBEDDED = auto()
    WRITTEN = auto()


class KnownTargets(NamedTuple):
    """What a manifest says of a job's targets.

    Attributes:
        targets: the files that were written; None for a target that is not in its line.
        is_whole: whether its line names no other files.
        exact: whether the file comes back from them to the byte.
    """

    verb: str
    options: Mapping[str, Any]
    sources: tuple[Fingerprint, ...]
    targets: tuple[Fingerprint | None, ...]
    is_whole: bool
    clean: bool = True
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Job(InputFile):
    """The paths of one file's work.

    Attributes:
        companion: the second input or output, as ``use`` says.
        streamed: whether the output is written to standard output; ``out`` is its name then.
        known: what the manifest says of the targets; None where it has no line about the input.
    """

    known: KnownTargets | None = None
    out: str = ""
    companion: str = ""
    use: CompanionUse = CompanionUse.NONE
    streamed: bool = False

    @property
    def sources(self) -> list[str]:
        """The files that are read."""
        return [self.name, self.companion] if self.use is CompanionUse.READ else [self.name]

    @property
    def targets(self) -> list[str]:
        """The files that are written."""
        return [self.out, self.companion] if self.use is CompanionUse.WRITTEN else [self.out]

    def absolute(self) -> Job:
        """The same with absolute paths, for processes that work in another folder."""
        name, out, companion = map(places.absolute, (self.name, self.out, self.companion))
        return replace(self, name=name, out=out, companion=companion)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """All that a batch has to do.

    Attributes:
        manifest: the file in which the outcomes are noted; "" of a single file, whose outcome is not.
        others: the files in folders that the command does not take.
        model_bytes: the bytes of those that are models.
    """

    jobs: list[Job]
    many: bool
    manifest: str
    others: OtherFiles
    model_bytes: int = 0


def plan(
    inputs: Sequence[str],
    out: str,
    companion: str | None = None,
    use: CompanionUse = CompanionUse.NONE,
    wanted: Collection[FileKind] = ARCHIVE_KINDS,
    *,
    manifest: str | None = None,
    mapped: bool = True,
    several: bool = False,
) -> FilePlan:
    """Plan the work on files, folders and globs.

    Args:
        inputs: files, and folders and globs to search.
        out: the target of a single file, or ``-`` for standard output; a folder for several files, or if it
            exists or ends with a slash.
        companion: the same for companions. Those that are written need it where ``out`` is a folder, which
            may be one to ship; the others are beside the archives without debug info by default.
        use: whether companions are read or written.
        wanted: the kinds of files that are taken from folders, recognised by content.
        manifest: the file in which the outcomes are noted. By default it lies with the companions that are
            written, and where none are, beside the folder ``out``, with its name.
        mapped: whether files are mapped to recognise them.
        several: whether ``out`` is a folder even for a single file.
    """
    if "" in (*inputs, out, companion, manifest):
        raise ArchiveError(expected="a path", found="an empty one")
    many = several or len(inputs) > 1 or names_several(inputs[0])
    streamed = out == STANDARD_OUTPUT
    if streamed and (many or use is CompanionUse.WRITTEN):
        raise ArchiveError("takes one file, and several are written", file=OUTPUT_NAME)
    folders = [folder for folder in (out, companion) if folder is not None]
    for folder in folders if many else ():
        if not places.is_folder(folder) and places.exists(folder):
            raise ArchiveError("is a file; several inputs need a folder", file=name_of(folder))
    if use is CompanionUse.WRITTEN and companion is None and _names_folder(out, many=many):
        own = shlex.quote(name_of(places.beside(out, "-companions/") or "companions/"))
        raise ArchiveError(
            f"companions must not be written next to the archives you ship; name another folder: -c {own}",
            file=name_of(out),
            in_python="companions=…",
        )
    noted_in = _manifest(manifest, out, companion if use is CompanionUse.WRITTEN else None, many=many)

    def is_wanted(kind: FileKind) -> bool:
        """Flatbuffers are models that are shipped, too: each gets an outcome."""
        return kind in wanted or (kind is FileKind.FLATBUFFER and ARCHIVE_KINDS.issubset(wanted))

    # Targets may lie in a searched folder; what an earlier run wrote there isn't an input.
    files, others = recognised(inputs, folders, is_wanted, mapped=mapped)
    jobs = []
    for file in files:
        target = OUTPUT_NAME if streamed else _target(out, file.relative, many=many)
        debug = (file.name if use is CompanionUse.READ else target) + COMPANION_SUFFIX
        if companion is not None:
            debug = _target(companion, file.relative + COMPANION_SUFFIX, many=many)
        job = Job(file.name, file.relative, file.searched, None, target, debug, use, streamed)
        jobs.append(job)
    planned = FilePlan(jobs, many, noted_in, others.without(KNOWN_KINDS), others.model_bytes)
    _check_jobs(planned, inputs, wanted, others, mapped=mapped)
    return planned


def _names_folder(path: str, *, many: bool) -> bool:
    return many or path.endswith(("/", os.sep)) or places.is_folder(path)


def _target(path: str, name: str, *, many: bool) -> str:
    """The path itself, or if it names a folder, the name below it."""
    return places.joined(path, name) if _names_folder(path, many=many) else path


def _manifest(given: str | None, out: str, companions: str | None, *, many: bool) -> str:
    """The path of the manifest, which is not in the folder that is shipped unless that is asked for."""
    if given is not None:
        if not many:
            raise ArchiveError("--manifest needs several input files", file=name_of(given))
        if not given.endswith(MANIFEST_SUFFIX):
            raise ArchiveError(expected=f"a manifest, FILE{MANIFEST_SUFFIX}", found=name_of(given))
        return given
    if not many:
        return ""
    if companions is not None:
        return places.joined(companions, MANIFEST_NAME)
    usual = places.beside(out, f".{MANIFEST_NAME}")
    if not usual:
        raise ArchiveError(
            "there is no place for a manifest beside it; name one: --manifest FILE.jsonl",
            file=name_of(out),
            in_python="manifest=…",
        )
    return usual


def _check_jobs(
    planned: FilePlan,
    inputs: Sequence[str],
    wanted: Collection[FileKind],
    others: Mapping[FileKind, int],
    *,
    mapped: bool,
) -> None:
    """Refuse a plan in which there is nothing to do, or something would be overwritten."""
    jobs, where = planned.jobs, ", ".join(map(name_of, inputs))
    if not jobs:
        what = "archive" if ARCHIVE_KINDS.issubset(wanted) else " or ".join(sorted(wanted))
        raise ArchiveError(f"no {what} in it{other_files(others)}", file=where)
    if all(
        job.searched and job.use is CompanionUse.READ and not places.exists(job.companion) for job in jobs
    ):
        kinds = {job.label: listed_kind(job.name, mapped=mapped) for job in jobs}
        false = [file for file, kind in kinds.items() if kind is not None and is_false_model(file, kind)]
        named = f"; should be models, and aren't: {several(false)}" if false else ""
        raise ArchiveError(f"no archive with a companion in it{named}", file=where)
    manifest = planned.manifest
    read = {places.resolved(path) for job in jobs for path in job.sources}
    if manifest and places.resolved(manifest) in read:
        raise ArchiveError("is an input, and the manifest's name; nothing is written", file=name_of(manifest))
    written: dict[str, str] = {}
    for job in jobs:
        for target in () if job.streamed else job.targets:
            place = places.resolved(target)
            if place in read:
                raise ArchiveError("is an input, too; nothing is written", file=name_of(target))
            if manifest and place == places.resolved(manifest):
                raise ArchiveError("is the manifest's name; nothing is written", file=name_of(target))
            if place in written:
                files = " and ".join(dict.fromkeys((written[place], job.name)))
                twins = written[place] != job.name
                way_out = "; a folder above both keeps their names apart" if twins else ""
                raise ArchiveError(
                    f"would be written twice, for {files}; nothing is written{way_out}", file=name_of(target)
                )
            written[place] = job.name
