"""An archive → every inconsistency in its records and between them, as diagnostics with their places.

Each record is read on its own, so that a broken one does not hide what is wrong elsewhere. Rows are checked
as columns. The docstrings of ``records``, ``ranges``, ``tags``, ``handles``, ``methods`` and ``loads`` list
the rules, which archives of PyTorch 1.0 to 2.13 keep.

Checks of the metadata of exported programs in a companion.

Rules for packages of AOTInductor.

- PyTorch 2.13 finds what it loads: the checks of :mod:`archive.check.loading.programs.compiled`.
- ``kernel_information.json`` can be read. PyTorch does not need it.

A package may hold exported programs, too, with rules of their own: :mod:`archive.check.programs`.

Whether PyTorch loads the archive: the checks of :mod:`archive.check.loading`, with PyTorch's own messages.

A contradiction is an error. A format of another release, which is right in itself but not read by PyTorch
2.13, is a note.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped
from archive.check.diagnostic import Diagnostic, Diagnostics, diagnostic_of
from archive.check.loading import CHECKS, ParsedRecords
from archive.check.loading.programs.compiled import CompiledCheck, model_folders
from archive.check.methods import check_handles, check_lowered, check_methods
from archive.check.programs import add_by_record
from archive.check.ranges import check_ranges
from archive.check.records import check_intact, check_records
from archive.formats import callstack_map, method_handles
from archive.formats.bytecode import BYTECODE
from archive.reader.archive import Archive
from archive.reader.opening import open as open_archive
from archive.reader.recognition import ARCHIVE_KINDS, DAMAGED_KINDS, PROGRAM_KINDS, FileKind, recognise

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.mapped import Source
    from archive.check.diagnostic import Severity
    from archive.check.loading import Check
    from archive.check.loading.facts import Fault
    from archive.normalform.metadata import Metadata
    from archive.reader.companion import Companion

# --- loads


def check_loads(
    archive: Archive, readable: set[str], tags: Ints | None, report: Diagnostics, *, restored: bool
) -> None:
    """Check what PyTorch checks, as far as records can be read; a torch.package is not checked.

    Args:
        archive: the archive.
        readable: the records that can be read.
        tags: the tags of all source ranges, sorted (n); None where a record of them cannot be read.
        report: takes the diagnostics.
        restored: whether the archive is the one that ``restore`` or ``join`` would make of a file.
    """
    if archive.recognised.kind is FileKind.PACKAGE:
        return
    told = Diagnostics()  # dropped: other checks report records that cannot be read
    handles = (
        told.attempt("", lambda: archive.handle_table) if callstack_map.CALLSTACK_MAP in readable else None
    )
    table = (
        told.attempt("", lambda: archive.method_table) if method_handles.METHOD_HANDLES in readable else None
    )
    bytecode = told.attempt("", lambda: archive.bytecode) if BYTECODE in readable else None
    facts = ParsedRecords(archive, readable, tags, handles, table, bytecode)
    prefix = "restored, " if restored else ""
    for check in CHECKS:
        for fault in report.attempt("", partial(_faults, check, facts)) or ():
            _add(fault, prefix + check.told(facts), report, of_release=check.of_release)


def _faults(check: Check, facts: ParsedRecords) -> list[Fault]:
    return [fault for fault in check.find(facts) if len(fault.found)]


def _add(fault: Fault, told: str, report: Diagnostics, *, of_release: bool) -> None:
    """Add a diagnostic a place and one with PyTorch's message; or a single one about a whole record."""
    severity: Severity = "note" if of_release else "error"
    if fault.what:
        report.add_each(severity, fault.record, fault.what, fault.found, fault.describe)
        report.add(severity, fault.record, "", told)
    else:
        report.add(severity, fault.record, "", f"{fault.describe(0)[1]}; {told}")


# --- compiled


