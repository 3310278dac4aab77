"""``shrink`` makes an archive smaller, and leaves it one file.

- *compact*: each debug record is encoded in the fewest bytes that stock PyTorch reads as the same facts, and
  all records but tensors are deflated and unpadded. Stock PyTorch loads the archive and prints the same
  source from it. Exported programs stay the same to the byte, deflated: PyTorch writes them stored. So do
  compiled models, but for what is never mapped of their shared objects.
- *embed*: all debug records become one companion, in the extra file ``debug.ptdbg``; of a ``.pt2`` in the
  record ``debug/model.ptdbg``: the metadata of exported programs, and what the loaders of compiled models do
  not need. Stock PyTorch loads and runs the archive, without debug information. This library reads it like
  the original, which :func:`~archive.rewrite.join.restore` gives back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, ImpossibleError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.companion.build import build_companion
from archive.container.write import member_from, new_member, write_archive
from archive.debuginfo.mending import mended
from archive.debuginfo.model import RangeLayout
from archive.formats.archive_id import check_same_id
from archive.formats.record_kinds import kind_of, place_of_companion
from archive.io.mapped import same_bytes
from archive.reader.collect import check_debug_info
from archive.reader.halves.companions import companion_contents
from archive.reader.halves.joined import check_gives
from archive.reader.halves.kept import Remains, kept_handles, kept_kinds
from archive.reader.halves.slim import slim_members, smallest_member, with_new_id
from archive.reader.loading import refusals_as_before
from archive.reader.recognition import SHRUNK_KINDS, FileKind, kind_in
from archive.reader.rewriting import check_archive, rewriting
from archive.reader.split_handles import delegated_handles
from archive.rewrite.compact import compact_records, says_other_facts
from archive.rewrite.compact.check import same_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from archive.container.write import Member
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.archive import Archive
    from archive.reader.halves.kept import HandleChoice, KeptHandles
    from archive.reader.rewriting import Rewriting


class ShrinkLevel(StrEnum):
    """How far an archive is shrunk. Stock PyTorch reads the debug information of only the first level."""

    COMPACT = "compact"
    EMBED = "embed"


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """The result of shrinking; sizes in bytes.

    Attributes:
        level: how it was shrunk.
        size: of the archive before.
        out_size: of the archive after.
        kinds: stored bytes of its records before and after, by kind, and of the zip around them (``zip``).
        exact: whether ``restore`` gives the original file back to the byte; False for ``compact``.
        archive_id: in hex; the same before and after.
        mended: tags in the call-stack map that PyTorch refuses and that were replaced; 0 for ``embed``.
        prefix: of its unique handles; 0 where handles are as PyTorch numbered them, or there are none.
        refused: why PyTorch 2.13 refuses to load the result: the loader and its message.
        kept_kinds: kinds of debug info that PyTorch still finds in its exported programs.
        whole: for ``embed``: records of exported programs that stayed as they are, for their JSON is not as
            PyTorch writes it.
        whole_objects: why shared objects stayed as they are, by name: a loader may need all of them.
        is_package: whether it is a torch.package, of which PyTorch's checks at loading are not known.
        is_exported: whether it is an archive of exported programs, for which the same holds.
        is_compiled: whether it is an AOTInductor package, for which the same holds.
        cut: bytes of its shared objects that are never mapped and were left out.
        unread: whether source ranges are in tag-first rows, which PyTorch 2.13 does not read.
    """

    level: ShrinkLevel
    size: int
    out_size: int
    kinds: Mapping[str, tuple[int, int]]
    exact: bool
    archive_id: str
    mended: int
    prefix: int
    refused: tuple[str, ...]
    kept_kinds: tuple[str, ...]
    whole: tuple[str, ...]
    whole_objects: Mapping[str, str]
    is_package: bool
    is_exported: bool
    is_compiled: bool
    cut: int
    unread: bool


@bounded
def shrink(
    source: Source,
    out: Sink,
    *,
    level: ShrinkLevel | str = ShrinkLevel.COMPACT,
    handles: HandleChoice | None = None,
    salt: str = "",
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    strength: int = 9,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Shrinkage:
    """Make an archive smaller. What is written is checked before the target is replaced.

    Args:
        source: the archive.
        out: where to write the smaller one: a path, or a binary file.
        level: ``compact`` or ``embed``.
        handles: ``unique`` handles name their archive: see :mod:`archive.debuginfo.unique_handles`. For
            ``compact`` the default is to ``keep`` them as they are; for ``embed``, to ``drop``
            ``mobile_debug_handles.pkl``, without which a failure on a device names none.
        salt: any text; another one gives unique handles another prefix.
        keep: for ``embed``: kinds of debug info that PyTorch still finds in a ``.pt2``, beside ``modules``:
            see :data:`archive.reader.halves.kept.KIND_BY_WORD`. The companion has all of them.
        drop: for ``embed``: kinds that it does not: ``modules``.
        strength: for ``embed``: level of zstd in the companion, 1 to 22.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the archive cannot be read, has nothing to shrink at this level or changed meanwhile, or
            the target exists or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    if level not in list(ShrinkLevel):
        raise ArchiveError(expected=f"a level: {' or '.join(ShrinkLevel)}", found=level)
    level = ShrinkLevel(level)
    with rewriting(source, out, force=force, limits=limits, kinds=SHRUNK_KINDS) as work:
        opened = work.archive
        check_archive(opened)
        kinds = kept_kinds(opened, keep, drop)
        if level is ShrinkLevel.EMBED:
            kept = kept_handles(opened, handles, salt, by_default="drop")
            check_debug_info(opened, kept_records=kept.as_they_are)
            return _embed(work, kept, kinds, strength)
        if handles == "drop":
            raise ArchiveError("a compact archive has its debug handles; use `split`", file=opened.file)
        if keep or drop:
            raise ArchiveError("a compact archive has all its debug info; use `split`", file=opened.file)
        return _compact(work, kept_handles(opened, handles, salt, by_default="keep"))


