"""``debug-archive verify``."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click

from archive.base.diagnostics import diagnostic_of
from archive.base.errors import ArchiveError, counted
from archive.base.quick_dataclass import dataclass
from archive.check.verify import Diagnostic, verification
from archive.cli import printing
from archive.cli.ci import sarif_result
from archive.cli.files import Row, files_argument, is_single
from archive.cli.forms import ROW_FORMS
from archive.cli.reading import takes_reader
from archive.cli.status import BY_SEVERITY, Cause, ExitStatus
from archive.io.mapped import source_of
from archive.io.urls import name_of
from archive.reader.recognition.kinds import FOLDER_KINDS
from archive.render.rows import VERIFY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive import Limits
    from archive.base.diagnostics import Severity
    from archive.batches.inputs import InputFile
    from archive.batches.outcome import Reading
    from archive.cli.reading import FileReader
    from archive.render.ci import SarifLevel
    from archive.render.documents import Verified

NEVER_HIDDEN = {"error", "not checked", "internal error"}
"""Severities that ``--quiet`` does not hide."""
RULES: Mapping[str, str] = {
    "error": "something cannot be read, or it leads to wrong source or none",
    "warning": "all can be read, but something is lost or contradicts itself",
    "note": "allowed, but not as PyTorch writes an archive with all of its debug info",
    "not checked": "the file isn't a model, is a pointer to one, or cannot be opened",
    "internal error": "a fault of debug-archive ended the check",
}
"""Severities, as rules of a code scanner."""
MOST_LOOKED_AT = 3
"""Checks of a file that is hardly looked into; of others, JSON has them."""
LEVELS: Mapping[Severity, SarifLevel] = {"warning": "warning", "note": "note"}
"""Levels of severities in SARIF; that of the others is ``error``."""


@click.command("verify")
@files_argument
@click.option("-q", "--quiet", is_flag=True, help="No warnings and notes.")
@takes_reader(*ROW_FORMS, annotations=True, sarif=True)
def command(files: tuple[str, ...], *, quiet: bool, reader: FileReader) -> ExitStatus:
    """Check files: structure, checksums, and that all debug records agree with each other.

    All problems of a file are listed, each with its place. Of checkpoints and other zips, only sizes and
    checksums are compared; of files of tensors and ExecuTorch's programs, which have no checksums, whether
    all is in its place. Of TorchScript's code, syntax and names of operators are checked, but not types. The
    line of such a file says so. A file that isn't a model is reported with what it
    is, and as not checked; in folders, such files are skipped and counted, unless their names say that they
    are models.

    \b
    Examples:
      debug-archive verify model.ptl
      debug-archive verify --quiet models/*.pt
      debug-archive verify models/ -j 8
      debug-archive verify 'models/**/*.ptl'
      debug-archive verify models/ --json > problems.json
      debug-archive verify models/ --sarif > problems.sarif
      debug-archive verify models/ --format csv > problems.csv
      debug-archive verify models/ --format html > problems.html
    """  # noqa: D301 (click reads the backspace)
    check = partial(_check, limits=reader.limits, mapped=reader.mapped)
    run = _Verification(reader, quiet=quiet)
    with reader.annotations.printed_last():
        if is_single(files) and not (reader.as_json or reader.as_sarif):
            name, checked = name_of(files[0]), check(files[0])
            diagnostics = run.take(name, checked)
            for line in _lines(name, diagnostics, checked):
                printing.write_line(line)
            return checked.status
        listing = reader.listing(files, FOLDER_KINDS["verify"])
        work = partial(_check_input, check)
        status = reader.several(listing, work, "verifying", run.row, rules=RULES, text=VERIFY)
        if not (reader.as_json or reader.as_sarif):
            printing.write_line(run.total())
        return status


@dataclass(frozen=True, slots=True)
class _Checked:
    """The diagnostics of a file, and what was looked at, in sentences."""

    diagnostics: Sequence[Diagnostic]
    looked_at: Sequence[str] = ()
    unchecked: Sequence[str] = ()

    @property
    def status(self) -> ExitStatus:
        found = [BY_SEVERITY[one.severity].status for one in self.diagnostics if one.severity in BY_SEVERITY]
        return max(found, default=ExitStatus.WELL)


def _check_input(check: Callable[[str], _Checked], file: InputFile) -> _Checked:
    return check(file.name)


def _check(file: str, *, limits: Limits, mapped: bool) -> _Checked:
    try:
        found = verification(source_of(file, mapped=mapped), limits=limits)
        return _Checked(found.diagnostics, looked_at=found.checked, unchecked=found.unchecked)
    except ArchiveError as error:  # of a file that cannot be read as a whole
        return _Checked([diagnostic_of(error)])
    except OSError as error:  # the other files are still checked
        return _Checked([Diagnostic("not checked", "", "", error.strerror or str(error))])


class _Verification:
    """The rows of files, and how many files came out how."""

    def __init__(self, reader: FileReader, *, quiet: bool) -> None:
        self._annotations = reader.annotations
        self._quiet = quiet
        self._files = Counter[ExitStatus]()
        self._warned = 0

    def take(self, name: str, checked: _Checked) -> list[Diagnostic]:
        """Count a file and annotate it; the diagnostics that are shown."""
        shown = [
            diagnostic
            for diagnostic in checked.diagnostics
            if not self._quiet or diagnostic.severity in NEVER_HIDDEN
        ]
        self._files[checked.status] += 1
        self._warned += checked.status is ExitStatus.WELL and bool(shown)
        errors = [str(diagnostic) for diagnostic in shown if diagnostic.severity in NEVER_HIDDEN]
        self._annotations.add("error", name, "verify", errors)
        warnings = [str(diagnostic) for diagnostic in shown if diagnostic.severity == "warning"]
        self._annotations.add("warning", name, "verify", warnings)
        return shown

    def row(self, reading: Reading[_Checked]) -> Row:
        """The row of a file; of one whose check ended without a result, why."""
        checked = reading.facts
        if checked is None:
            severity: Severity = "internal error" if reading.is_internal else "not checked"
            checked = _Checked([Diagnostic(severity, "", "", reading.reason)])
        name = reading.job.label
        shown = self.take(name, checked)
        results = (
            sarif_result(
                reading.job,
                diagnostic.severity,
                LEVELS.get(diagnostic.severity, "error"),
                diagnostic.message,
                ", ".join(part for part in (diagnostic.record, diagnostic.place) if part),
            )
            for diagnostic in shown
        )
        facts: Verified = {
            "file": name,
            "diagnostics": shown,
            "checked": checked.looked_at,
            "unchecked": checked.unchecked,
        }
        return Row(checked.status, facts, _lines(name, shown, checked), results=results)

    def total(self) -> str:
        """The last line: how many files came out how."""
        counts = self._files
        warned = f" ({self._warned:,} with warnings or notes)" if self._warned else ""
        faults, findings = counts[Cause.FAULT.status], counts[Cause.INCONSISTENT.status]
        return (
            f"{counted(counts.total(), 'file')}: {counts[ExitStatus.WELL]:,} well{warned}, "
            f"{findings:,} with findings, {counts[Cause.UNDONE.status]:,} not checked"
            + (f", {faults:,} with internal errors" if faults else "")
        )


def _lines(name: str, shown: Sequence[Diagnostic], checked: _Checked) -> list[str]:
    """A line for each diagnostic; for a file without, what was not looked at, and a little of what was."""
    if shown:
        return [f"{name}: {diagnostic.severity}: {diagnostic}" for diagnostic in shown]
    if not checked.unchecked:
        return [f"{name}: well"]
    few = len(checked.looked_at) <= MOST_LOOKED_AT and ", ".join(checked.looked_at)
    well = f"{name}: well: {few}" if few else f"{name}: well"
    return [f"{well}; not looked at: {', '.join(checked.unchecked)}"]
