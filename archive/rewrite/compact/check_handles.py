"""Call-stack maps, and the handles or paths of methods, of two archives are compared."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, shown
from archive.debuginfo.model import Generation
from archive.formats.record_kinds import CALLSTACK_MAP
from archive.rewrite.compact.comparing import SHOWN_WIDTH, compare, count_of, quoted, refuse_missing
from archive.rewrite.compact.stacks import frame_numbers
from archive.rewrite.compact.strings import string_numbers

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.rewrite.compact.comparing import Known, Where

HANDLE_BYTES, FRAME_BYTES, METHOD_BYTES, VALUE_BYTES = 200, 400, 200, 80
"""Bytes of memory to compare a handle, a frame of call stacks, a method, and a handle or path of one."""


def compare_handles(before: HandleTable | None, after: HandleTable | None, allowance: Allowance) -> None:
    """Refuse call-stack maps that differ.

    Raises:
        ArchiveError: naming the handle and field of a difference.
        LimitError: comparing them would cost more memory than the allowance has.
    """
    name = CALLSTACK_MAP
    refuse_missing(name, before=before is not None, after=after is not None)
    if before is None or after is None:
        return
    compare(lambda _: (name, ""), np.array([len(before)]), np.array([len(after)]), count_of("handles"))
    with allowance.part() as part:
        part.take(HANDLE_BYTES * len(before) + FRAME_BYTES * len(before.next), "handles that are compared")
        _compare_rows_of_handles(before, after, part)


def _compare_rows_of_handles(before: HandleTable, after: HandleTable, allowance: Allowance) -> None:
    name = CALLSTACK_MAP
    order, other = (np.argsort(table.handle, kind="stable") for table in (before, after))
    handle = before.handle[order]
    compare(lambda row: (name, f"row {row} by handle"), handle, after.handle[other])

    def where(field: str) -> Where:
        return lambda row: (name, f"handle {handle[row]}, field {field}")

    compare(where("tag"), before.tag[order], after.tag[other])
    known: Known = {}
    op = string_numbers(before.strings, before.op, known, allowance)
    other_op = string_numbers(after.strings, after.op, known, allowance)
    compare(where("op"), op[order], other_op[other], quoted(known))
    frames: dict[tuple[int, object], int] = {}
    stack, other_stack = (_stack_numbers(table, known, frames, allowance) for table in (before, after))
    for row in np.flatnonzero(stack[order] != other_stack[other])[:1].tolist():
        calls = before.entry(int(order[row])).stack, after.entry(int(other[row])).stack
        frame, pair = next((i, pair) for i, pair in enumerate(zip_longest(*calls)) if pair[0] != pair[1])
        expected, found = (shown(call, SHOWN_WIDTH) for call in pair)
        place = f"handle {handle[row]}, frame {frame}"
        raise ArchiveError(record=name, place=place, expected=expected, found=found)


def _stack_numbers(
    table: HandleTable, known: Known, frames: dict[tuple[int, object], int], allowance: Allowance
) -> Ints:
    """Numbers of the rows' call stacks, the same for equal ones; -1 for none (h)."""
    function, types, instances = (
        string_numbers(table.strings, column, known, allowance).tolist()
        for column in (table.function, table.module_type, table.module_instance)
    )
    modules = [*zip(types, instances, strict=True), None]  # -1 finds the None
    owners = map(modules.__getitem__, table.module.tolist())
    facts = list(zip(owners, table.call_tag.tolist(), function, strict=True))
    numbers: Ints = np.append(frame_numbers(table.next, facts, frames), -1)[table.stack]
    return numbers


def compare_methods(
    name: str, before: MethodTable | None, after: MethodTable | None, allowance: Allowance
) -> None:
    """Refuse records of methods that differ.

    Raises:
        ArchiveError: naming the method and instruction of a difference.
        LimitError: comparing them would cost more memory than the allowance has.
    """
    refuse_missing(name, before=before is not None, after=after is not None)
    if before is None or after is None:
        return
    compare(lambda _: (name, "version"), np.array([before.version]), np.array([after.version]))
    compare(lambda _: (name, ""), np.array([len(before)]), np.array([len(after)]), count_of("methods"))
    allowance.take(METHOD_BYTES * len(before) + VALUE_BYTES * len(before.value), "methods that are compared")
    known: Known = {}
    names, other_names = (
        string_numbers(table.strings, table.name, known, allowance) for table in (before, after)
    )
    compare(lambda method: (name, f"method {method}"), names, other_names, quoted(known))
    compare(
        lambda method: (name, f"method {method}"),
        np.diff(before.first),
        np.diff(after.first),
        count_of("instructions"),
    )

    def where(instruction: int) -> tuple[str, str]:
        method = int(np.searchsorted(before.first, instruction, "right")) - 1
        return name, f"method {method}, instruction {instruction - int(before.first[method])}"

    if before.generation is Generation.MODULE_PATHS:
        paths, other_paths = (
            string_numbers(table.strings, table.value, known, allowance) for table in (before, after)
        )
        compare(where, paths, other_paths, quoted(known))
    else:
        compare(where, before.value, after.value)
