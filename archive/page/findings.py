"""What is wrong with a file, what it reveals to strangers, and what stands in its way, as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, counted
from archive.check.verify import verify
from archive.page.units import plain
from archive.privacy.leaks import leaks
from archive.privacy.leaks.findings import by_kind, unlisted
from archive.reader.lacking import why_no_handles
from archive.reader.recognition import FileKind
from archive.rewrite.migrate.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.limits import Limits
    from archive.io.mapped import Mapped
    from archive.page.shown import Shown
    from archive.privacy.leaks import Finding
    from archive.reader.archive import Archive

COLUMNS = ("from", "severity", "what", "record", "place", "message")
MOST_LEAKS = 5_000
"""Texts that a page lists; others are counted."""
SCRIPTS = {FileKind.TORCHSCRIPT, FileKind.LITE}
"""Files that ``migrate`` rewrites."""
NOT_LOOKED_AT = "not looked at"
RUNS_CODE = (
    "whether `lite` takes the file is known once PyTorch has loaded it, which runs its code; "
    "none of that has been run for this page"
)


class Findings:
    """The findings of a file, in the order of adding.

    Args:
        shown: how much of the model's source is shown: without paths, no finding has its text.

    Attributes:
        rows: the findings.
        verified: how many of each severity ``verify`` finds; None where it did not run.
        leaks: kinds that ``leaks`` finds, with how many texts; None where it could not search.
        not_counted: the same for what is in nearly every model.
        left_out: what was not searched, and what has no room, in words.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.rows: list[tuple[str, str, str, str, str, str]] = []
        self.verified: dict[str, int] | None = None
        self.leaks: list[list[Any]] | None = None
        self.not_counted: list[list[Any]] = []
        self.left_out: list[str] = []

    def facts(self) -> dict[str, Any]:
        """The columns."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(COLUMNS)
        return {name: [plain(text) for text in column] for name, column in zip(COLUMNS, columns, strict=True)}

    def add_verified(self, source: Archive | Mapped, limits: Limits) -> None:
        """Add what ``verify`` finds in a file, or in an archive that was opened with its companion."""
        found = verify(source, limits=limits)
        self.verified = {"error": 0, "warning": 0, "note": 0}
        for one in found:
            severity = one.severity if one.severity in self.verified else "error"
            self.verified[severity] += 1
            self.rows.append(("verify", one.severity, "", one.record, one.place, one.message))

    def add_leaks(self, file: Mapped, limits: Limits) -> None:
        """Add what ``leaks`` finds; without its texts, unless paths are shown."""
        try:
            found = leaks(file, limits=limits)
        except ArchiveError as error:
            self.left_out.append(f"leaks: not searched: {error}")
            return
        self.leaks = _texts_by_kind(found.counted())
        self.not_counted = _texts_by_kind(one for one in found.findings if not one.counted)
        for finding in found.findings[:MOST_LEAKS]:
            text = f"{finding.text}: " if self._shown.has_paths else ""
            times = "" if finding.count == 1 else f"found {counted(finding.count, 'time')}; "
            place = finding.places[0]
            where = place.within or ("" if place.byte is None else f"byte {place.byte}")
            severity = "warning" if finding.counted else "note"
            message = f"{text}{times}{finding.remedy}"
            record, where = (place.record, where) if self._shown.has_paths else ("", "")
            self.rows.append(("leaks", severity, str(finding.kind), record, where, message))
        more = len(found.findings) - MOST_LEAKS
        if more > 0:
            self.left_out.append(f"leaks: {counted(more, 'further text')}")
        self.left_out += (f"leaks: {line}" for line in unlisted(found))

    def add_gates(self, opened: Archive, file: Mapped, *, is_whole: bool) -> None:
        """Add what ``migrate`` would do for the newest release, and why there are no debug handles.

        What ``lite`` would say is not known: it has PyTorch load the file, which runs its code.

        Args:
            file: its file, without the companion.
            is_whole: whether nothing was split off.
        """
        if is_whole:
            self._add_migration(file, opened.limits)
        else:
            joined = "`migrate` takes an archive with its debug info: `join` gives it back"
            self.rows.append(("migrate", "note", NOT_LOOKED_AT, "", "", joined))
        self.rows.append(("lite", "note", NOT_LOOKED_AT, "", "", RUNS_CODE))
        try:
            if not opened.handles:
                self.rows.append(("symbolicate", "note", "no handles", "", "", why_no_handles(opened)))
        except ArchiveError:  # `verify` reports it
            pass

    def _add_migration(self, file: Mapped, limits: Limits) -> None:
        try:
            planned = migrate(file, to="latest", dry_run=True, limits=limits).plan
        except ArchiveError as error:
            self.rows.append(("migrate", "error", "refused", "", "", str(error)))
            return
        for what, steps in (("change", planned.changes), ("rescue", planned.rescues)):
            self.rows += (("migrate", "note", what, "", "", str(step)) for step in steps)
        self.rows += (("migrate", "warning", "loss", "", "", str(step)) for step in planned.losses)
        self.rows += (("migrate", "note", "remark", "", "", remark) for remark in planned.remarks)


def _texts_by_kind(findings: Iterable[Finding]) -> list[list[Any]]:
    return [[str(kind), len(some)] for kind, some in by_kind(findings).items()]
