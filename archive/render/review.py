"""The texts of a file that nobody has accepted → a table for a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.privacy.review.reviewed import UNACCEPTED, gone_from, how_to_accept, texts_counted
from archive.privacy.review.ways import ways_out
from archive.render.leaks import examples_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.privacy.review import Review
    from archive.privacy.review.listing import ReviewRow
    from archive.render.fitted_table import FittedTable, Printed


def review_table(rows: Sequence[ReviewRow], examples: int) -> FittedTable:
    """Rows: for each role the first ones."""
    roles: dict[str, list[ReviewRow]] = {}
    for row in rows:
        roles.setdefault(row.role, []).append(row)
    return examples_table("role", roles.items(), examples, lambda row: (row.text, row.first))


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
