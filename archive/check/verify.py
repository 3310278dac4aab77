"""An archive → every inconsistency in its records and between them, as diagnostics with their places.

Each record is read on its own, so that a broken one does not hide what is wrong in others. Rows are checked
as columns. The docstrings of ``records``, ``ranges``, ``methods``, ``storages``, ``code``, ``registered``,
``programs`` and ``loading`` list the rules, which archives of PyTorch 1.0 to 2.13 keep. Here stand those of
archives as a whole:

- PyTorch loads the archive: the checks of :mod:`archive.reader.loading`, with PyTorch's own messages. A
  contradiction is an error. A format of another release, which is right in itself but not read by PyTorch
  2.13, is a note.
- PyTorch 2.13 finds what it loads of compiled models, and ``kernel_information.json``, which PyTorch does not
  need, can be read.
- A companion gives the metadata of all nodes.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.diagnostics import Diagnostic, Diagnostics, diagnostic_of
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.check.bytes_only import check_sums, check_tensors
from archive.check.code import check_code
from archive.check.methods import check_handles, check_lowered, check_methods
from archive.check.ranges import check_ranges
from archive.check.records import check_intact, check_records
from archive.check.registered import check_registered
from archive.check.storages import check_storages
from archive.container.container import Container
from archive.formats.record_kinds import BYTECODE, CALLSTACK_MAP, METHOD_HANDLES
from archive.io.mapped import Mapped
from archive.reader.archive import Archive
from archive.reader.loading import CHECKS, Fault, Loader, ParsedRecords, has_checks
from archive.reader.opening import open as open_archive
from archive.reader.recognition import (
    DAMAGED_KINDS,
    PROGRAM_KINDS,
    TENSOR_KINDS,
    FileKind,
    head_kind,
    is_zip,
    recognise_for,
)
from archive.reader.recognition.kinds import COMMAND_KINDS, PARSED_KINDS, claims_falsely, commands_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.base.columns import Ints
    from archive.base.diagnostics import Severity
    from archive.io.mapped import Source
    from archive.normalform.metadata import Metadata
    from archive.reader.companion import Companion

__all__ = ["CHECKED_KINDS", "Diagnostic", "verify"]

CHECKED_KINDS = COMMAND_KINDS["verify"]
"""The kinds of files that are checked."""
OPENED = PARSED_KINDS | TENSOR_KINDS
"""Those that are opened; of the other zips, only the directory is read, and no pickle."""
NOT_PARSED = "source ranges are checked as the companion's columns, not as the bytes that it gives back"

SEVERAL_KINDS = {FileKind.ONNX, FileKind.SHARDED}
"""Those of which files beside them are a part, which are opened by the path of the first."""


class Verification(NamedTuple):
    """The diagnostics of a file, in the order of its records, and what was looked at, in sentences.

    ``unchecked`` is what no check of such a file looks at, each in a few words.
    """

    diagnostics: list[Diagnostic]
    checked: list[str]
    unchecked: Sequence[str] = ()


@bounded
def verify(source: Archive | Source, *, limits: Limits = DEFAULT_LIMITS) -> list[Diagnostic]:
    """Check an archive: its records, and that they agree with each other.

    Args:
        source: an open archive, which stays open, or what :func:`archive.open` takes.
        limits: what hostile input may cost; an open archive has its own.

    Returns:
        The diagnostics in the order of the records; none if all is well. A broken file gives a single one,
        the reader's error. A file that isn't a model gives a single one of severity ``not checked``, which
        says what the file is. At most 100 of one kind are listed for one record, and the others counted.

    Raises:
        OSError: the source cannot be read.
    """
    return verification(source, limits=limits).diagnostics


@bounded
def verification(source: Archive | Source, *, limits: Limits = DEFAULT_LIMITS) -> Verification:
    """:func:`verify`, and what it has looked at: nothing of it could not be read."""
    if isinstance(source, Archive):
        return _diagnostics(source)
    try:
        with closing(Mapped(source)) as mapped:
            try:
                is_one = is_zip(mapped.data) or head_kind(mapped) not in SEVERAL_KINDS
                with (
                    open_archive(mapped if is_one else source, limits=limits, kinds=OPENED) as archive,
                    memory.charged(archive.allowance),
                ):
                    return _diagnostics(archive)
            except ArchiveError:
                recognised = recognise_for(mapped, OPENED, limits=limits)
                if recognised.kind in OPENED:
                    raise
                why = str(recognised)
                if recognised.kind in CHECKED_KINDS and commands_on(recognised.kind) in recognised.advice:
                    # What has advice of its own is a package, whose files are named like debug records.
                    if recognised.own_advice or not claims_falsely(mapped.name, recognised.kind):
                        return _of_zip_file(mapped, limits)
                    why = f"{recognised.what}: {recognised.reason}"
                severity: Severity = "error" if recognised.kind in DAMAGED_KINDS else "not checked"
                return Verification([Diagnostic(severity, "", "", why)], [])
    except ArchiveError as error:
        return Verification([diagnostic_of(error)], [])


def _diagnostics(archive: Archive) -> Verification:
    """The diagnostics of an archive, of the archive that a split one is restored to, or of a companion."""
    if archive.recognised.kind in PROGRAM_KINDS:
        return _of_programs(archive)
    if archive.tensor_file is not None and archive.recognised.kind is FileKind.EXECUTORCH:
        from archive.check.executorch import check_program  # noqa: PLC0415 (few archives need it)

        report = Diagnostics()
        check_program(archive.tensor_file, report)
        return _verification(report, archive.records)
    if archive.tensor_file is not None:
        report = Diagnostics()
        check_tensors(archive.tensor_file, report)
        return _verification(report, archive.records)
    if archive.recognised.kind not in PARSED_KINDS:
        return _of_zip(archive.container)
    if archive.companion is None:
        return _of_torchscript(archive, restored=False)
    if archive.has_code:
        return _of_split(archive)
    return _of_companion(archive.companion)


def _of_zip_file(mapped: Mapped, limits: Limits) -> Verification:
    """Check a zip of which nothing but its records' bytes is read."""
    with memory.charged(limits.allowance(mapped.weight)), Container(mapped, rooted=False) as container:
        return _of_zip(container)


