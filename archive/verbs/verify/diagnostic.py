"""What verification has to say: findings, and the report that gathers them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from archive.base.errors import ArchiveError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np

    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
    Describe = Callable[[int], tuple[str, str]]

Severity = Literal["error", "warning", "note", "not checked"]
ResultT = TypeVar("ResultT")
MAX_LISTED = 100
"""Diagnostics of one kind in one record that are listed; the others are counted."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, or worth knowing.

    Attributes:
        severity: ``error``: PyTorch or this library cannot read it, or it leads to wrong source or none;
            ``warning``: it can be read, but something is lost or contradicts itself; ``note``: as it may be,
            but not as PyTorch writes an archive with all of its debug information; ``not checked``: it is no
            archive, and nothing is said of whether it is well.
        record: the record, without root; "" when it is about the archive as a whole.
        place: where in the record: a row and field, or a byte; "" when it is about the whole record.
        message: what is wrong.
    """

    severity: Severity
    record: str
    place: str
    message: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.record, self.place) if part)
        return one_line(f"{where}: {self.message}" if where else self.message)


class _Notes(NamedTuple):
    """Notes of one kind: the first one, and how many there are in each record."""

    first: Diagnostic
    counts: dict[str, int]

    def as_one(self, what: str) -> Diagnostic:
        """The first one, which tells of the others."""
        count, records = sum(self.counts.values()), len(self.counts)
        if count == 1:
            return self.first
        where = f" in {records:,} records" if 1 < records < count else ""
        return replace(self.first, message=f"{self.first.message}; the first of {count:,} {what}{where}")


class Diagnostics:
    """The findings so far."""

    __slots__ = ("_notes", "findings")

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self._notes: dict[str, _Notes] = {}

    def add(self, severity: Severity, record: str, place: str, message: str) -> None:
        """Note one finding."""
        self.findings.append(Diagnostic(severity, record, place, message))

    def add_each(
        self,
        severity: Severity,
        record: str,
        what: str,
        found: Ints | list[int],
        describe: Describe,
    ) -> None:
        """Add findings of one kind in one record: the first of them one by one, or all notes as a single one.

        Args:
            severity: of each. Notes of a kind become one, over all records.
            record: where they are.
            what: what they are, in the plural.
            found: their numbers.
            describe: place and message of one of them.
        """
        if severity == "note" and len(found):
            first = self._notes.get(what) or _Notes(Diagnostic("note", record, *describe(int(found[0]))), {})
            first.counts[record] = first.counts.get(record, 0) + len(found)
            self._notes[what] = first
            return
        for number in found[:MAX_LISTED]:
            self.add(severity, record, *describe(int(number)))
        if len(found) > MAX_LISTED:
            self.add(severity, record, "", f"… and {len(found) - MAX_LISTED:,} more of the {what}")

    def attempt(self, record: str, read: Callable[[], ResultT]) -> ResultT | None:
        """What ``read`` returns; None, and a finding, where it fails.

        A failure that is no ``ArchiveError`` is a fault of this library that a broken file brings to light.
        It must not hide what else is wrong.
        """
        try:
            return read()
        except ArchiveError as error:
            self.findings.append(diagnostic_of(error, record))
        except Exception as error:  # noqa: BLE001 (see above)
            self.add("error", record, "", f"cannot be read: {type(error).__name__}: {error}")
        return None

    def ordered(self, records: Iterable[str]) -> list[Diagnostic]:
        """The findings by record, in the archive's order; first those about the archive as a whole."""
        order = {name: number for number, name in enumerate(records)}
        notes = [notes.as_one(what) for what, notes in self._notes.items()]
        return sorted([*self.findings, *notes], key=lambda finding: order.get(finding.record, -1))


def diagnostic_of(error: ArchiveError, record: str = "") -> Diagnostic:
    """An error as a finding.

    Args:
        error: what was raised.
        record: the record that was being read, if the error does not name one.
    """
    what = str(ArchiveError(error.problem, expected=error.expected, found=error.found))
    return Diagnostic("error", record or error.record or "", error.place or "", what)
