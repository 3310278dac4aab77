"""Rewrites an archive's debug information as another PyTorch release writes and reads it.

A migration rewrites source ranges, call stacks, handles, module paths, and the records that say how to
read an archive. It mends lowered code that the target refuses, and touches nothing else of the model.
The original is kept aside in a record that PyTorch ignores: it can be restored exactly, and migrating a
migrated archive starts from it, so that only the last target counts.

Compares a migrated archive with its original: the same model, and the same facts where both have them.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archive.base.bounded import bounded
from archive.base.columns import distinct_values
from archive.base.cores import meanwhile
from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, ImpossibleError, in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.container.write import write_archive
from archive.debuginfo.mending import completed, mended
from archive.debuginfo.model import NO_TAG, RangeLayout
from archive.formats.archive_id import counts
from archive.formats.record_kinds import DELEGATED, MIGRATED, range_records_of
from archive.formats.releases import number_of
from archive.formats.stale_methods import after_cuts, before_cuts, without
from archive.io.mapped import Mapped, same_bytes
from archive.io.output import scratch
from archive.normalform.columns import NO_ROW
from archive.reader import opening
from archive.reader.loading import refusals_as_before
from archive.reader.provenance import Provenance, provenance
from archive.reader.recognition import SHRUNK_KINDS, FileKind
from archive.reader.rewriting import check_archive, check_whole, rewriting
from archive.rewrite.compact.check import compare_handles, compare_ranges, compare_rows
from archive.rewrite.migrate.aside import is_format, write_original
from archive.rewrite.migrate.plan import TO_ORIGINAL, MigrationPlan, Target
from archive.rewrite.migrate.records import MigratedRecords, handles_in_blobs, ordered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.base.columns import Ints
    from archive.container.write import Member, Writable
    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.tables import RangeTable
    from archive.formats.stale_methods import Cut
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.archive import Archive
    from archive.reader.rewriting import Rewriting

# --- check


def check_migrated(before: Archive, after: Archive, cuts: Mapping[str, Sequence[Cut]]) -> None:
    """Refuse a migrated archive that is another model, or whose debug records have other facts.

    Records that are not rewritten must be the same bytes. Source ranges must be the same, row by row, and
    their tags, too, if both layouts have tags; each byte that rescued code has left must have the source that
    it had. If both have a call-stack map, handles, tags and call stacks must be the same; names of operators
    and functions, too, unless only one of the maps has them.

    Args:
        before: the original.
        after: the migrated archive.
        cuts: the bytes that were taken out of code records.
    """
    with in_file(after.file):
        for name, record in before.records.items():
            if not counts(name) or is_format(name):
                continue
            data = without(record.view(), cuts[name]) if name in cuts else record.view()
            if name not in after.records or not same_bytes(after.records[name].view(), data):
                raise ArchiveError(record=name, expected="the record as it was", found="another one, or none")
        old, new = before.range_table, after.range_table
        rescued = [name for code in cuts for name in range_records_of(code) if name in new.numbers]
        for name in {*old.names, *new.names} - {DELEGATED}:
            if (name in old.numbers) != (name in new.numbers):
                raise ArchiveError(record=name, expected="a record before and after", found="one of them")
        names = [name for name in new.names if name in old.numbers and name not in rescued]
        compare_ranges(before, after, names, tags=_has_tags(old) and _has_tags(new), unnamed=False)
        for code, cut in cuts.items():
            _same_rescued(before, after, code, cut)
        _same_handles(before, after)


def _has_tags(table: RangeTable) -> bool:
    return RangeLayout.PAIR not in table.layouts and not (table.tag == NO_TAG).all()


def _same_rescued(before: Archive, after: Archive, code: str, cuts: Sequence[Cut]) -> None:
    names = [name for name in range_records_of(code) if name in after.range_table.numbers]
    if not names:
        return
    old, new = (_steps(archive.range_table, names[0]) for archive in (before, after))
    begins = np.array([begin for begin, _ in cuts], np.int64)
    at = np.concatenate(([0], after_cuts(begins, cuts), after_cuts(old[0], cuts), new[0]))
    at = distinct_values(at[(at >= 0) & (at < after.records[code].size)])  # between these, nothing changes
    was = _rows_at(old, before_cuts(at, cuts))
    now = _rows_at(new, at)
    lost = np.flatnonzero((was < 0) != (now < 0))
    if len(lost):
        place = f"byte {int(at[lost[0]])}"
        raise ArchiveError(record=code, place=place, expected="a source range before and after, or none")
    known = was >= 0
    compare_rows(before, after, (was[known], now[known]), ("start", "end"), unnamed=False)


def _steps(table: RangeTable, name: str) -> tuple[Ints, int]:
    """The offsets of a record's rows, and the number of the first one."""
    rows = table.rows(table.numbers[name])
    return table.offset[rows.start : rows.stop], rows.start


