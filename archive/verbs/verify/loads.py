"""Whether PyTorch loads it: what :mod:`archive.verbs.loading` lists, each with PyTorch's own message.

What contradicts itself is an error. What another release wrote, and today's does not read, is well in itself,
and noted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from archive.formats import callstack_map, method_handles
from archive.formats.bytecode import BYTECODE
from archive.reader.recognition import FileKind
from archive.verbs.loading import CHECKS, ParsedRecords
from archive.verbs.verify.diagnostic import Diagnostics

if TYPE_CHECKING:
    from archive.reader.archive import Archive
    from archive.verbs.loading import Check
    from archive.verbs.loading.facts import Fault
    from archive.verbs.verify.diagnostic import Ints, Severity


def check_loads(
    archive: Archive, readable: set[str], tags: Ints | None, report: Diagnostics, *, restored: bool
) -> None:
    """Check what PyTorch checks, as far as records can be read; of a torch.package nothing is listed.

    Args:
        archive: the archive.
        readable: the records that can be read.
        tags: those of all source ranges, sorted; None where they are not all known.
        report: where findings go.
        restored: whether it is what ``restore`` or ``join`` would make of a file.
    """
    if archive.recognised.kind is FileKind.PACKAGE:
        return
    told = Diagnostics()  # what cannot be read has been told of
    handles = (
        told.attempt("", lambda: archive.handle_table) if callstack_map.CALLSTACK_MAP in readable else None
    )
    table = (
        told.attempt("", lambda: archive.method_table) if method_handles.METHOD_HANDLES in readable else None
    )
    bytecode = told.attempt("", lambda: archive.bytecode) if BYTECODE in readable else None
    facts = ParsedRecords(archive, readable, tags, handles, table, bytecode)
    for check in CHECKS:
        for fault in report.attempt("", partial(_faults, check, facts)) or ():
            _add(fault, "restored, " * restored + check.told(facts), report, of_release=check.of_release)


def _faults(check: Check, facts: ParsedRecords) -> list[Fault]:
    return [fault for fault in check.find(facts) if len(fault.found)]


def _add(fault: Fault, told: str, report: Diagnostics, *, of_release: bool) -> None:
    """One finding for each place, and one with what PyTorch says; or both in one, about a whole record."""
    severity: Severity = "note" if of_release else "error"
    if fault.what:
        report.add_each(severity, fault.record, fault.what, fault.found, fault.describe)
        report.add(severity, fault.record, "", told)
    else:
        report.add(severity, fault.record, "", f"{fault.describe(0)[1]}; {told}")
