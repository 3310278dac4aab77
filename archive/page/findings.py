"""What is wrong with a file, what it tells strangers, and what stands in its way, as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, counted
from archive.check.verify import verify
from archive.page.units import plain
from archive.privacy.leaks import leaks
from archive.reader.lacking import why_no_handles
from archive.reader.recognition import FileKind
from archive.rewrite.migrate.migrate import migrate

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.page.shown import Shown
    from archive.reader.archive import Archive

COLUMNS = ("from", "severity", "what", "record", "place", "message")
MOST_LEAKS = 5_000
"""Texts that a page lists; the others are counted."""
SCRIPTS = {FileKind.TORCHSCRIPT, FileKind.LITE}
"""Files that ``migrate`` rewrites."""


class Findings:
    """The findings of a file, in the order in which they are added.

    Args:
        shown: how much of the model's source is shown: without paths, no finding has its text.

    Attributes:
        rows: the findings.
        verified: how many of each severity ``verify`` has; None where it was not asked.
        leaks: kinds of what ``leaks`` finds, with how many texts.
        left_out: what was not searched, and what has no place, in words.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.rows: list[tuple[str, str, str, str, str, str]] = []
        self.verified: dict[str, int] | None = None
        self.leaks: list[list[Any]] = []
        self.left_out: list[str] = []

    def facts(self) -> dict[str, Any]:
        """The columns."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(COLUMNS)
        return {name: [plain(text) for text in column] for name, column in zip(COLUMNS, columns, strict=True)}

    def add_verified(self, source: Archive | memoryview, limits: Limits) -> None:
        """Add what ``verify`` finds in a file, or in an archive that was opened with its companion."""
        found = verify(source, limits=limits)
        self.verified = {"error": 0, "warning": 0, "note": 0}
        for one in found:
            severity = one.severity if one.severity in self.verified else "error"
            self.verified[severity] += 1
            self.rows.append(("verify", one.severity, "", one.record, one.place, one.message))

    def add_leaks(self, data: memoryview, limits: Limits) -> None:
        """Add what ``leaks`` finds; without its texts, unless paths are shown."""
        try:
            found = leaks(data, limits=limits)
        except ArchiveError as error:
            self.left_out.append(f"leaks: not searched: {error}")
            return
        counts: dict[str, int] = {}
        counting = {id(finding) for finding in found.counted()}
        for finding in found.findings:
            if id(finding) in counting:
                counts[str(finding.kind)] = counts.get(str(finding.kind), 0) + 1
        self.leaks = [[kind, count] for kind, count in counts.items()]
        for finding in found.findings[:MOST_LEAKS]:
            text = f"{finding.text}: " if self._shown.has_paths else ""
            times = "" if finding.count == 1 else f"found {counted(finding.count, 'time')}; "
            place = finding.places[0]
            where = place.within or ("" if place.byte is None else f"byte {place.byte}")
            severity = "warning" if id(finding) in counting else "note"
            message = f"{text}{times}{finding.remedy}"
            record, where = (place.record, where) if self._shown.has_paths else ("", "")
            self.rows.append(("leaks", severity, str(finding.kind), record, where, message))
        more = len(found.findings) - MOST_LEAKS + sum(found.more.values())
        if more > 0 and len(found.findings) > MOST_LEAKS:
            self.left_out.append(f"leaks: {more:,} further texts")

    def add_gates(self, opened: Archive, data: memoryview) -> None:
        """Add what ``migrate`` would do for the newest release, and why there are no debug handles."""
        try:
            planned = migrate(data, to="latest", dry_run=True, limits=opened.limits).plan
        except ArchiveError as error:
            self.rows.append(("migrate", "error", "refused", "", "", str(error)))
        else:
            for what, steps in (("change", planned.changes), ("rescue", planned.rescues)):
                self.rows += (("migrate", "note", what, "", "", str(step)) for step in steps)
            self.rows += (("migrate", "warning", "loss", "", "", str(step)) for step in planned.losses)
            self.rows += (("migrate", "note", "remark", "", "", remark) for remark in planned.remarks)
        try:
            if not opened.handles:
                self.rows.append(("lite", "note", "no handles", "", "", why_no_handles(opened)))
        except ArchiveError:  # `verify` tells
            pass
