"""The sums of an inventory's rows, by kind and release, and which files are there twice."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base.digests import DIGEST_WIDTH
from archive.base.errors import counted
from archive.base.quick_dataclass import dataclass
from archive.base.tables import Column
from archive.reader.recognition import OPENED_KINDS, ZIP_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from archive.describe.inventory import InventoryRow

SUMMED = (
    Column("size", "bytes", "bytes"),
    Column("elements", "elements", "number"),
    Column("weight_bytes", "weights", "bytes"),
    Column("code_bytes", "code", "bytes"),
    Column("debug_bytes", "debug info", "bytes"),
)
"""What is summed of rows."""
SUMS = (Column("files", "files", "number"), *SUMMED)
"""The columns of a table of sums."""
MOST_GROUPS = 40
"""Kinds or releases of a table; the others are one row."""
SAME = {
    "file": "the same file as {}",
    "crc": "the same directory as {} (bytes not compared: --digest or --verify)",
    "sums": "the same verified checksums as {}",
    "bytes": "the same bytes as {}",
    "copy": "the same model as {}, with the same directory",
    "digest": "the same model as {}",
    "saved": "the same model as {}, saved otherwise",
}
"""What is said of a file that is the same as another, by how that is known."""
DUPLICATES = {
    "file": "Other names of the same files",
    "crc": "Probable duplicates, by their directories only",
    "sums": "Probable duplicates, by their checksums",
    "bytes": "Files of the same bytes",
    "copy": "Copies of the same models",
    "digest": "Files of the same models",
    "saved": "Same models, saved otherwise",
}
"""What is said of files that are the same, by how that is known."""


@dataclass(slots=True)
class Sums:
    """The sums of some rows; rows that do not know a number are left out, and null is that no row knows it.

    Attributes:
        files: how many rows; a model in several files has one.
        size: in bytes.
        elements: of tensors.
        weight_bytes: stored bytes of tensors.
        code_bytes: stored bytes of what is run, or what modules are made of, without debug info.
        debug_bytes: stored bytes of debug info.
    """

    files: int = 0
    size: int | None = None
    elements: int | None = None
    weight_bytes: int | None = None
    code_bytes: int | None = None
    debug_bytes: int | None = None

    def add(self, row: InventoryRow) -> None:
        """Add a row."""
        self.files += 1
        self._add_numbers(row)

    def add_all(self, other: Sums) -> None:
        """Add the rows of other sums."""
        self.files += other.files
        self._add_numbers(other)

    def _add_numbers(self, other: InventoryRow | Sums) -> None:
        for name, *_ in SUMMED:
            if (number := getattr(other, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + number)


@dataclass(slots=True)
class Totals:
    """The sums of an inventory.

    Attributes:
        all: of all rows.
        by_kind: of the rows of each kind.
        by_release: of those of each release; "" where that is not known.
        same: of those that are the same as one before, by how that is known: see ``same_by`` of a row.
        others: how many files of each other kind are there, which have no row.
        elements_unknown: how many models do not say how many elements their tensors have.
        unsound: how many files could not be read in part, or have errors that `verify` finds, if asked.
        unread: how many files could not be read.
    """

    all: Sums
    by_kind: dict[str, Sums]
    by_release: dict[str, Sums]
    same: dict[str, Sums]
    others: dict[FileKind, int]
    elements_unknown: int
    unsound: int
    unread: int


class Inventory:
    """Takes rows one by one, in their order, and keeps a digest and a name of each file.

    Args:
        kinds: those of the files that have a row; others are counted.
    """

    def __init__(self, kinds: Collection[FileKind]) -> None:
        self._kinds = kinds
        self._first: dict[bytes, tuple[str, bytes]] = {}
        self.totals = Totals(Sums(), {}, {}, {}, {}, 0, 0, 0)

    def take(self, row: InventoryRow, place: str = "") -> InventoryRow | None:
        """The row with the file that it is the same as; None for a file of another kind.

        Args:
            place: what two names of one file have in common, such as its device and inode; "" if not known.
        """
        totals = self.totals
        if row.kind not in self._kinds:
            totals.others[row.kind] = totals.others.get(row.kind, 0) + 1
            return None
        contents = _digest(row.contents) if row.contents else b""
        for by, value in (("file", place), *(_keys(row) if row.is_sound else ())):
            if value:
                first, others = self._first.setdefault(_digest(f"{by} {value}"), (row.file, contents))
                if first is not row.file and not row.same_as:
                    is_otherwise = by == "digest" and contents and others and contents != others
                    row = replace(row, same_as=first, same_by="saved" if is_otherwise else by)
        if row.same_as:
            totals.same.setdefault(row.same_by, Sums()).add(row)
        totals.unsound += not row.is_sound
        totals.elements_unknown += row.elements is None and row.kind in OPENED_KINDS
        by_kind = totals.by_kind.setdefault(str(row.kind), Sums())
        for sums in (totals.all, by_kind, totals.by_release.setdefault(row.release, Sums())):
            sums.add(row)
        return row


def _keys(row: InventoryRow) -> Iterator[tuple[str, str]]:
    """What files have in common that are the same: by how that is known, what shows most first."""
    if row.digest and row.kind not in ZIP_KINDS:
        yield "bytes", row.digest
    elif row.digest:
        yield "copy", f"{row.digest} {row.contents}" if row.contents else ""
        yield "digest", row.digest
    else:
        yield "crc" if row.findings is None else "sums", row.contents


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_WIDTH).digest()


def same_words(row: InventoryRow, name: str) -> str:
    """Which file a row's is the same as, called by a name, and how that is known; "" if it is like none."""
    return SAME[row.same_by].format(name) if row.same_as else ""


def largest(sums: Mapping[str, Sums], most: int) -> Iterable[tuple[str, Sums]]:
    """The groups with most files, largest first, and the rest as one.

    Args:
        sums: by name; "" for files of which it is not known.
        most: how many of them.
    """
    order = sorted(sums.items(), key=lambda item: (-item[1].files, item[0]))
    yield from ((name or "(not known)", some) for name, some in order[:most])
    if order[most:]:
        rest = Sums()
        for _, some in order[most:]:
            rest.add_all(some)
        yield f"[{len(order) - most:,} others]", rest


def numbers(sums: Sums) -> list[int | None]:
    """The numbers of the columns ``SUMS``; None where no file has it."""
    return [getattr(sums, column.key) for column in SUMS]


def remarks(totals: Totals) -> list[str]:
    """What the sums do not say, in sentences."""
    lines = [
        f"{DUPLICATES[by]}: {counted(same.files, 'file')}, {same.size or 0:,} bytes"
        for by, same in sorted(totals.same.items())
    ]
    counts = {
        "elements are not known": totals.elements_unknown,
        "could not be read": totals.unread,
        "read only in part, or with errors": totals.unsound,
    }
    return lines + [f"{what}: {counted(count, 'file')}" for what, count in counts.items() if count]
