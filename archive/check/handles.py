"""Rules for the call-stack debug map, which maps debug handles to tags, operators and call stacks.

- The map can be read, and has the bytes that PyTorch would write for its rows. Texts are UTF-8.
- Operators have names. A map of PyTorch 1.9.0 that was converted to four elements has none at all: one note.

``loads`` checks that handles are unique and tags exist, as PyTorch does when it loads the map.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import counted
from archive.check.records import check_bytes
from archive.check.texts import check_texts
from archive.formats import callstack_map
from archive.formats.callstack_map import CALLSTACK_MAP
from archive.formats.record_kinds import MIGRATED

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.check.diagnostic import Diagnostics
    from archive.debuginfo.handle_tables import HandleTable
    from archive.reader.archive import Archive


def check_handles(
    archive: Archive, readable: set[str], tags: Ints | None, report: Diagnostics
) -> Ints | None:
    """Check the call-stack debug map.

    Args:
        archive: the archive.
        readable: the records that can be read.
        tags: the tags of all source ranges, sorted (n); None where a record of them cannot be read.
        report: takes the diagnostics.

    Returns:
        The map's handles, sorted (n); None where there is no map, or it cannot be read.
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
        partial(callstack_map.build_callstack_map, table, layout, allowance=archive.allowance),
        report,
    )
    return np.unique(table.handle)


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
