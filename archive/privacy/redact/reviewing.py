"""The review of a result: the proof lists its texts last, and unaccepted ones are left.

Without a review file, presets count them.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, several, shown
from archive.privacy.review.listing import Listing
from archive.privacy.review.reviewed import (
    UNACCEPTED,
    check_apart,
    gone_from,
    how_to_accept,
    read_review,
    texts_counted,
    update_review,
)
from archive.privacy.review.ways import ways_out

if TYPE_CHECKING:
    from os import PathLike

    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import Rules
    from archive.reader.archive import Archive
    from archive.reader.recognition import FileKind


MOST, LONGEST = 3, 40
"""Texts that are named, and characters of each."""


class ReviewChoice(NamedTuple):
    """What was asked for.

    Attributes:
        path: the review file; None if there is none.
        accept_names: accept all rows of names.
        reviewer: who accepts.
    """

    path: str | PathLike[str] | None = None
    accept_names: bool = False
    reviewer: str | None = None

    def check(self, *others: Source | Sink | None) -> None:
        """Refuse choices without a file, and a file that isn't a review, before any work is done.

        Args:
            others: what else is read or written, none of which may be the review file.
        """
        if self.path is not None:
            check_apart(self.path, *others)
            read_review(self.path)
        elif self.accept_names or self.reviewer is not None:
            raise ArchiveError("names are accepted in a review: give --review FILE", in_python="review=FILE")

    def listing(self, rules: Rules, after: Archive) -> Listing | None:
        """What lists the result; None where that was not asked for."""
        return Listing(lambda: after.tensors) if rules.people or self.path is not None else None


def unaccepted(
    listing: Listing | None, data: memoryview, choice: ReviewChoice, removed: Removed, kind: FileKind
) -> dict[str, int]:
    """How many texts of the result are not accepted, by role; with a review file, they are a problem.

    Args:
        listing: has the texts of all pieces; None where the result is not listed.
        data: the bytes of the result.
        choice: what was asked for; the review file is brought up to date.
        removed: takes the problem, and how to solve it.
        kind: of the file.
    """
    if listing is None:
        return {}
    rows = listing.rows()
    if choice.path is not None:
        digest, names = sha256(data).hexdigest(), choice.accept_names
        made = update_review(choice.path, rows, digest, accept_names=names, reviewer=choice.reviewer)
        rows = [row for row in made.file.rows if not row.accepted]
        if made.gone:
            removed.ways.append(gone_from(choice.path, made.gone))
    counts = Counter[str](row.role for row in rows)
    if rows and choice.path is not None:
        first = several([shown(row.text, LONGEST) for row in rows], MOST)
        removed.problems.append(f"{texts_counted(counts)} ({first}) {UNACCEPTED}")
        removed.ways += [how_to_accept(choice.path, counts), *ways_out(kind, counts)]
    return dict(counts)
