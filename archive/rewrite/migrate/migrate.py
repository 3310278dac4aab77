"""Rewrites an archive's debug information as another PyTorch release writes and reads it.

A migration rewrites source ranges, call stacks, handles, module paths, and the records that tell how an
archive is to be read. It mends lowered code that the target refuses, and touches nothing else of the model.
The original is kept aside in a record that PyTorch ignores: so the way back is exact, and migrating a
migrated archive starts from its original, so that only the last target counts.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, ImpossibleError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped, unchanged
from archive.base.output import replacing, scratch
from archive.check.loading import loaded_like
from archive.container.container import write_archive
from archive.debuginfo.model import Layout
from archive.formats.record_kinds import MIGRATED
from archive.formats.releases import number_of
from archive.reader import opening
from archive.reader.provenance import Provenance, provenance
from archive.reader.recognition import SHRUNK_KINDS, FileKind
from archive.rewrite.migrate.aside import write_original
from archive.rewrite.migrate.check import check_migrated
from archive.rewrite.migrate.members import ordered
from archive.rewrite.migrate.plan import TO_ORIGINAL, MigrationPlan, Target
from archive.rewrite.migrate.rewriting import Rewriting
from archive.rewrite.split import check_archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from archive.base.mapped import Source
    from archive.base.output import Sink
    from archive.reader.archive import Archive

EXPORT_ANEW = "only TorchScript is migrated: export the model with the release that is to load it"
TO_LAYOUTS = {  # targets that are a layout of source ranges, by name
    "pair-rows": Layout.PAIR,
    "inline-rows": Layout.INLINE,
    "string-table": Layout.STRING_TABLE,
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
        out_size: of the result; 0 for a plan alone.
        digest: of the result; "" for a plan alone.
        aside_size: of the record that keeps the original; 0 without one.
        exact: whether the way back gives the original file to the byte; else it gives the same records.
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
            return f"without {MIGRATED}, nothing in it tells of a migration"
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
        aside: keep what the archive was, for the way back, in a record that PyTorch ignores.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: there is no such target, the archive cannot be read or is of PyTorch 1.0 to 1.2,
            something would be lost and ``lossy`` is not given, it changed meanwhile, or the target exists or
            is no regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    target = target_named(to)
    with ExitStack() as stack:
        file = None
        if not dry_run:
            file = stack.enter_context(io.BytesIO() if out is None else replacing(out, force=force))
        stack.enter_context(unchanged(source))
        opened = stack.enter_context(opening.open_whole(source, limits=limits, kinds=SHRUNK_KINDS))
        if opened.recognised.kind in (FileKind.EXPORTED, FileKind.AOTI):
            raise ArchiveError(f"{opened.recognised.what}: {EXPORT_ANEW}", file=opened.file)
        check_archive(opened)
        stack.enter_context(_named(opened.file))
        if target.is_original and MIGRATED in opened.records and not aside:
            raise ArchiveError(f"what it was is kept in {MIGRATED}, and --no-aside (aside=False) drops that")
        original = stack.enter_context(_original(opened, None if dry_run else out)) if aside else opened
        origin = provenance(original)
        rewriting = Rewriting(original, target, origin)
        data = opened.container.data
        restored = original is not opened
        planned = Migration(rewriting.plan, origin, restored, len(data), _digest(data))
        if file is None:
            return planned
        try:
            rewriting.refuse_losses(lossy=lossy)
        except ImpossibleError as refusal:
            refusal.facts = planned
            raise
        return _written(file, original, rewriting, planned, aside=aside, keep=out is None)


def target_named(name: str) -> Target:
    """A target by its name.

    Raises:
        ArchiveError: there is none of that name.
    """
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
def _named(file: str) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except ArchiveError as error:
        raise error.within(file=file) from error.__cause__


@contextmanager
def _original(opened: Archive, out: Sink | None) -> Iterator[Archive]:
    """The original of a migrated archive, written beside the target; of any other, the archive itself."""
    if MIGRATED not in opened.records:
        yield opened
        return
    with scratch(out) as file:
        write_original(file, opened.container)
        with opening.opened(Mapped(file, f"{opened.file}, as it was"), opened.allowance) as original:
            yield original


def _written(
    file: BinaryIO, original: Archive, rewriting: Rewriting, planned: Migration, *, aside: bool, keep: bool
) -> Migration:
    """Write the result, check it, and keep its bytes if they are asked for."""
    kept, exact = None, not rewriting.plan.is_needed
    if rewriting.plan.is_needed:
        if aside:
            kept, exact = rewriting.aside()
        records = original.container.records
        members = ordered(records, rewriting.records, rewriting.formats, rewriting.release, kept)
        write_archive(file, original.root, members)
    else:
        file.write(original.container.data)
    written = Mapped(file, "the migrated archive")
    with original.allowance.part() as part, opening.opened(written, part) as migrated:
        data = migrated.container.data
        if rewriting.plan.is_needed:
            check_migrated(original, migrated, rewriting.cuts)
        refused = loaded_like(migrated, original)
        return replace(
            planned,
            out_size=len(data),
            digest=_digest(data),
            aside_size=len(kept or b""),
            exact=exact,
            data=bytes(data) if keep else b"",
            refused=tuple(one.told for one in refused if not one.check.of_release),
        )


def _digest(data: memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