def _of_zip(container: Container) -> Verification:
    report = Diagnostics()
    check_sums(container.records, report)
    return _verification(report, container.records)


def _verification(report: Diagnostics, records: Iterable[str]) -> Verification:
    return Verification(report.ordered(records), report.checked, report.unchecked)


def _of_programs(archive: Archive) -> Verification:
    """Check an archive of programs and compiled models, and the companion that is read with it."""
    from archive.check.programs import (  # noqa: PLC0415 (few archives need it)
        check_etrecord,
        check_legacy_programs,
        check_programs,
    )

    report = Diagnostics()
    if archive.recognised.kind is FileKind.ETRECORD:
        check_etrecord(archive, check_intact(archive, report), report)
    elif archive.recognised.kind is FileKind.LEGACY_EXPORTED:
        check_legacy_programs(archive, check_intact(archive, report), report)
    else:
        readable = report.attempt("", lambda: check_records(archive, report)) or set()
        check_programs(archive, readable, report)
        _check_compiled(archive, readable, report)
        _check_metadata(archive.companion, report)
    return _verification(report, archive.records)


def _of_torchscript(archive: Archive, *, restored: bool, ranged: Archive | None = None) -> Verification:
    """Check an archive of TorchScript.

    Args:
        restored: whether it is what ``restore`` or ``join`` would make of a file.
        ranged: the same archive, that has its source ranges from a companion's columns.
    """
    report = Diagnostics()
    readable = report.attempt("", lambda: check_records(archive, report)) or set()
    tags = report.attempt("", lambda: check_ranges(ranged or archive, readable, report, parsed=not ranged))
    handles = report.attempt("", lambda: check_handles(archive, readable, tags, report))
    report.attempt("", lambda: check_methods(archive, readable, handles, report))
    report.attempt("", lambda: check_lowered(archive, readable, handles, report))
    report.attempt("", lambda: check_storages(archive, report))
    report.attempt("", lambda: check_code(archive, readable, report))
    report.attempt("", lambda: check_registered(archive, readable, report))
    if has_checks(archive.recognised.kind):
        _check_loads(archive, readable, tags, report, restored=restored)
    return _verification(report, archive.records)


