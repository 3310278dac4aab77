"""``split`` moves the debug information of an archive into a companion file; ``join`` puts it back.

The archive without it is the same model: stock PyTorch, TorchScript and the lite interpreter alike, loads
and runs it, and its archive id is the same. It is written slim: tensors are aligned to 64 bytes, everything
else is deflated and unpadded. The record of debug handles may stay, so that a failure on a device still
names its handles, and by them its archive. In exported programs the stacks of modules stay, unless they are
dropped: ``torch.export.unflatten`` reads them. The companion has what stays, too.

A join gives every record back to the byte, stored or deflated as it was. If the archive was laid out and
deflated as PyTorch does it, the whole file is the same to the byte, too. A split tries that; if so, it keeps
the file's digest in the companion, and a join checks it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, ImpossibleError, NothingToDoError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped, unchanged
from archive.base.output import is_path, replacing, replacing_all
from archive.check.loading import loaded_like
from archive.companion.build import build_companion
from archive.companion.layout import CompanionProfile
from archive.container.container import Container, write_archive
from archive.formats.record_kinds import METHOD_HANDLES, kind_of, place_of_companion
from archive.reader import opening
from archive.reader.archive import Archive
from archive.reader.collect import check_debug_info, collect
from archive.reader.lacking import why_no_handles
from archive.reader.recognition import JOINED_KINDS, PROGRAM_KINDS, SPLIT_KINDS, FileKind
from archive.rewrite.handles import check_handles_left, kept_handles
from archive.rewrite.join import check_gives, joined_to, with_digest
from archive.rewrite.kinds import kept_kinds, left_in
from archive.rewrite.slim import slim_members, with_new_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import BinaryIO

    from archive.base.mapped import Source
    from archive.base.output import Sink
    from archive.rewrite.handles import HandleChoice


@dataclass(frozen=True, slots=True)
class Split:
    """The result of a split; sizes in bytes.

    Attributes:
        size: of the archive.
        out_size: of the archive without debug information.
        companion_size: of the companion.
        debug_size: stored bytes of the debug records in the archive, without zip overhead.
        kept: names of the debug records that stayed.
        kept_kinds: kinds of debug info that stayed in exported programs.
        whole: records of exported programs that stayed as they are: their JSON is not as PyTorch writes it.
        whole_objects: why shared objects stayed as they are, by name: a loader may need all of them.
        prefix: of the unique handles in them; 0 where handles are as PyTorch numbered them.
        largest: a handle with more than 8 digits, for which none became unique; else 0.
        no_handles: why failures of a lite archive name no debug handles on a device; "" where they do, and of
            other archives.
        exact: whether a join gives the whole file back to the byte, or its records alone.
        archive_id: the id that archive and companion have in common, in hex.
        refused: why PyTorch 2.13 refuses to load the archive as it is left: the loader and its message. Of
            exported programs, this is not known.
    """

    size: int
    out_size: int
    companion_size: int
    debug_size: int
    kept: tuple[str, ...]
    kept_kinds: tuple[str, ...]
    whole: tuple[str, ...]
    whole_objects: Mapping[str, str]
    prefix: int
    largest: int
    no_handles: str
    exact: bool
    archive_id: str
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """The result of a join.

    Attributes:
        size: of the archive, in bytes.
        records: how many debug records came back.
        programs: to how many exported programs their metadata came back.
        objects: to how many shared objects came back what stood behind their segments.
        exact: whether the file is the one that was split, to the byte.
        another: whether a join should have given that file, and gave another: the companion is of another
            file of the same model, or the archive was written anew since.
        archive_id: in hex.
    """

    size: int
    records: int
    programs: int
    objects: int
    exact: bool
    another: bool
    archive_id: str

    @property
    def is_clean(self) -> bool:
        """Whether nothing shows that the file is another one than was split."""
        return not self.another


@bounded
def split(
    source: Source,
    out: Sink,
    companion: Sink,
    *,
    handles: HandleChoice | None = None,
    salt: str = "",
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    profile: CompanionProfile | str = CompanionProfile.PACKED,
    level: int = 9,
    fingerprints: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Split:
    """Take the debug information out of an archive.

    Args:
        source: the archive.
        out: where to write the archive without it: a path, or a binary file.
        companion: where to write the debug information: the same.
        handles: whether ``mobile_debug_handles.pkl`` stays in the archive: a failure on a device needs it to
            name its handles. By default it stays where there is one, and its handles become ``unique``: they
            name the archive, too. See :mod:`archive.debuginfo.unique_handles`.
        salt: any text; another one gives unique handles another prefix.
        keep: kinds of debug info that stay in exported programs, beside ``modules``, and in compiled models:
            see :data:`archive.rewrite.kinds.KINDS`. The companion has all of them.
        drop: kinds that do not stay: ``modules``.
        profile: of the companion: ``packed`` is small, ``mapped`` opens in no time at any size.
        level: of zstd, 1 to 22.
        fingerprints: let the companion have digests of the lines of generated code, 3 bytes each, which tell
            whether a log shows this model's code: see :mod:`archive.reader.line_digests`.
        force: replace existing files.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the archive has no debug information or cannot be read, ``handles`` is given and there
            are none, kinds are and it has no exported programs or compiled models, or it changed meanwhile; a
            target exists or is no regular file.
        OSError: a file cannot be read or written; then no target has been touched.
    """
    if is_path(out) and is_path(companion) and os.path.abspath(out) == os.path.abspath(companion):  # noqa: PTH100 (links are no matter)
        raise ArchiveError("archive and companion need two names", file=os.fspath(out))
    with (
        replacing_all(companion, out, force=force) as (companion_file, out_file),
        unchanged(source),
        opening.open_whole(source, limits=limits, kinds=SPLIT_KINDS) as opened,
    ):
        check_archive(opened)
        records = opened.container.records
        kinds = kept_kinds(opened, keep, drop)
        kept = kept_handles(opened, handles, salt, by_default="unique")
        check_debug_info(opened, kinds, kept_records=kept.as_they_are)
        contents = collect(opened, fingerprints=fingerprints)
        contents = kept.noted(with_digest(contents, opened.container, opened.programs.left))
        stays, parts = left_in(opened, kinds)
        left = slim_members(opened.recognised.kind, records, (*kept.records, *stays), parts)
        members = with_new_id(kept.members(opened, left), records)
        data = build_companion(contents, profile_named(profile), level)
        companion_file.write(data)
        size = write_archive(out_file, opened.root, members, slim=True)
        with (
            opened.allowance.part() as part,
            Archive(Container(Mapped(out_file, "what is left"), part, rooted=bool(opened.root))) as after,
        ):
            check_gives(contents, memoryview(data), after.archive_id, part)
            exported = opened.recognised.kind in PROGRAM_KINDS
            refused = () if exported else tuple(one.told for one in loaded_like(after, opened))
        return Split(
            opened.size,
            size,
            len(data),
            _debug_size(opened, parts, stays),
            kept.records,
            tuple(sorted(kinds & (opened.programs.kinds | opened.spare.kinds))),
            opened.programs.whole,
            {} if "object" in kinds else opened.spare.whole,
            kept.prefix,
            kept.largest,
            _why_no_handles(opened),
            "file.digest" in contents.columns,
            contents.archive_id.hex(),
            refused,
        )


def _why_no_handles(opened: Archive) -> str:
    """Why failures of a lite archive will name no handles, from which no companion leads to source."""
    if opened.recognised.kind is not FileKind.LITE or METHOD_HANDLES in opened.records:
        return ""
    return why_no_handles(opened)


def _debug_size(opened: Archive, left: Mapping[str, bytes], kept: Collection[str]) -> int:
    """Stored bytes of the debug records, and those that programs and shared objects lose.

    Args:
        opened: the archive.
        left: of programs and shared objects.
        kept: records of compiled models that stay.
    """
    records = opened.container.records
    debug = [name for name in records if kind_of(name).is_debug]
    debug += [name for name in opened.spare.records if name not in kept]
    lost = sum(records[name].size - len(data) for name, data in left.items())
    return lost + sum(records[name].stored_size for name in debug)


def companion_of(opened: Archive) -> bytes:
    """The companion that :func:`split` makes of an archive by default; the archive stays as it is.

    Raises:
        ArchiveError: the archive has no debug information, or cannot be read.
        LimitError: it asks for more than allowed.
    """
    check_archive(opened)
    check_debug_info(opened)
    kept = kept_handles(opened, None, "", by_default="unique")
    contents = kept.noted(with_digest(collect(opened), opened.container, opened.programs.left))
    data = build_companion(contents)
    with opened.allowance.part() as part:
        check_gives(contents, memoryview(data), opened.archive_id, part)
    return data


@bounded
def join(
    source: Source,
    companion: Source,
    out: Sink,
    *,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Join:
    """Put debug information back into an archive.

    Args:
        source: the archive that ``split`` wrote.
        companion: the companion that ``split`` wrote.
        out: where to write the archive: a path, or a binary file.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the companion is another model's, one of the files is broken or changed meanwhile, or
            the target exists or is no regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    with (
        replacing(out, force=force) as file,
        unchanged(source, companion),
        opening.open_whole(source, companion=companion, limits=limits, kinds=JOINED_KINDS) as opened,
    ):
        if opened.is_embedded:
            raise ImpossibleError("has a companion of its own inside; `restore` it", file=opened.file)
        return rejoin(opened, file)