def _rows_at(steps: tuple[Ints, int], positions: Ints) -> Ints:
    """The rows that cover some positions in the code; -1 where none does."""
    offset, first = steps
    at = np.searchsorted(offset, positions, "right") - 1
    return np.where((at >= 0) & (offset[at] >= 0), first + at, -1) if len(offset) else np.full(len(at), -1)


def _same_handles(before: Archive, after: Archive) -> None:
    old, new = mended(before.handle_table, before.range_table)[0], after.handle_table
    old = completed(old, before.range_table, handles_in_blobs(before))[0]
    if old is None or new is None:
        return
    has_names = [bool((table.op >= 0).any()) for table in (old, new)]
    if has_names[0] != has_names[1]:
        old, new = _nameless(old), _nameless(new)
    compare_handles(old, new)


def _nameless(table: HandleTable) -> HandleTable:
    """The map without the names of operators and functions, which not every layout has."""
    return replace(table, op=np.full(len(table.op), NO_ROW), function=np.full(len(table.function), NO_ROW))


# --- migrate

EXPORT_ANEW = "only TorchScript is migrated: export the model with the release that is to load it"
TO_LAYOUTS = {  # targets that are a layout of source ranges, by name
    "pair-rows": RangeLayout.PAIR,
    "inline-rows": RangeLayout.INLINE,
    "string-table": RangeLayout.STRING_TABLE,
}


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration, done or planned; sizes in bytes.

    Attributes:
        plan: the steps.
        origin: the releases that may have written the archive, by its records.
        restored: whether the archive was a migrated one; then origin and plan are those of its original.
        size: of the archive.
        source_digest: blake2b of the archive, 16 bytes in hex.
        out_size: of the result; 0 for a plan.
        digest: of the result; "" for a plan.
        aside_size: of the record that keeps the original; 0 without one.
        exact: whether the original file can be restored to the byte; else only its records can.
        data: the result, if no file was named to write it to; b"" else.
        refused: the contradictions in the archive for which PyTorch refuses the result, in its words; they
            are left as they are.
    """

    plan: MigrationPlan
    origin: Provenance
    restored: bool
    size: int
    source_digest: str
    out_size: int = 0
    digest: str = ""
    aside_size: int = 0
    exact: bool = False
    data: bytes = field(default=b"", repr=False)
    refused: tuple[str, ...] = ()

    @property
    def nothing_to_do(self) -> str:
        """Why the result is the archive as it was; "" where it is another file."""
        if self.plan.is_needed or self.restored:
            return ""
        if self.plan.target.is_original:
            return f"without {MIGRATED}, nothing in it shows a migration"
        return "it is as that release may have written it"


@bounded
def migrate(
    source: Source,
    out: Sink | None = None,
    *,
    to: str,
    lossy: bool = False,
    dry_run: bool = False,
    aside: bool = True,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Migration:
    """Rewrite an archive's debug information for another PyTorch release. The result is checked first.

    Args:
        source: the archive.
        out: where to write: a path, or a binary file; by default nowhere: the result's ``data`` is what would
            have been written.
        to: a release (``1.9``, ``latest``), a layout of source ranges (``pair-rows``, ``inline-rows``,
            ``string-table``), or ``original``: what it was before it was migrated; an archive that keeps
            nothing of that is given as it is.
        lossy: consent to what the target has no place for.
        dry_run: plan, and write nothing.
        aside: keep the original, so that it can be restored, in a record that PyTorch ignores.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the target is unknown, the archive cannot be read or is of PyTorch 1.0 to 1.2,
            something would be lost and ``lossy`` is not given, it changed meanwhile, or the target exists or
            isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    target = target_named(to)
    targets = [] if dry_run else [io.BytesIO() if out is None else out]
    with (
        rewriting(source, *targets, force=force, limits=limits, kinds=SHRUNK_KINDS) as work,
        in_file(work.archive.file),
    ):
        opened = work.archive
        if opened.recognised.kind in (FileKind.EXPORTED, FileKind.AOTI):
            raise ArchiveError(f"{opened.recognised.what}: {EXPORT_ANEW}", file=opened.file)
        check_archive(opened)
        if target.is_original and MIGRATED in opened.records and not aside:
            raise ArchiveError(
                f"what it was is kept in {MIGRATED}, and --no-aside drops that", in_python="aside=False"
            )
        with _original(opened, None if dry_run else out, aside=aside) as original:
            origin = provenance(original)
            records = MigratedRecords(original, target, origin)
            planned = partial(Migration, records.plan, origin, original is not opened, opened.size)
            if dry_run:
                return planned(digest_of(opened.container.data).hex())
            try:
                records.refuse_losses(lossy=lossy)
            except ImpossibleError as refusal:
                refusal.facts = planned(digest_of(opened.container.data).hex())
                raise
            return _written(work, original, records, planned, aside=aside, keep=out is None)


