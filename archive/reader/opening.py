"""Opening: an archive, a companion, or both together, told by what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped
from archive.companion.magic import is_companion
from archive.formats.record_kinds import EMBEDDED
from archive.reader.archive import Archive
from archive.reader.recognition import COMPANION, check_companion, opened_archive

if TYPE_CHECKING:
    from archive.base.mapped import Source
    from archive.container.container import Container


def open(  # noqa: A001 (archive.open, like gzip.open)
    source: Source,
    *,
    companion: Source | None = None,
    limits: Limits = DEFAULT_LIMITS,
    name: str | None = None,
) -> Archive:
    """Open an archive or a companion; of an archive nothing but the zip's directory is read yet.

    Args:
        source: a path, a bytes-like object, or a binary file.
        companion: the debug information of the archive, where it was split off.
        limits: what hostile input may cost.
        name: of the file, for messages, if the source's own does not do.

    Raises:
        ArchiveError: the source is neither (the error says what it is), or contradicts itself, or the
            companion is none or another archive's.
        OSError: it cannot be read.
    """
    mapped = Mapped(source, name)
    if is_companion(mapped.data):
        if companion is not None:
            mapped.close()
            raise COMPANION.refusal(mapped.name)
        from archive.reader.companion import Companion  # noqa: PLC0415 (archives without one do without)

        return Companion(mapped, limits)
    container = opened_archive(mapped, limits)
    if companion is None and EMBEDDED not in container.records:
        return Archive(container, limits)
    from archive.reader.companion import Rejoined  # noqa: PLC0415

    if companion is None:
        return Rejoined(container, _embedded(container), limits)
    inner = Mapped(companion)
    check_companion(inner, limits)
    return Rejoined(container, inner, limits)


def _embedded(container: Container) -> Mapped:
    inner = Mapped(container.records[EMBEDDED].view(), container.file)
    if not is_companion(inner.data):
        raise ArchiveError(
            expected="a companion", found="something else", file=container.file, record=EMBEDDED
        )
    return inner
