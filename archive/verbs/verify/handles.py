"""The call-stack debug map: what debug handles stand for.

- It can be read, and has the bytes that PyTorch would write for its rows. Texts are UTF-8.
- Handles and tags are as PyTorch demands when it loads them: see ``loads``.
- Operators have names. A map of PyTorch 1.9.0, converted to four elements, has none at all: that is one note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import counted
from archive.formats import callstack_map
from archive.formats.callstack_map import CALLSTACK_MAP
from archive.formats.record_kinds import MIGRATED
from archive.verbs.verify.records import check_bytes
from archive.verbs.verify.texts import check_texts

if TYPE_CHECKING:
    from archive.debuginfo.tables import HandleTable
    from archive.reader.archive import Archive
    from archive.verbs.verify.diagnostic import Diagnostics, Ints


def check_handles(
    archive: Archive, readable: set[str], tags: Ints | None, report: Diagnostics
) -> Ints | None:
    """Check the map.

    Args:
        archive: the archive.
        readable: the records that can be read.
        tags: those of all source ranges, sorted; None where they are not all known.
        report: where findings go.

    Returns:
        The handles that the map knows, sorted; None where there is no map, or none that can be read.
    """
    table = report.attempt(CALLSTACK_MAP, lambda: archive.handle_table) if CALLSTACK_MAP in readable else None
    if table is None:
        return None
    check_texts(table.strings, [CALLSTACK_MAP], report)
    _check_operators(table, report, migrated=MIGRATED in archive.records)
    if tags is None:
        report.add("note", CALLSTACK_MAP, "", "tags are not looked up, as not all source ranges can be read")
    layout = callstack_map.generation(table)
    check_bytes(archive, CALLSTACK_MAP, lambda: callstack_map.build_callstack_map(table, layout), report)
    return np.unique(table.handle)


def _check_operators(table: HandleTable, report: Diagnostics, *, migrated: bool) -> None:
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