def rejoin(opened: Archive, file: BinaryIO) -> Join:
    """Write an archive and its companion as the one file that they were.

    Raises:
        ArchiveError: there is no companion, or it is broken.
    """
    companion = opened.companion
    if companion is None:
        place = place_of_companion(opened.container.records)
        raise NothingToDoError(f"no embedded companion ({place}) in it", file=opened.file)
    check_handles_left(opened)
    size, exact = joined_to(file, opened.root, opened.container.records, companion.contents)
    contents = companion.contents
    programs = 0 if companion.metadata is None else len(companion.metadata.programs)
    return Join(
        size,
        len(contents.records),
        programs,
        len(contents.objects),
        bool(exact),
        exact is False,
        companion.archive_id.hex(),
    )


def check_archive(opened: Archive) -> None:
    """Refuse a companion, and an archive that has one inside.

    Raises:
        ArchiveError: it is one of these; the message says what can be done with it.
    """
    if not opened.has_code:
        raise opened.recognised.refusal(opened.file)
    if opened.companion:
        raise ImpossibleError(
            "its debug info is in an embedded companion; `restore` it first", file=opened.file
        )


def profile_named(profile: CompanionProfile | str) -> CompanionProfile:
    """A companion's profile by its name.

    Raises:
        ArchiveError: there is no profile of that name.
    """
    if isinstance(profile, CompanionProfile):
        return profile
    names = [one.name.lower() for one in CompanionProfile]
    if profile not in names:
        raise ArchiveError(expected=f"a profile: {' or '.join(names)}", found=profile)
    return CompanionProfile[profile.upper()]
