"""The rewriting of one file, in the steps that all writers take.

:func:`rewriting` refuses targets that exist, opens the source whole, and hands out a draft of each target.
The writer fills the drafts and reads them again with :meth:`Rewriting.reopened`. At the end the source must
be unchanged; only then do the drafts become the targets. After an error all targets are as they were.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, ImpossibleError
from archive.base.quick_dataclass import dataclass
from archive.container.container import Container
from archive.io.mapped import Mapped, unchanged
from archive.io.output import is_path, replacing, replacing_all
from archive.reader.archive import Archive
from archive.reader.companion import Companion
from archive.reader.opening import open_whole, opened
from archive.reader.recognition import check_companion, is_zip

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import BinaryIO

    from archive.base.limits import Limits
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.recognition import FileKind


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A file that is rewritten.

    Attributes:
        archive: the source, opened as a whole.
        drafts: what will be the targets, in their order.
        kinds: the kinds of archives that source and result may be.
    """

    archive: Archive
    drafts: list[BinaryIO]
    kinds: Collection[FileKind]

    @contextmanager
    def reopened(self, name: str, *, embedded: bool = False) -> Iterator[Archive]:
        """The last draft, opened for a check, within the bounds of the source.

        It must be recognised as a file of ``kinds``, or no command would read it or lead back to the source.

        Args:
            embedded: read it with the companion that it may have inside.
        """
        from archive.io.drafts import reaching_disk  # noqa: PLC0415 (only those who write files pay for it)

        written = Mapped(self.drafts[-1], name)
        with memory.part(), reaching_disk(self.drafts[-1]):
            if embedded:
                result = opened(written, self.kinds)
            else:
                result = Archive(Container(written, rooted=bool(self.archive.root)))
            if self.archive.tensor_file is None and self.archive.has_code:
                result.digests.like = self.archive
            with result:
                if result.recognised.kind not in self.kinds:
                    why = "without what would be taken out, nothing shows what it is"
                    raise ImpossibleError(f"{why}: {result.recognised.what}", file=self.archive.file)
                yield result


@contextmanager
def rewriting(
    source: Source,
    *targets: Sink,
    companion: Source | None = None,
    force: bool,
    limits: Limits,
    kinds: Collection[FileKind],
) -> Iterator[Rewriting]:
    """Write targets from an archive, all of them or none.

    Args:
        targets: paths, or binary files; the archive is the last one, after a companion.
        companion: the archive's debug information, if that was split off.
    """
    paths = [os.path.abspath(target) for target in targets if is_path(target)]  # noqa: PTH100 (links do not matter)
    if len(set(paths)) < len(paths):
        raise ArchiveError("archive and companion need two names", file=os.fspath(targets[-1]))  # type: ignore[arg-type]
    with (
        replacing_all(*targets, force=force) as drafts,
        unchanged(source, *([] if companion is None else [companion])),
        open_whole(source, companion=companion, limits=limits, kinds=kinds) as archive,
        memory.charged(archive.allowance),
    ):
        yield Rewriting(archive, drafts, kinds)


@contextmanager
def rewriting_companion(
    source: Source, target: Sink, *, force: bool, limits: Limits
) -> Iterator[tuple[Companion, BinaryIO]]:
    """The same for a companion: the opened source, and the draft."""
    with (
        replacing(target, force=force) as draft,
        unchanged(source),
        closing(Mapped(source)) as mapped,
    ):
        check_companion(mapped, limits)
        with memory.charged(limits.allowance(len(mapped.data))), Companion(mapped) as companion:
            yield companion, draft


def check_whole(container: Container) -> None:
    """Refuse a file that is to be copied as it is, and has a record without its size or checksum."""
    for record in container.records.values():
        record.check()


def check_copied(mapped: Mapped) -> None:
    """Refuse a zip that is to be copied as it is, if its records aren't whole."""
    if is_zip(mapped.data):
        with Container(mapped, rooted=False) as container:
            check_whole(container)


def check_archive(opened: Archive) -> None:
    """Refuse a companion, and an archive that has one inside."""
    if not opened.has_code:
        raise opened.recognised.refusal(opened.file)
    if opened.companion:
        raise ImpossibleError(
            "its debug info is in an embedded companion; `restore` it first", file=opened.file
        )
