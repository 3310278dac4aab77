"""The texts of a file that nobody has accepted → a table for a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.privacy.review.reviewed import UNACCEPTED, gone_from, how_to_accept, texts_counted
from archive.privacy.review.ways import ways_out
from archive.render.fitted_table import FittedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.privacy.review import Review
    from archive.privacy.review.listing import ReviewRow
    from archive.render.fitted_table import Printed

SHORTENED = 120
"""Characters of a text that a table shows; the review file has it whole."""


def review_table(rows: Sequence[ReviewRow], examples: int) -> FittedTable:
    """Rows: for each role the first ones.

    Args:
        rows: those of a role together.
        examples: the number of rows shown for each role; 0 shows all.
    """
    table = FittedTable([("role", "text"), ("found", "number"), ("text", "name"), ("first at", "place")])
    for role in dict.fromkeys(row.role for row in rows):
        some = [row for row in rows if row.role == role]
        shown = some if len(some) <= examples + 1 else some[: examples or None]
        for number, row in enumerate(shown):
            text = one_line(row.text)[:SHORTENED]
            table.add("" if number else role, f"{row.count:,}", text, one_line(row.first))
        if len(shown) < len(some):
            rest = some[len(shown) :]
            table.add("", f"{sum(row.count for row in rest):,}", f"[{len(rest):,} other texts]", "")
    return table


def review_text(review: Review, path: str, examples: int) -> Printed:
    """The texts of a file that nobody has accepted, and what was not looked at."""
    rows = review.unaccepted
    counts = Counter[str](row.role for row in rows)
    seen = sum(row.accepted and row.count > 0 for row in review.rows)
    lines = [f"{review.file}: {texts_counted(counts)} {UNACCEPTED}; accepted: {seen:,}"]
    if rows:
        lines += [how_to_accept(path, counts), *ways_out(review.kind, counts)]
    if review.gone:
        lines.append(gone_from(path, review.gone))
    lines += review.not_read
    return [review_table(rows, examples), "", *lines] if rows else lines
