"""Whether PyTorch loads the archive: the checks of :mod:`archive.check.loading`, with PyTorch's own messages.

A contradiction is an error. A format of another release, which is right in itself but not read by PyTorch
2.13, is a note.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from archive.check.diagnostic import Diagnostics
from archive.check.loading import CHECKS, ParsedRecords
from archive.formats import callstack_map, method_handles
from archive.formats.bytecode import BYTECODE
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.check.diagnostic import Severity
    from archive.check.loading import Check
    from archive.check.loading.facts import Fault
    from archive.reader.archive import Archive


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
