"""``debug-archive verify``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from archive.base.diagnostics import diagnostic_of
from archive.base.errors import ArchiveError, counted
from archive.base.mapped import source_of
from archive.base.urls import name_of
from archive.batches.inputs import names_several
from archive.batches.reading import Listed, listing
from archive.check.verify import CHECKED_KINDS, Diagnostic, verify
from archive.cli import options, printing
from archive.cli.annotations import annotations_of, annotations_option
from archive.cli.code_scanning import refuse_two_forms, result_of, sarif_option, write_sarif
from archive.cli.several import files_argument, jobs_option, reading
from archive.cli.status import Status
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive import Limits
    from archive.base.diagnostics import Severity
    from archive.batches.reading import Reading
    from archive.cli.annotations import Annotations
    from archive.report.sarif import Level, Result

LISTED_KINDS = CHECKED_KINDS | {FileKind.LFS}
"""The kinds of files in folders that are checked. A pointer stands for a model, perhaps: it is told."""
NEVER_HIDDEN = {"error", "not checked", "internal error"}
"""Severities that ``--quiet`` does not hide."""
RULES: Mapping[str, str] = {
    "error": "something cannot be read, or it leads to wrong source or none",
    "warning": "all can be read, but something is lost or contradicts itself",
    "note": "allowed, but not as PyTorch writes an archive with all of its debug info",
    "not checked": "the file is no archive, or a pointer to one",
    "internal error": "a fault of debug-archive ended the check",
}
"""Severities, as rules of a code scanner."""
LEVELS: Mapping[Severity, Level] = {"warning": "warning", "note": "note"}
"""Levels of severities in SARIF; that of the others is ``error``."""


@click.command("verify")
@files_argument
@click.option("-q", "--quiet", is_flag=True, help="No warnings and notes.")
@jobs_option
@annotations_option
@options.no_map_option
@options.limit_option
@sarif_option
@options.json_option()
def command(
    files: tuple[str, ...],
    *,
    quiet: bool,
    jobs: int | None,
    annotations: str | None,
    mapped: bool,
    limits: Limits,
    as_sarif: bool,
    as_json: bool,
) -> Status:
    """Check files: structure, checksums, and that all debug records agree with each other.

    All problems of a file are listed, each with its place. Of a file that is no archive it is said what it
    is, and that it was not checked; in folders, such files are left out and counted.

    Exit status: 0 well, 1 there is an error, 2 a file was not checked or cannot be read, 70 internal
    error.

    \b
    Examples:
      debug-archive verify model.ptl
      debug-archive verify --quiet models/*.pt
      debug-archive verify models/ -j 8
      debug-archive verify 'models/**/*.ptl'
      debug-archive verify models/ --json > problems.json
      debug-archive verify models/ --sarif > problems.sarif
    """  # noqa: D301 (click reads the backspace)
    refuse_two_forms(as_sarif=as_sarif, as_json=as_json)
    check = partial(_check, limits=limits, mapped=mapped)
    notes = annotations_of(annotations, as_json=as_json or as_sarif)
    run = _Run(notes, quiet=quiet, as_json=as_json)
    with notes.behind():
        if as_sarif:
            return run.scanned(files, check, jobs, mapped=mapped)
        if len(files) == 1 and not names_several(files[0]):
            return run.one(name_of(files[0]), check(Listed(files[0], "")))
        return run.several(files, check, jobs, mapped=mapped)


@dataclass(frozen=True, slots=True)
class _Checked:
    """The diagnostics of a file, and whether it could be read."""

    found: Sequence[Diagnostic]
    is_read: bool = True

    @property
    def status(self) -> Status:
        severities = {one.severity for one in self.found}
        if "internal error" in severities:
            return Status.INTERNAL
        if not self.is_read or "not checked" in severities:
            return Status.FAILED
        return Status.FINDINGS if "error" in severities else Status.WELL


def _check(file: Listed, *, limits: Limits, mapped: bool) -> _Checked:
    try:
        return _Checked(verify(source_of(file.name, mapped=mapped), limits=limits))
    except ArchiveError as error:  # of a file that cannot be read as a whole
        return _Checked([diagnostic_of(error)])
    except OSError as error:  # the other files are still checked
        return _Checked([Diagnostic("error", "", "", error.strerror or str(error))], is_read=False)


def _checked(result: Reading[_Checked]) -> _Checked:
    """What came of a file; of one whose check ended without a result, why."""
    if result.facts is not None:
        return result.facts
    return _Checked(
        [Diagnostic("internal error" if result.is_internal else "not checked", "", "", result.error)]
    )


class _Run:
    """One run of the command.

    Args:
        notes: the annotations.
        quiet: whether warnings and notes are hidden.
        as_json: whether facts are printed as JSON.
    """

    def __init__(self, notes: Annotations, *, quiet: bool, as_json: bool) -> None:
        self._notes = notes
        self._quiet = quiet
        self._as_json = as_json
        self._files = Counter[Status]()
        self._warned = 0

    def one(self, name: str, checked: _Checked) -> Status:
        """Print what was found in a single file."""
        found = self._take(name, checked)
        if self._as_json:
            printing.write_json({name: found})
        else:
            _write_lines(name, found, printing.write_line)
        return checked.status

    def several(
        self, inputs: Sequence[str], check: Callable[[Listed], _Checked], jobs: int | None, *, mapped: bool
    ) -> Status:
        """Print what was found in each of several files, as they are done, and the total."""
        files, json = listing(inputs, kinds=LISTED_KINDS, mapped=mapped), printing.JsonParts()
        with reading(files, check, "verifying", jobs, as_json=self._as_json) as (lines, results):
            for result in results:
                found = self._take(result.file.label, _checked(result))
                if self._as_json:
                    json.add({result.file.label: found})
                else:
                    _write_lines(result.file.label, found, lines.write_line)
        if self._as_json:
            json.end()
        else:
            printing.write_line(self._total())
        return max(self._files)

    def scanned(
        self, inputs: Sequence[str], check: Callable[[Listed], _Checked], jobs: int | None, *, mapped: bool
    ) -> Status:
        """Print what was found in all files as one SARIF log."""
        files = listing(inputs, kinds=LISTED_KINDS, mapped=mapped)
        results: list[Result] = []
        with reading(files, check, "verifying", jobs, as_json=True) as (_, readings):
            for one in readings:
                found = self._take(one.file.label, _checked(one))
                results += (_result(one.file, diagnostic) for diagnostic in found)
        write_sarif(RULES, results)
        return max(self._files)

    def _take(self, name: str, checked: _Checked) -> list[Diagnostic]:
        """Count a file and annotate it; the diagnostics that are shown."""
        found = [one for one in checked.found if not self._quiet or one.severity in NEVER_HIDDEN]
        self._files[checked.status] += 1
        self._warned += checked.status is Status.WELL and bool(found)
        errors = [str(one) for one in found if one.severity in NEVER_HIDDEN]
        self._notes.add("error", name, "verify", errors)
        self._notes.add("warning", name, "verify", [str(one) for one in found if one.severity == "warning"])
        return found

    def _total(self) -> str:
        """The last line: how many files came out how."""
        files = self._files
        warned = f" ({self._warned:,} with warnings or notes)" if self._warned else ""
        internal = f", {files[Status.INTERNAL]:,} with internal errors" if files[Status.INTERNAL] else ""
        return (
            f"{counted(files.total(), 'file')}: {files[Status.WELL]:,} well{warned}, "
            f"{files[Status.FINDINGS]:,} with findings, {files[Status.FAILED]:,} not checked{internal}"
        )


def _result(file: Listed, one: Diagnostic) -> Result:
    where = ", ".join(part for part in (one.record, one.place) if part)
    return result_of(file, one.severity, LEVELS.get(one.severity, "error"), one.message, where)


def _write_lines(name: str, found: Sequence[Diagnostic], write_line: Callable[[str], None]) -> None:
    for one in found:
        write_line(f"{name}: {one.severity}: {one}")
    if not found:
        write_line(f"{name}: well")