def _of_split(archive: Archive) -> Verification:
    """Check the archive that a split one is restored to, by its records where the allowance suffices.

    A companion may be a thousandth of the records that it gives back. If parsing their source ranges takes
    more memory than the file is allowed, the companion's columns are checked instead, and a note says so.
    """
    again = archive.reread()
    try:
        _ = again.range_table
    except LimitError as error:
        if error.resource == "memory":
            note = Diagnostic("note", "", "", f"{NOT_PARSED}: {error.problem}")
            restored = _of_torchscript(again, restored=True, ranged=archive)
            return restored._replace(diagnostics=[note, *restored.diagnostics])
    except ArchiveError:  # the check finds it again, and says where
        pass
    return _of_torchscript(again, restored=True)


def _of_companion(companion: Companion) -> Verification:
    """Check that all of a companion can be read, and that its debug records can be made."""
    report = Diagnostics()
    names = report.attempt("", lambda: list(companion.contents.records))
    for name in names or ():
        record = report.attempt(name, partial(companion.contents.records.__getitem__, name))
        report.looked(record is not None, "record", "of the archive made from the companion")
    if names is not None:
        _check_metadata(companion, report)
    return _verification(report, {})


def _check_loads(
    archive: Archive, readable: set[str], tags: Ints | None, report: Diagnostics, *, restored: bool
) -> None:
    """Check what PyTorch checks, as far as records can be read.

    For a fault, each place gets a diagnostic, and PyTorch's message gets one; a fault of a whole record gets
    a single one for both.
    """
    unreported = Diagnostics()  # dropped: other checks report records that cannot be read
    handles = unreported.attempt("", lambda: archive.handle_table) if CALLSTACK_MAP in readable else None
    methods = unreported.attempt("", lambda: archive.method_table) if METHOD_HANDLES in readable else None
    bytecode = unreported.attempt("", lambda: archive.bytecode) if BYTECODE in readable else None
    facts = ParsedRecords(archive, readable, tags, handles, methods, bytecode)
    prefix = "restored, " if restored else ""
    for check in CHECKS:
        severity: Severity = "note" if check.of_release else "error"
        faults = report.attempt("", partial(list[Fault], check.faults(facts)))
        applies = check.loader is not Loader.LITE or BYTECODE in archive.records
        looked_at = faults is not None and applies
        report.looked(looked_at, "check", "made that PyTorch 2.13 makes when it loads an archive")
        for fault in faults or ():
            message = prefix + check.refusal(facts)
            if fault.what:
                report.add_each(severity, *fault)
                report.add(severity, fault.record, "", message)
            else:
                report.add(severity, fault.record, "", f"{fault.describe(0)[1]}; {message}")


def _check_compiled(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    from archive.check.program_loader.files import (  # noqa: PLC0415 (few archives need it)
        CompiledCheck,
        model_folders,
    )

    records = {name: record for name, record in archive.records.items() if name in readable}
    faults: list[Diagnostic] = []
    for model, names in model_folders(archive.records).items():
        with memory.part():
            check = CompiledCheck(model, names, records)
            found = report.attempt("", check.faults)
            looked_at = "checked for what PyTorch 2.13 finds in it before the model's code runs"
            report.looked(found is not None, "compiled model", looked_at)
            looked_into = (
                "looked into as its loader and PyTorch 2.13 do; the libraries that it needs were not"
            )
            report.looked(check.objects, "shared object", looked_into)
            faults += found or []
    report.add_all(faults)
    for compiled in archive.compiled.values():
        report.attempt("", partial(getattr, compiled, "kernels"))


def _check_metadata(companion: Companion | None, report: Diagnostics) -> None:
    """Check that a companion, if there is one, gives the metadata of all nodes."""
    metadata = None if companion is None else report.attempt("", lambda: companion.metadata)
    if metadata is not None:
        for name, rows in metadata.programs.items():
            count = report.attempt(name, partial(_read_all, metadata, rows))
            report.looked(count or 0, "node", "whose metadata the companion gives")


def _read_all(metadata: Metadata, rows: range) -> int:
    for row in rows:
        metadata.of(row)
    return len(rows)
