"""What an inventory is asked for beyond what a few ranges of a file say: each question reads all of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.describe.inventory import NO_DIGEST, extended
from archive.reader.recognition import ZIP_KINDS
from archive.reader.recognition.kinds import PARSED_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.limits import Limits
    from archive.compare.digest import Of
    from archive.describe.inventory import InventoryRow
    from archive.io.mapped import Source

GRAVEST = ("internal error", "error", "not checked", "warning", "note")
"""Severities, the gravest first."""
MOST_TEXTS, LONGEST_TEXT = 5, 240
"""Findings of a file that its row has, and characters of each."""


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
    from archive.privacy.leaks import leaks  # noqa: PLC0415 (by request)

    problems: list[str] = []

    def find() -> Mapping[str, object]:
        found = leaks(source, limits=limits)
        problems.extend(f"leaks: {problem}" for problem in found.problems)
        return {"leaks": Counter(str(finding.kind) for finding in found.counted())}

    row = extended(row, "all texts, for leaks", find)
    return replace(row, unread=[*row.unread, *problems])


def with_findings(row: InventoryRow, source: Source, limits: Limits) -> InventoryRow:
    """How many findings ``verify`` has, by severity, and the gravest of them."""
    from archive.check.verify import verify  # noqa: PLC0415 (by request)

    what = "all records, by verify" if row.kind in PARSED_KINDS else "sizes and checksums, by verify"

    def find() -> Mapping[str, object]:
        found = sorted(verify(source, limits=limits), key=lambda one: GRAVEST.index(one.severity))
        texts = [cut(f"{one.severity}: {one}") for one in found[:MOST_TEXTS]]
        texts += [f"… and {len(found) - MOST_TEXTS:,} more"] if len(found) > MOST_TEXTS else []
        return {"findings": Counter(one.severity for one in found), "texts": texts}

    return extended(row, what, find)


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


QUESTIONS = {"digest": with_digest, "leaks": with_leaks, "verify": with_findings}
"""By the options that ask them."""
