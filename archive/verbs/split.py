"""Debug information out of an archive into a companion file, and back.

What is left is the same model: it loads and runs in stock PyTorch, TorchScript and lite interpreter
alike, and has the same archive id. It is written slim: tensors aligned to 64 bytes, everything else
deflated and unpadded. A record of debug handles may stay, so that a failure on a device still names its
handles.

Joining gives every record back to the byte, stored or deflated as it was. The whole file is the same to
the byte, too, if it was laid out and deflated as PyTorch does it; that is tried when splitting, and kept
in the companion as the file's digest, which a join then checks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.output import check_target, replacing, replacing_all
from archive.companion.build import build_companion
from archive.companion.layout import CompanionProfile
from archive.container.container import Container, write_archive
from archive.formats import method_handles
from archive.formats.record_kinds import EMBEDDED, kind_of
from archive.reader import opening
from archive.reader.archive import Archive
from archive.reader.collect import collect
from archive.verbs.join import check_gives, joined_to, with_digest
from archive.verbs.loading import loaded_like
from archive.verbs.slim import slim_members, with_new_id

if TYPE_CHECKING:
    from typing import BinaryIO

    from archive.base.mapped import Source
    from archive.base.output import Target


@dataclass(frozen=True, slots=True)
class Split:
    """What a split made; sizes in bytes.

    Attributes:
        size: of the archive.
        out_size: of the archive without debug information.
        companion_size: of the companion.
        debug_size: what the debug records took in the archive, without zip overhead.
        kept: names of the debug records that stayed.
        exact: whether a join gives the whole file back to the byte; else its records alone.
        archive_id: what archive and companion know each other by, in hex.
        refused: what of PyTorch 2.13 refuses what is left by what is in its records, and with which words.
    """

    size: int
    out_size: int
    companion_size: int
    debug_size: int
    kept: tuple[str, ...]
    exact: bool
    archive_id: str
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """What a join made.

    Attributes:
        size: of the archive, in bytes.
        records: how many debug records came back.
        exact: whether the file is the one that was split, to the byte.
        archive_id: in hex.
    """

    size: int
    records: int
    exact: bool
    archive_id: str


def split(
    source: Source,
    out: Target,
    companion: Target,
    *,
    handles: Literal["keep", "drop"] | None = None,
    profile: CompanionProfile | str = CompanionProfile.PACKED,
    level: int = 9,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Split:
    """Take the debug information out of an archive.

    Args:
        source: the archive.
        out: where to write the archive without it.
        companion: where to write the debug information.
        handles: whether ``mobile_debug_handles.pkl`` stays in the archive, which is what a failure on a
            device needs to name its handles. By default it does where there is one.
        profile: of the companion: ``packed`` is small, ``mapped`` is opened in no time at any size.
        level: of zstd, 1 to 22.
        force: replace existing files.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the archive has no debug information, it cannot be read, ``handles`` is asked for where
            there are none, or a target exists.
        OSError: a file cannot be read or written; then no target has been touched.
    """
    for target in (out, companion):
        check_target(target, force=force)
    if os.path.abspath(out) == os.path.abspath(companion):  # noqa: PTH100 (links are no matter)
        raise ArchiveError("archive and companion need two names", file=os.fspath(out))
    with opening.open(source, limits=limits) as opened:
        check_archive(opened)
        records = opened.container.records
        kept = check_handles(opened, handles or "keep", asked=handles is not None)
        contents = with_digest(collect(opened), opened.container)
        members = with_new_id(slim_members(records, kept), records)
        data = build_companion(contents, profile_named(profile), level)
        with replacing_all(companion, out, force=force) as (companion_file, out_file):
            companion_file.write(data)
            size = write_archive(out_file, opened.root, members, slim=True)
            with Archive(Container.open(out_file, limits=limits, name=str(out)), limits) as left:
                check_gives(contents, memoryview(data), left.archive_id, limits)
                refused = tuple(one.told for one in loaded_like(left, opened))
        return Split(
            opened.size,
            size,
            len(data),
            sum(record.stored_size for name, record in records.items() if kind_of(name).is_debug),
            tuple(kept),
            "file.digest" in contents.columns,
            contents.archive_id.hex(),
            refused,
        )


def join(
    source: Source,
    companion: Source,
    out: Target,
    *,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Join:
    """Put debug information back into an archive.

    Args:
        source: the archive without it, as ``split`` left it.
        companion: the companion that ``split`` wrote.
        out: where to write the archive.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the companion is another model's, one of the files is broken, or the target exists.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    with (
        replacing(out, force=force) as file,
        opening.open(source, companion=companion, limits=limits) as opened,
    ):
        if EMBEDDED in opened.container.records:
            raise ArchiveError("has a companion of its own inside; `restore` it", file=opened.file)
        return rejoin(opened, file)


def rejoin(opened: Archive, file: BinaryIO) -> Join:
    """Write an archive and its companion as the one file that they were.

    Raises:
        ArchiveError: there is no companion, or it is broken.
    """
    companion = opened.companion
    if companion is None:
        raise ArchiveError(f"no embedded companion ({EMBEDDED}) in it", file=opened.file)
    size, exact = joined_to(file, opened.root, opened.container.records, companion.contents)
    return Join(size, len(companion.contents.records), bool(exact), companion.archive_id.hex())


def check_archive(opened: Archive) -> None:
    """Refuse what has its debug information in a companion already.

    Raises:
        ArchiveError: it is a companion, and the error says what that is for; or it has one inside.
    """
    if not opened.has_code:
        raise opened.recognised.refusal(opened.file)
    if opened.companion:
        raise ArchiveError("its debug info is in an embedded companion; `restore` it first", file=opened.file)


def check_handles(opened: Archive, handles: str, *, asked: bool) -> list[str]:
    """The debug records that stay in an archive.

    Args:
        opened: the archive.
        handles: ``keep`` or ``drop``.
        asked: whether that was asked for, and should not be passed over where there are none.

    Raises:
        ArchiveError: there are no handles to keep or drop.
    """
    there = method_handles.METHOD_HANDLES in opened.records
    if asked and not there:
        raise ArchiveError(
            f"has no debug handles to {handles}: there is no {method_handles.METHOD_HANDLES}",
            file=opened.file,
        )
    return [method_handles.METHOD_HANDLES] if there and handles == "keep" else []


def profile_named(profile: CompanionProfile | str) -> CompanionProfile:
    """A profile by its name.

    Raises:
        ArchiveError: there is none of that name.
    """
    if isinstance(profile, CompanionProfile):
        return profile
    names = [one.name.lower() for one in CompanionProfile]
    if profile not in names:
        raise ArchiveError(expected=f"a profile: {' or '.join(names)}", found=profile)
    return CompanionProfile[profile.upper()]
