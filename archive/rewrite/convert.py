"""``convert`` writes a companion in another layout: small to keep, or opened in no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.reader.rewriting import rewriting_companion

if TYPE_CHECKING:
    from archive.io.mapped import Source
    from archive.io.output import Sink


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion; sizes in bytes.

    Attributes:
        size: of the companion before.
        out_size: of the companion after.
        layout: of the companion after.
        archive_id: in hex; the same before and after.
    """

    size: int
    out_size: int
    layout: str
    archive_id: str


@bounded
def convert(
    source: Source,
    out: Sink,
    layout: CompanionLayout | str,
    *,
    level: int = 9,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Conversion:
    """Write a companion in another layout, or in its own at another level of compression.

    Args:
        source: the companion.
        out: where to write the other one: a path, or a binary file.
        layout: ``packed`` is small, ``mapped`` opens in no time at any size.
        level: of zstd in a packed companion, 1 to 22.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the source isn't a companion, is broken or changed meanwhile, or the target exists or is
            not a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    wanted = CompanionLayout.named(layout)
    with rewriting_companion(source, out, force=force, limits=limits) as (companion, draft):
        size = draft.write(build_companion(companion.contents, wanted, level))
        return Conversion(len(companion.data), size, wanted.name.lower(), companion.archive_id.hex())