def check_compiled(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check the compiled models of an archive.

    Args:
        archive: the archive.
        readable: the records that can be read.
        report: takes the diagnostics.
    """
    records = {name: record for name, record in archive.records.items() if name in readable}
    found = []
    for model, names in model_folders(archive.records).items():
        with archive.allowance.part() as allowance:
            check = CompiledCheck(model, names, records, allowance)
            found += report.attempt("", check.faults) or []
    add_by_record(found, report)
    for compiled in archive.compiled.values():
        report.attempt("", partial(getattr, compiled, "kernels"))


# --- metadata


def check_metadata(companion: Companion | None, report: Diagnostics) -> None:
    """Check that a companion gives the metadata of all nodes.

    Args:
        companion: None where there is none.
        report: takes the diagnostics.
    """
    metadata = None if companion is None else report.attempt("", lambda: companion.metadata)
    if metadata is not None:
        for name, rows in metadata.programs.items():
            report.attempt(name, partial(_read_all, metadata, rows))


def _read_all(metadata: Metadata, rows: range) -> bool:
    for row in rows:
        metadata.of(row)
    return True


# --- verify

__all__ = ["CHECKED_KINDS", "Diagnostic", "verify"]

CHECKED_KINDS = ARCHIVE_KINDS | PROGRAM_KINDS | {FileKind.COMPANION}
"""The kinds of files that are checked."""
NOT_PARSED = "source ranges are checked as the companion's columns, not as the bytes that it gives back"


@bounded
def verify(source: Archive | Source, *, limits: Limits = DEFAULT_LIMITS) -> list[Diagnostic]:
    """Check an archive: its records, and that they agree with each other.

    Args:
        source: an open archive, which stays open, or what :func:`archive.open` takes.
        limits: what hostile input may cost; an open archive has its own.

    Returns:
        The diagnostics in the order of the records; none if all is well. A broken file gives a single one,
        the reader's error. A file that is no archive gives a single one of severity ``not checked``, which
        says what the file is. At most 100 of one kind are listed for one record, and the others counted.

    Raises:
        OSError: the source cannot be read.
    """
    if isinstance(source, Archive):
        return _diagnostics(source)
    try:
        with closing(Mapped(source)) as mapped:
            return _named(mapped, limits)
    except ArchiveError as error:
        return [diagnostic_of(error)]


def _named(mapped: Mapped, limits: Limits) -> list[Diagnostic]:
    """The diagnostics of a file; for a file that is no archive, its kind."""
    found = recognise(mapped.data, limits=limits)
    if found.kind not in CHECKED_KINDS:
        return [Diagnostic("error" if found.kind in DAMAGED_KINDS else "not checked", "", "", str(found))]
    with open_archive(mapped.data, limits=limits, name=mapped.name) as archive:
        return _diagnostics(archive)


def _diagnostics(archive: Archive) -> list[Diagnostic]:
    """The diagnostics of an archive, of the archive that a split one is restored to, or of a companion."""
    if archive.recognised.kind in (FileKind.EXPORTED, FileKind.AOTI):
        return _exported(archive)
    if archive.recognised.kind is FileKind.ETRECORD:
        return _etrecord(archive)
    if archive.recognised.kind is FileKind.LEGACY_EXPORTED:
        return _legacy(archive)
    if archive.companion is None:
        return _checked(archive, restored=False)
    if archive.has_code:
        return _restored(archive)
    return _companion_diagnostics(archive.companion)


def _exported(archive: Archive) -> list[Diagnostic]:
    """Check an archive of programs and compiled models, and the companion that is read with it."""
    from archive.check.programs import check_programs  # noqa: PLC0415 (the same)

    report = Diagnostics()
    readable = report.attempt("", lambda: check_records(archive, report)) or set()
    check_programs(archive, readable, report)
    check_compiled(archive, readable, report)
    check_metadata(archive.companion, report)
    return report.ordered(archive.records)


def _etrecord(archive: Archive) -> list[Diagnostic]:
    """Check an ETRecord."""
    from archive.check.etrecords import check_etrecord  # noqa: PLC0415 (few are one)

    report = Diagnostics()
    check_etrecord(archive, check_intact(archive, report), report)
    return report.ordered(archive.records)


def _legacy(archive: Archive) -> list[Diagnostic]:
    """Check an exported program of PyTorch 2.1 to 2.7."""
    from archive.check.legacy_programs import check_legacy_programs  # noqa: PLC0415 (few are one)

    report = Diagnostics()
    check_legacy_programs(archive, check_intact(archive, report), report)
    return report.ordered(archive.records)


def _restored(archive: Archive) -> list[Diagnostic]:
    """Check the archive that a split one is restored to, by its records where the allowance suffices.

    A companion may be a thousandth of the records that it gives back. To parse their source ranges may cost
    more than the file is allowed; then the companion's columns are checked instead, and a note says so.
    """
    again = archive.reread()
    problem = _too_large(again)
    if problem is None:
        return _checked(again, restored=True)
    note = Diagnostic("note", "", "", f"{NOT_PARSED}: {problem}")
    return [note, *_checked(again, restored=True, ranged=archive)]


def _too_large(archive: Archive) -> str | None:
    """The bound that the source ranges of an archive exceed; None if they can be parsed."""
    try:
        _ = archive.range_table
    except LimitError as error:
        return error.problem if error.resource == "memory" else None
    except ArchiveError:  # the check finds it again, and says where
        return None
    return None


def _checked(archive: Archive, *, restored: bool, ranged: Archive | None = None) -> list[Diagnostic]:
    """Check an archive; ``ranged``: the same one, that has its source ranges from a companion's columns."""
    report = Diagnostics()
    readable = report.attempt("", lambda: check_records(archive, report)) or set()
    tags = report.attempt("", lambda: check_ranges(ranged or archive, readable, report, parsed=not ranged))
    handles = report.attempt("", lambda: check_handles(archive, readable, tags, report))
    report.attempt("", lambda: check_methods(archive, readable, handles, report))
    report.attempt("", lambda: check_lowered(archive, readable, handles, report))
    check_loads(archive, readable, tags, report, restored=restored)
    return report.ordered(archive.records)


def _companion_diagnostics(companion: Companion) -> list[Diagnostic]:
    """Check that all of a companion can be read, and that its debug records can be made."""
    report = Diagnostics()
    names = report.attempt("", lambda: list(companion.contents.records))
    for name in names or ():
        report.attempt(name, partial(companion.contents.records.__getitem__, name))
    if names is not None:
        check_metadata(companion, report)
    return report.ordered({})
