"""A review: which texts of a file are neither vocabulary nor accepted by somebody who has looked at them.

Every text of a published file is made by PyTorch, Python or this program (``vocabulary``), a name that the
model needs, or on a list that the publisher has seen. Anything else isn't published. So no detector has to
know what reveals people.

In: the pieces of a file (the room ``pieces``). ``roles`` gives their texts as names, keys and values, with a
reader for each form (``pickled``, ``code``, ``framed``); ``numbers`` those of tensors. ``listing`` makes rows
of those that are not vocabulary, each once. ``reviewed`` keeps rows and what was accepted in a file; the
report page reads and writes the same file. ``redact`` lists its result last; ``leaks`` lists any file.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.container.directory import bytes_after
from archive.formats.record_kinds import RecordKind
from archive.io.mapped import Mapped
from archive.privacy.pieces.files import pieces_of
from archive.privacy.pieces.piece import FilePiece
from archive.privacy.pieces.walker import Walker
from archive.privacy.review.listing import Listing, ReviewRow
from archive.privacy.review.reviewed import ReviewFile, check_apart, read_review, update_review
from archive.privacy.review.tables import ReviewTable
from archive.privacy.review.vocabulary import vocabulary
from archive.reader.opening import opened
from archive.reader.recognition import OPENED_KINDS
from archive.reader.recognition.kinds import COMMAND_KINDS

if TYPE_CHECKING:
    from os import PathLike

    from archive.io.mapped import Source
    from archive.reader.recognition import FileKind

__all__ = ["Review", "ReviewFile", "ReviewRow", "ReviewTable", "read_review", "review"]


@dataclass(frozen=True, slots=True)
class Review:
    """The texts of a file that are not vocabulary.

    Attributes:
        file: its name.
        kind: of the file.
        archive: its SHA-256, in hex.
        vocabulary: the words that are known.
        rows: the texts, each once: names, keys, values; then accepted ones that are no longer there.
        read: inflated bytes that were read.
        numbers: bytes of tensors; only those that are texts are listed.
        passed_over: bytes of machine code that were not looked at.
        problems: what could not be read as it should.
        gone: rows of another file that nobody had accepted, and that are no more in the review file.
    """

    file: str
    kind: FileKind
    archive: str
    vocabulary: str
    rows: tuple[ReviewRow, ...]
    read: int
    numbers: int
    passed_over: int
    problems: tuple[str, ...]
    gone: int = 0

    @property
    def unaccepted(self) -> list[ReviewRow]:
        """The rows that nobody has accepted."""
        return [row for row in self.rows if not row.accepted]

    @property
    def not_read(self) -> list[str]:
        """The part of the file that isn't text, or was not looked at, in words."""
        lines = []
        if self.numbers:
            lines.append(f"{self.numbers:,} bytes of tensors: only texts and long numbers in them are listed")
        if self.passed_over:
            lines.append(f"{self.passed_over:,} bytes of machine code: not looked at")
        return lines


AFTER = "after the zip"
"""Stands for a record where bytes follow a zip."""


@bounded
def review(
    source: Source,
    reviewed: str | PathLike[str] | None = None,
    *,
    accept_names: bool = False,
    reviewer: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Review:
    """List the texts of a file that are not vocabulary, and keep in a review file what was accepted.

    >>> listed = review("fixtures/exported/shop.pt2")
    >>> print(*(row.text for row in listed.unaccepted if row.role == "name"))
    Lookup Shop goods shop towers

    Args:
        source: a path, a bytes-like object, or a binary file, as :func:`archive.leaks` has it.
        reviewed: the review file: rows that it does not have are added, accepted ones stay. It is written
            whole or not at all. Without one nothing is accepted, and nothing written.
        accept_names: accept all rows of names.
        reviewer: who accepts, for the header of the review file.
        limits: what a hostile file may take.

    Raises:
        ArchiveError: the file is of a kind that is not read, contradicts itself, or takes more than allowed;
            or the review file isn't one, or more than ``accepted`` was changed in it.
        OSError: a file cannot be read, or the review file cannot be written.
    """
    if reviewed is not None:
        check_apart(reviewed, source)
        read_review(reviewed)
    with closing(Mapped(source)) as mapped, memory.charged(limits.allowance(mapped.weight)):
        walker = Walker(deep=True)
        after = bytes_after(mapped.data)
        whole = Mapped(mapped.data[:-after]) if after else mapped
        recognised, pieces = pieces_of(whole, walker)
        if recognised.kind not in COMMAND_KINDS["leaks"]:
            raise recognised.refusal(mapped.name)
        listing = Listing(lambda: opened(whole, OPENED_KINDS).tensors)
        for piece in pieces:
            listing.take(piece)
        if after:
            rest = mapped.data[-after:]
            listing.take(FilePiece(AFTER, RecordKind.OTHER, rest))
            walker.read += after
        listed = Review(
            mapped.name,
            recognised.kind,
            sha256(mapped.data).hexdigest(),
            vocabulary().name,
            tuple(listing.rows()),
            walker.read,
            listing.numbers,
            listing.passed_over,
            tuple(walker.problems),
        )
    if reviewed is None:
        return listed
    return noted(listed, reviewed, accept_names=accept_names, reviewer=reviewer)


def noted(
    listed: Review, reviewed: str | PathLike[str], *, accept_names: bool = False, reviewer: str | None = None
) -> Review:
    """A list of texts with what a review file says of them, which gets those that it lacks."""
    made = update_review(reviewed, listed.rows, listed.archive, accept_names=accept_names, reviewer=reviewer)
    return replace(listed, rows=made.file.rows, gone=made.gone)