def target_named(name: str) -> Target:
    """A target by its name."""
    if name == TO_ORIGINAL:
        return Target(None)
    if name in TO_LAYOUTS:
        return Target(None, TO_LAYOUTS[name])
    try:
        return Target(number_of(name))
    except ArchiveError as problem:
        problem.expected = f"{problem.expected}; or a layout: {', '.join(TO_LAYOUTS)}; or {TO_ORIGINAL}"
        raise


@contextmanager
def _original(opened: Archive, out: Sink | None, *, aside: bool) -> Iterator[Archive]:
    """The original of a migrated archive, written beside the target; of any other, the archive itself."""
    if MIGRATED not in opened.records or not aside:
        yield opened
        return
    with scratch(out) as file:
        write_original(file, opened.container)
        with opening.opened(Mapped(file, f"{opened.file}, as it was")) as original:
            yield original


def _written(
    work: Rewriting,
    original: Archive,
    made: MigratedRecords,
    planned: Callable[..., Migration],
    *,
    aside: bool,
    keep: bool,
) -> Migration:
    """Write the result, check it, and keep its bytes if they are asked for.

    Args:
        planned: makes the facts, from the digest of the source and from what the plan doesn't have.
    """
    container, source = original.container, work.archive.container.data
    original_record, exact = None, not made.plan.is_needed
    if made.plan.is_needed and aside:
        original_record, exact = made.aside()  # keeps all cores busy
    source_digest = meanwhile(partial(digest_of, source), len(source))
    members: list[Member] = []
    if made.plan.is_needed:
        members = ordered(container.records, made.records, made.formats, made.release, original_record)

    def write(file: Writable) -> None:
        if made.plan.is_needed:
            write_archive(file, original.root, members)
        else:
            file.write(container.data)

    digest = meanwhile(partial(_digest_of, write), len(source))
    write(work.drafts[0])
    with work.reopened("the migrated archive", embedded=True) as migrated:
        data = migrated.container.data
        if made.plan.is_needed:
            check_migrated(original, migrated, made.cuts)
        else:
            check_whole(migrated.container)
        refused = refusals_as_before(migrated, original)
        return planned(
            source_digest().hex(),
            out_size=len(data),
            digest=digest().hex(),
            aside_size=len(original_record or b""),
            exact=exact,
            data=bytes(data) if keep else b"",
            refused=tuple(refusal.text for refusal in refused if not refusal.check.of_release),
        )


class _Pieces(list[bytes | memoryview]):
    """A target for writes that keeps what it is given."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Keep some bytes."""
        self.append(data)
        return len(data)


def _digest_of(write: Callable[[Writable], None]) -> bytes:
    """The digest of what is written, while it is written elsewhere, too."""
    pieces = _Pieces()
    write(pieces)
    return digest_of(*pieces)
