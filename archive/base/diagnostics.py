"""Diagnostics, as compilers have them: what is wrong in a file, how bad that is, and where.

Every check of a file returns this one class: the rules of ``verify``, the schema of exported programs, what
PyTorch refuses to load, and the files of a store.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from archive.base.bounded import EXHAUSTED
from archive.base.errors import ArchiveError, ExhaustedError, counted, one_line
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from archive.base.columns import Ints

Severity = Literal["error", "warning", "note", "not checked", "internal error"]
ResultT = TypeVar("ResultT")
MAX_LISTED = 100
"""The number of diagnostics of one kind in one record that are listed; the others are counted."""
REFUSED = "PyTorch 2.13 refuses it"
UNCHECKED = "PyTorch 2.13 may accept it all the same"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, or worth knowing.

    Attributes:
        severity: ``error``: PyTorch or this library cannot read something, or it leads to wrong source or
            none; ``warning``: everything can be read, but something is lost or contradicts itself; ``note``:
            allowed, but not as PyTorch writes an archive with all of its debug info; ``not checked``: the
            file isn't a model; ``internal error``: a fault of this library, which ended a check.
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


def wrong(place: str, problem: str, refusal: str | None, record: str = "") -> Diagnostic:
    """Something wrong in a file that PyTorch 2.13 looks at when it loads the file.

    Args:
        place: in the record, such as a JSON path.
        problem: what was expected and found.
        refusal: a part of what PyTorch says; "" if its words depend on other values; None if PyTorch does not
            check this: then it is a warning, otherwise an error.
        record: the record; "" for the archive as a whole, or if its reporter knows it.
    """
    if refusal is None:
        return Diagnostic("warning", record, place, f"{problem}; {UNCHECKED}")
    words = f': "{refusal.strip()}"' if refusal else ""
    return Diagnostic("error", record, place, f"{problem}; {REFUSED}{words}")


def diagnostic_of(error: ArchiveError, record: str = "") -> Diagnostic:
    """An error as a diagnostic.

    Args:
        record: the record that was being read; used if the error does not name one.
    """
    return Diagnostic("error", record or error.record or "", error.place or "", error.what)


class _NotesOfKind(NamedTuple):
    first: Diagnostic
    counts: dict[str, int]
    """The number of notes in each record."""

    def joined(self, what: str) -> Diagnostic:
        """The first note, with the number of all of them in its message."""
        count, records = sum(self.counts.values()), len(self.counts)
        if count == 1:
            return self.first
        where = f" in {records:,} records" if 1 < records < count else ""
        return replace(self.first, message=f"{self.first.message}; the first of {count:,} {what}{where}")


class Diagnostics:
    """The diagnostics of an archive, as checks add them, and what the checks looked at.

    Attributes:
        findings: the diagnostics, without notes of which one stands for many.
        unchecked: what no check of such a file looks at, each in a few words.
    """

    __slots__ = ("_looked", "_notes", "findings", "unchecked")

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self.unchecked: list[str] = []
        self._notes: dict[str, _NotesOfKind] = {}
        self._looked: dict[tuple[str, str], int] = {}

    def looked(self, count: int, noun: str, how: str) -> None:
        """Note how many things a check has looked at, after it has.

        Args:
            count: the number of things; 0 is not reported.
            noun: their name, in the singular.
            how: what was done with them.
        """
        if count:
            self._looked[noun, how] = self._looked.get((noun, how), 0) + count

    @property
    def checked(self) -> list[str]:
        """What was looked at, in sentences, in the order of the checks."""
        return [f"{counted(count, noun)} {how}" for (noun, how), count in self._looked.items()]

    def add(self, severity: Severity, record: str, place: str, message: str) -> None:
        """Add one diagnostic."""
        self.findings.append(Diagnostic(severity, record, place, message))

    def add_each(
        self,
        severity: Severity,
        record: str,
        what: str,
        numbers: Ints | list[int],
        describe: Callable[[int], tuple[str, str]],
    ) -> None:
        """Add diagnostics of one kind in one record.

        The first 100 are added one by one. Notes of one kind become a single one for all records.

        Args:
            severity: the severity of each.
            what: the name of the kind, in the plural.
            numbers: of what is wrong (n), as ``describe`` takes them.
            describe: number → place and message.
        """
        if severity == "note" and len(numbers):
            if what not in self._notes:
                first = Diagnostic("note", record, *describe(int(numbers[0])))
                self._notes[what] = _NotesOfKind(first, {})
            counts = self._notes[what].counts
            counts[record] = counts.get(record, 0) + len(numbers)
            return
        for number in numbers[:MAX_LISTED]:
            self.add(severity, record, *describe(int(number)))
        if len(numbers) > MAX_LISTED:
            self.add(severity, record, "", f"… and {len(numbers) - MAX_LISTED:,} more of the {what}")

    def add_all(self, diagnostics: Iterable[Diagnostic], record: str = "") -> bool:
        """Add diagnostics that a check found; the first 100 for each record, and how many more there are.

        Args:
            diagnostics: what was found; taken one by one, since a hostile file may have millions.
            record: the record of all; "" if each has its own.

        Returns:
            Whether one of them is an error.
        """
        counts: Counter[str] = Counter()
        refused: set[str] = set()
        for diagnostic in diagnostics:
            name = record or diagnostic.record
            counts[name] += 1
            if diagnostic.severity == "error":
                refused.add(name)
            if counts[name] <= MAX_LISTED:
                self.add(diagnostic.severity, name, one_line(diagnostic.place), diagnostic.message)
        for name, count in counts.items():
            if count > MAX_LISTED:
                severity: Severity = "error" if name in refused else "warning"
                self.add(severity, name, "", f"… and {count - MAX_LISTED:,} more")
        return bool(refused)

    def attempt(self, record: str, read: Callable[[], ResultT]) -> ResultT | None:
        """Call ``read`` and return its result; None, with a diagnostic added, if it fails.

        Any other exception is a fault of this library exposed by a broken file. It must not hide what else is
        wrong with the file, so it has its own severity.
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
        """The diagnostics in the order of the records, those about the archive as a whole first."""
        order = {name: number for number, name in enumerate(records)}
        notes = [notes.joined(what) for what, notes in self._notes.items()]
        return sorted([*self.findings, *notes], key=lambda finding: order.get(finding.record, -1))
