"""What an inventory is asked for beyond what a few ranges of a file say: each question reads all of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.describe.inventory import NO_DIGEST, NO_LEAKS, extended
from archive.reader.recognition import ZIP_KINDS
from archive.reader.recognition.kinds import PARSED_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.limits import Limits
    from archive.compare.digest import Of
    from archive.describe.inventory import InventoryRow
    from archive.io.mapped import Source


def with_digest(row: InventoryRow, source: Source, limits: Limits) -> InventoryRow:
    """The digest of the model; of other files than zips, of their bytes."""
    from archive.compare.digest import digest  # noqa: PLC0415 (by request)

    if row.files > 1:
        return replace(row, unread=[*row.unread, NO_DIGEST])
    of: Of = "model" if row.kind in ZIP_KINDS else "file"
    what = "all bytes, for the digest"
    return extended(row, what, lambda: {"digest": str(digest(source, of=of, limits=limits))})


def with_leaks(row: InventoryRow, source: Source, limits: Limits) -> InventoryRow:
    """How many texts ``leaks`` finds, by kind."""
    from archive.privacy.leaks import SCANNED_KINDS, leaks  # noqa: PLC0415 (by request)

    if row.kind not in SCANNED_KINDS:
        return replace(row, unread=[*row.unread, NO_LEAKS])
    problems: list[str] = []

    def find() -> Mapping[str, object]:
        found = leaks(source, limits=limits)
        problems.extend(f"leaks: {problem}" for problem in found.problems)
        return {"leaks": Counter(str(finding.kind) for finding in found.counted())}

    row = extended(row, "all texts, for leaks", find)
    return replace(row, unread=[*row.unread, *problems])


def with_findings(row: InventoryRow, source: Source, limits: Limits) -> InventoryRow:
    """How many findings ``verify`` has, by severity."""
    from archive.check.verify import verify  # noqa: PLC0415 (by request)

    what = "all records, by verify" if row.kind in PARSED_KINDS else "sizes and checksums, by verify"
    return extended(
        row, what, lambda: {"findings": Counter(one.severity for one in verify(source, limits=limits))}
    )


QUESTIONS = {"digest": with_digest, "leaks": with_leaks, "verify": with_findings}
"""By the options that ask them."""
