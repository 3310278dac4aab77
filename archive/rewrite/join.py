"""``join`` and ``restore``: an archive and its companion become one file again.

The file is the same to the byte where that is possible: see :mod:`archive.rewrite.split`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ImpossibleError, NothingToDoError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import place_of_companion
from archive.reader.halves.joined import joined_to
from archive.reader.halves.kept import check_handles_left
from archive.reader.recognition import JOINED_KINDS, SHRUNK_KINDS
from archive.reader.rewriting import rewriting

if TYPE_CHECKING:
    from typing import BinaryIO

    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.archive import Archive


@dataclass(frozen=True, slots=True)
class Join:
    """The result of a join.

    Attributes:
        size: of the archive, in bytes.
        records: how many debug records came back.
        programs: to how many exported programs their metadata came back.
        objects: to how many shared objects the bytes after their segments came back.
        exact: whether the file is the one that was split, to the byte.
        another: whether a join should have given that file, and gave another: the companion is of another
            file of the same model, or the archive was rewritten since.
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
        """Whether nothing shows that a different file was split."""
        return not self.another


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
            the target exists or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    with rewriting(source, out, companion=companion, force=force, limits=limits, kinds=JOINED_KINDS) as work:
        if work.archive.is_embedded:
            raise ImpossibleError("has a companion of its own inside; `restore` it", file=work.archive.file)
        return _rejoined(work.archive, work.drafts[0])


@bounded
def restore(source: Source, out: Sink, *, force: bool = False, limits: Limits = DEFAULT_LIMITS) -> Join:
    """Undo :func:`~archive.rewrite.shrink.shrink` at level ``embed``.

    Args:
        source: the archive with an embedded companion.
        out: where to write the original archive: a path, or a binary file.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the embedded companion is missing, broken or another model's, or the archive changed
            meanwhile; the target exists or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    with rewriting(source, out, force=force, limits=limits, kinds=SHRUNK_KINDS) as work:
        if not work.archive.has_code:
            raise work.archive.recognised.refusal(work.archive.file)
        return _rejoined(work.archive, work.drafts[0])


def _rejoined(opened: Archive, file: BinaryIO) -> Join:
    """Write an archive and its companion as the one file that they were."""
    companion = opened.companion
    if companion is None:
        place = place_of_companion(opened.container.records)
        raise NothingToDoError(f"no embedded companion ({place}) in it", file=opened.file)
    check_handles_left(opened)
    contents = companion.contents
    size, exact = joined_to(file, opened.root, opened.container.records, contents)
    return Join(
        size,
        len(contents.records),
        0 if companion.metadata is None else len(companion.metadata.programs),
        len(contents.objects),
        bool(exact),
        exact is False,
        companion.archive_id.hex(),
    )
