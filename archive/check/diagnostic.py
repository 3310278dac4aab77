"""Diagnostics, as compilers have them: severity, place, message; and the collection of an archive's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from archive.base.bounded import EXHAUSTED
from archive.base.errors import ArchiveError, ExhaustedError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from archive.base.columns import Ints

    Describe = Callable[[int], tuple[str, str]]

Severity = Literal["error", "warning", "note", "not checked", "internal error"]
ResultT = TypeVar("ResultT")
MAX_LISTED = 100
"""The number of diagnostics of one kind in one record that are listed; the others are counted."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, or worth knowing.

    Attributes:
        severity: ``error``: PyTorch or this library cannot read something, or it leads to wrong source or
            none; ``warning``: all can be read, but something is lost or contradicts itself; ``note``:
            allowed, but not as PyTorch writes an archive with all of its debug info; ``not checked``: the
            file is no archive; ``internal error``: a fault of this library, which ended a check.
        record: the record's name without root; "" for the archive as a whole.
        place: a row and field, or a byte of the record; "" for the whole record.
        message: the problem, in one sentence.
    """

    severity: Severity
    record: str
    place: str
    message: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.record, self.place) if part)
        return one_line(f"{where}: {self.message}" if where else self.message)


class _Notes(NamedTuple):
    """Notes of one kind: the first one, and the number in each record."""

    first: Diagnostic
    counts: dict[str, int]

    def as_one(self, what: str) -> Diagnostic:
        """The first note, with the number of all of them in its message."""
        count, records = sum(self.counts.values()), len(self.counts)
        if count == 1:
            return self.first
        where = f" in {records:,} records" if 1 < records < count else ""
        return replace(self.first, message=f"{self.first.message}; the first of {count:,} {what}{where}")


class Diagnostics:
    """The diagnostics of an archive, as checks add them."""

    __slots__ = ("_notes", "findings")

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self._notes: dict[str, _Notes] = {}

    def add(self, severity: Severity, record: str, place: str, message: str) -> None:
        """Add one diagnostic."""
        self.findings.append(Diagnostic(severity, record, place, message))

    def add_each(
        self,
        severity: Severity,
        record: str,
        what: str,
        found: Ints | list[int],
        describe: Describe,
    ) -> None:
        """Add diagnostics of one kind in one record.

        The first 100 are added one by one. Notes of one kind become a single one over all records.

        Args:
            severity: the severity of each.
            record: the record's name.
            what: the name of the kind, in the plural.
            found: the numbers of what is wrong (n), as ``describe`` takes them.
            describe: number → place and message.
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
        """Call ``read`` and return its result; None, with a diagnostic added, where it fails.

        Any other exception is a fault of this library that a broken file brings to light. It must not hide
        what else is wrong with the file, and is told apart from that.
        """
        try:
            return read()
        except ArchiveError as error:
            self.findings.append(diagnostic_of(error, record))
        except EXHAUSTED as error:
            self.findings.append(diagnostic_of(ExhaustedError.of(error), record))
        except Exception as error:  # noqa: BLE001 (see above)
            self.add("internal error", record, "", f"cannot be read: {type(error).__name__}: {error}")
        return None

    def ordered(self, records: Iterable[str]) -> list[Diagnostic]:
        """The diagnostics in the order of the records; first those about the archive as a whole."""
        order = {name: number for number, name in enumerate(records)}
        notes = [notes.as_one(what) for what, notes in self._notes.items()]
        return sorted([*self.findings, *notes], key=lambda finding: order.get(finding.record, -1))


def diagnostic_of(error: ArchiveError, record: str = "") -> Diagnostic:
    """An error as a diagnostic.

    Args:
        error: the error.
        record: the record that was being read; used if the error does not name one.
    """
    what = str(ArchiveError(error.problem, expected=error.expected, found=error.found))
    return Diagnostic("error", record or error.record or "", error.place or "", what)
