"""Rules for the users of debug handles: methods' instructions, and modules lowered to a backend.

- ``mobile_debug_handles.pkl`` and ``mobile_debug.pkl`` can be read, and have the bytes that PyTorch would
  write for their rows. Texts are UTF-8. The methods are those of ``bytecode.pkl``, in the same order.
- A method has at most as many module paths as instructions: only operators have one. ``loads`` checks that
  it has as many handles as instructions, as PyTorch does when it loads the record.
- The table of effects, if there is one, can be read, and obeys the rules of ``formats/effects/rules.py``.
- The call-stack debug map has each of these handles, and each handle in the blob of a lowered module. An
  archive whose map was taken out keeps its handles: one note.

Rules for the call-stack debug map, which maps debug handles to tags, operators and call stacks.

- The map can be read, and has the bytes that PyTorch would write for its rows. Texts are UTF-8.
- Operators have names. A map of PyTorch 1.9.0 that was converted to four elements has none at all: one note.

``loads`` checks that handles are unique and tags exist, as PyTorch does when it loads the map.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import distinct_values
from archive.base.errors import counted, shown
from archive.check.records import check_bytes, check_texts
from archive.debuginfo.model import Generation
from archive.formats import callstack_map, method_handles
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import BYTECODE, CALLSTACK_MAP, DATA, METHOD_HANDLES, MIGRATED, MODULE_PATHS
from archive.reader.lacking import why_split_off

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.diagnostics import Diagnostics
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.formats.bytecode import Bytecode
    from archive.reader.archive import Archive

# --- handles


def check_handles(
    archive: Archive, readable: set[str], tags: Ints | None, report: Diagnostics
) -> Ints | None:
    """Check the call-stack debug map.

    Args:
        tags: the tags of all source ranges, sorted (n); None where a record of them cannot be read.

    Returns:
        The map's handles, sorted (n); None where the map is missing, or cannot be read.
    """
    table = report.attempt(CALLSTACK_MAP, lambda: archive.handle_table) if CALLSTACK_MAP in readable else None
    if table is None:
        return None
    check_texts(table.strings, [CALLSTACK_MAP], report)
    _check_operators(table, report, migrated=MIGRATED in archive.records)
    if tags is None:
        report.add("note", CALLSTACK_MAP, "", "tags are not looked up, as not all source ranges can be read")
    layout = callstack_map.generation(table)
    check_bytes(
        archive,
        CALLSTACK_MAP,
        partial(callstack_map.build_callstack_map, table, layout),
        report,
    )
    report.looked(len(table), "debug handle", "checked, with call stacks")
    return distinct_values(table.handle)


def _check_operators(table: HandleTable, report: Diagnostics, *, migrated: bool) -> None:
    """Check that operators have names; the archive may have been migrated from a release without names."""
    named = np.flatnonzero(table.op >= 0)
    empty = named[table.strings.length[table.op[named]] == 0]
    if len(empty) and len(empty) == len(table):
        report.add(
            "note", CALLSTACK_MAP, "", "no operator has a name, as after a conversion from PyTorch 1.9.0"
        )
        return
    if len(empty) and migrated:
        why = "the archive is migrated, and there was none before"
        report.add("note", CALLSTACK_MAP, "", f"no name for {counted(len(empty), 'operator')}: {why}")
        return
    report.add_each(
        "warning",
        CALLSTACK_MAP,
        "operators without a name",
        empty,
        lambda row: (f"row {row}, field op", "expected the operator's name, found ''"),
    )


# --- methods

MENDED = "`debug-archive migrate --to latest` gives it a row without source"


def check_methods(archive: Archive, readable: set[str], handles: Ints | None, report: Diagnostics) -> None:
    """Check the records of the methods' instructions.

    Args:
        handles: the handles of the call-stack debug map, sorted (n); None where they are not known.
    """
    bytecode = report.attempt(BYTECODE, lambda: archive.bytecode) if BYTECODE in readable else None
    if EFFECTS in readable:
        report.attempt(EFFECTS, lambda: archive.effects)
    if METHOD_HANDLES in readable:
        table = report.attempt(METHOD_HANDLES, lambda: archive.method_table)
        if table is not None:
            _check_table(archive, table, bytecode, report)
        if table is not None and handles is not None:
            _check_known(table, handles, report)
        if CALLSTACK_MAP not in archive.records and not why_split_off(archive):
            report.add(
                "note",
                METHOD_HANDLES,
                "",
                f"no {CALLSTACK_MAP} that says what the handles stand for",
            )
    elif bytecode is not None and handles is not None and len(handles):
        report.add("note", CALLSTACK_MAP, "", f"no {METHOD_HANDLES} that gives its handles to instructions")
    if MODULE_PATHS in readable:
        table = report.attempt(MODULE_PATHS, lambda: archive.path_table)
        if table is not None:
            _check_table(archive, table, bytecode, report)


def check_lowered(archive: Archive, readable: set[str], handles: Ints | None, report: Diagnostics) -> None:
    """Check the handles in the blobs of lowered modules; the arguments are those of ``check_methods``."""
    if handles is None or DATA not in readable:
        return
    for path, state in (report.attempt(DATA, lambda: archive.lowered) or {}).items():
        own = np.array(state.handles, np.int64)
        place = f"lowered module {shown(path)}"
        unknown = own[~np.isin(own, handles)]
        report.add_each("error", DATA, f"unknown handles of {place}", unknown, partial(_lost, place))
        if state.unread:
            report.add("warning", DATA, "", f"{state.unread} in {place}: its handles are not checked")
        report.looked(1, "lowered module", "checked for handles that nothing knows")


def _check_table(
    archive: Archive, table: MethodTable, bytecode: Bytecode | None, report: Diagnostics
) -> None:
    """Check a record of methods: its texts, methods, version and bytes."""
    name = method_handles.METHOD_RECORDS[table.generation]
    check_texts(table.strings, [name], report)
    if bytecode is not None:
        if table.generation is Generation.MODULE_PATHS:
            _check_names(table, name, bytecode, report)
            _check_counts(table, name, bytecode, report)
        if table.version != bytecode.version:
            message = f"expected version {bytecode.version}, as in {BYTECODE}, found {table.version}"
            report.add("warning", name, "", message)
    elif BYTECODE not in archive.records:
        report.add("warning", name, "", f"no {BYTECODE} with the methods that this is about")
    check_bytes(
        archive,
        name,
        partial(method_handles.build_methods, table),
        report,
    )
    report.looked(len(table.value), "instruction", "of methods checked")


def _check_names(table: MethodTable, record: str, bytecode: Bytecode, report: Diagnostics) -> None:
    """Check that the methods are the bytecode's, in its order."""
    found, expected = list(table.names), list(bytecode.instructions)
    known = set(found)
    missing = [name for name in expected if name not in known]
    unknown = [row for row, name in enumerate(found) if name not in bytecode.instructions]
    report.add_each(
        "error",
        record,
        "missing methods",
        list(range(len(missing))),
        lambda i: ("", f"expected the method {shown(missing[i])} of {BYTECODE}, found none"),
    )
    report.add_each(
        "error",
        record,
        "unknown methods",
        unknown,
        lambda row: (
            f"row {row}, field method",
            f"expected a method of {BYTECODE}, found {shown(found[row])}",
        ),
    )
    if not missing and not unknown and found != expected:
        message = f"expected the methods as in {BYTECODE}, found another order, or one more than once"
        report.add("error", record, "", message)