def _compact(work: Rewriting, kept: KeptHandles) -> Shrinkage:
    opened = work.archive
    if kept.is_new and len(delegated := delegated_handles(opened)):
        why = f"handle {delegated[0]} is a delegated operation's: its backend prints it as it is, and PyTorch"
        way = "would not find it among unique ones; `--handles keep`, or `split`"
        raise ImpossibleError(f"{why} {way}", file=opened.file)
    opened.digests.begin(file=False)
    opened.container.streams.begin(by_pytorch=False)
    expected = opened.with_unique_handles(kept.prefix) if kept.is_new else opened
    kinds = {*opened.programs.kinds, *opened.spare.records.values()}  # first, as it asks for all JSON
    compacted, records = compact_records(expected), opened.container.records
    members = with_new_id(_compacted(expected, compacted), records)
    write_archive(work.drafts[0], opened.root, members, slim=True)
    with work.reopened("the compact archive", embedded=True) as after:
        same_facts(expected, after)
        there = after.container.records
        untouched = (*opened.programs.records.values(), *opened.spare.records)
        check_same_id(opened.archive_id, after.archive_id, opened.file)
        for name in untouched:
            if name not in there or not same_bytes(records[name].view(), there[name].view()):
                raise ArchiveError("would change; nothing is written", file=opened.file, record=name)
        tags = mended(opened.handle_table, opened.range_table)[1]
        return _shrinkage(
            ShrinkLevel.COMPACT, opened, after, kinds, exact=False, mended=tags, prefix=kept.prefix
        )


def _compacted(opened: Archive, compacted: Mapping[str, bytes]) -> Iterator[Member]:
    """The members of a compact archive; a record that is small already stays, if it says the same."""
    records = opened.container.records
    others = [name for name in records if kind_of(name).is_debug and name not in compacted]
    debug, parts = (*others, *opened.spare.records), opened.spare.left(kinds=())
    members = slim_members(opened.recognised.kind, opened.container, debug, parts)
    slim = {member.name: member for member in members}
    for name, record in records.items():
        if name in compacted:
            small = smallest_member(name, compacted[name])
            before = replace(member_from(record), aligned=False)
            must_change = says_other_facts(opened, name)
            yield small if must_change or len(small.data) < len(before.data) else before
        elif name in slim:
            yield slim[name]


def _embed(work: Rewriting, kept: KeptHandles, kinds: Collection[StrEnum], strength: int) -> Shrinkage:
    opened, records = work.archive, work.archive.container.records
    opened.digests.begin()
    opened.container.streams.begin(by_pytorch=True)
    contents = companion_contents(opened, kept)
    companion = build_companion(contents, level=strength)
    place = place_of_companion(records)
    member = replace(new_member(place, companion, compress=False), aligned=False)
    members = with_new_id([member, *Remains.of(opened, kinds, kept).members(opened)], records)
    write_archive(work.drafts[0], opened.root, members, slim=True)
    with work.reopened("the shrunk archive") as after:
        check_gives(contents, after.records[place].view(), after.archive_id)
        exact = "file.digest" in contents.columns
        return _shrinkage(ShrinkLevel.EMBED, opened, after, kinds, exact=exact, mended=0, prefix=kept.prefix)


def _shrinkage(
    level: ShrinkLevel,
    before: Archive,
    after: Archive,
    kinds: Collection[StrEnum],
    *,
    exact: bool,
    mended: int,
    prefix: int,
) -> Shrinkage:
    kind = before.recognised.kind
    refused = refusals_as_before(after, before)
    cut = sum(len(part.tail) for part in before.spare.cuts.values())
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for place, container in enumerate((before.container, after.container)):
        for name, record in container.records.items():
            sizes[kind_in(kind, name)][place] += record.stored_size
        stored = sum(record.stored_size for record in container.records.values())
        sizes["zip"][place] = container.size - stored
    return Shrinkage(
        level,
        before.size,
        after.size,
        {kind: (old, new) for kind, (old, new) in sizes.items()},
        exact,
        after.archive_id.hex(),
        mended,
        prefix,
        tuple(refusal.text for refusal in refused),
        tuple(sorted((before.programs.kinds | before.spare.kinds).intersection(kinds))),
        before.programs.whole if level is ShrinkLevel.EMBED else (),
        {} if "object" in kinds else before.spare.whole,
        before.recognised.kind is FileKind.PACKAGE,
        kind is FileKind.EXPORTED,
        kind is FileKind.AOTI,
        0 if "object" in kinds else cut,
        RangeLayout.TAG_FIRST in after.range_table.layouts,
    )
