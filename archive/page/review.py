"""The texts of a file that nobody has accepted yet: what its review file would have, as data of a section.

Columns are the keys of the rows of :mod:`archive.privacy.review.reviewed`; ``header`` is the file's, and
``name`` what it is saved as. What was accepted before stays accepted, as in ``leaks --review``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, counted
from archive.io.mapped import UNNAMED
from archive.privacy.review import ReviewFile, read_review, review
from archive.privacy.review.reviewed import review_lines, with_accepted

if TYPE_CHECKING:
    from os import PathLike

    from archive.base.limits import Limits
    from archive.io.mapped import Mapped
    from archive.privacy.review import Review

MOST_BYTES = 4 << 20
"""Of the review file in a page, which must hold all of it."""
COLUMNS = ("role", "text", "template", "count", "first", "accepted", "table")


def review_facts(file: Mapped, path: str | PathLike[str], limits: Limits) -> tuple[dict[str, Any], list[str]]:
    """The texts of a file with what a review file says about them, and what was not looked at, in words.

    Nothing is written.

    Args:
        file: the file whose texts are listed.
        path: the review file, which need not exist.
        limits: what a hostile file may cost.
    """
    before = read_review(path)
    listed = _listed(file, limits)
    rows = with_accepted(listed.rows, before.rows if before else ())
    made = ReviewFile(listed.vocabulary, listed.archive, before.reviewer if before else None, rows)
    lines = review_lines(made)
    if len(lines) > MOST_BYTES:
        raise ArchiveError(
            f"has {len(rows):,} texts to review, too many for a page: `leaks --review` lists them in a file",
            file=file.name,
        )
    header, *read = map(json.loads, lines.splitlines())
    facts = {
        "header": header,
        "name": Path(path).name,
        **{key: [row.get(key) for row in read] for key in COLUMNS},
    }
    left = sum(not row.accepted for row in rows)
    summary = f"{counted(left, 'text')} to look at" if left else "all texts are accepted"
    return facts, [f"review: {'; '.join([summary, *listed.problems, *listed.not_read])}"]


def _listed(file: Mapped, limits: Limits) -> Review:
    """The texts of a file; an error has its name."""
    try:
        return review(file.data, limits=limits)
    except ArchiveError as error:
        if error.file is not None:
            error.file = error.file.replace(UNNAMED, file.name)
        raise