def _check_counts(table: MethodTable, record: str, bytecode: Bytecode, report: Diagnostics) -> None:
    """Check that no method has more module paths than instructions."""
    names, found, expected = table.names, np.diff(table.first), bytecode.instructions
    wrong = [row for row, name in enumerate(names) if name in expected and found[row] > expected[name]]
    words = "at most as many paths as instructions"
    report.add_each(
        "error",
        record,
        "methods with another number of instructions",
        wrong,
        lambda row: (_method(table, row), f"expected {words}, {expected[names[row]]}, found {found[row]}"),
    )


def _check_known(table: MethodTable, handles: Ints, report: Diagnostics) -> None:
    def describe(at: int) -> tuple[str, str]:
        row = int(np.searchsorted(table.first, at, "right")) - 1
        return _unknown(f"{_method(table, row)}, handle {at - table.first[row]}", int(table.value[at]))

    unknown = np.flatnonzero(~np.isin(table.value, handles))
    report.add_each("error", METHOD_HANDLES, "unknown handles", unknown, describe)


def _method(table: MethodTable, row: int) -> str:
    return f"row {row}, method {shown(table.names[row])}"


def _unknown(place: str, handle: int) -> tuple[str, str]:
    return place, f"expected a handle of {CALLSTACK_MAP}, found {handle}"


def _lost(place: str, handle: int) -> tuple[str, str]:
    """What it means that no map knows an operation of a lowered module."""
    place, message = _unknown(place, handle)
    return place, f"{message}; PyTorch loads it, and nothing says what the operation is: {MENDED}"
