"""A traced archive whose one method does all that it does several times over.

PyTorch traces a million rows in two minutes; this takes a fraction. What is made is what a longer trace has:
statements that follow each other in one method, rows with offsets and tags of their own, and graphs whose
generated code has names of its own. Only the variables are the same again. PyTorch loads it, and computes
what that many calls of the first archive do.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import archive
from archive.base.columns import firsts, table_with
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.container.write import new_member, write_archive
from archive.formats.source_ranges import build_source_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.columns import Ints
    from archive.debuginfo.tables import RangeTable

STATEMENTS, RETURN, AGAIN = b"  x: Tensor) -> Tensor:\n", b"    return ", b"    x    = "
"""What stands before the statements, and how the last one begins; then it gives the next ones their ``x``."""
GRAPH = b"<eval_with_key>."
"""How strings begin that name a graph's code, which has a number."""


def repeated(data: bytes, times: int) -> bytes:
    """A traced archive of one code record, with so many times its statements and source ranges."""
    out = io.BytesIO()
    with archive.open(data) as opened:
        (debug,) = opened.range_records
        name = debug.removesuffix(".debug_pkl")
        code = bytes(opened.records[name].view())
        begin = code.index(STATEMENTS) + len(STATEMENTS)
        again = code[begin:].replace(RETURN, AGAIN)
        ranges = _repeated_ranges(opened.range_table, begin, len(again), times)
        made = {
            name: code[:begin] + again * (times - 1) + code[begin:],
            debug: build_source_ranges(ranges, 0),
        }
        members = [
            new_member(name, made.get(name) or record.view())
            for name, record in opened.records.items()
            if name != RECORD_NAME
        ]
        members.append(new_member(RECORD_NAME, serialization_id(members).encode()))
        write_archive(out, opened.root, members)
    return out.getvalue()


def _repeated_ranges(table: RangeTable, begin: int, length: int, times: int) -> RangeTable:
    """The rows before the statements, then the others several times.

    Args:
        table: of one record.
        begin: the first byte of the statements.
        length: of the statements.
        times: how often these come.
    """
    sources, strings = table.sources, table.sources.strings
    head = int(np.searchsorted(table.offset, begin))
    own = [at for at in table.table.tolist() if bytes(strings.data(at)).startswith(GRAPH)]
    names = [bytes(strings.data(at)).removeprefix(GRAPH).partition(b" ") for at in own]
    more = [
        GRAPH + b"%d " % (int(number) + turn * len(own)) + rest
        for turn in range(1, times)
        for number, _, rest in names
    ]

    def turns(column: Ints, moved: Callable[[Ints, int], Ints], first: int = 0) -> Ints:
        return np.concatenate([column, *(moved(column[first:], turn) for turn in range(1, times))])

    def same(values: Ints, _: int) -> Ints:
        return values

    def moved_by(step: int) -> Callable[[Ints, int], Ints]:
        """Row 0 stays: the null source, and its tag."""
        return lambda values, turn: np.where(values > 0, values + turn * step, values)

    def renamed(index: Ints, turn: int) -> Ints:
        number = np.arange(len(strings))
        number[own] = len(strings) + (turn - 1) * len(own) + np.arange(len(own))
        return number[index]

    return replace(
        table,
        first=np.array([0, len(table) + (times - 1) * (len(table) - head)]),
        offset=turns(table.offset, moved_by(length), head),
        source=turns(table.source, moved_by(len(sources)), head),
        start=turns(table.start, same, head),
        end=turns(table.end, same, head),
        tag=turns(table.tag, moved_by(int(table.tag.max()) + 1), head),
        sources=replace(
            sources,
            strings=table_with(strings, more),
            first=firsts(turns(np.diff(sources.first), same)),
            piece=turns(sources.piece, renamed),
            filename=turns(sources.filename, renamed),
            line=turns(sources.line, same),
            is_null=turns(sources.is_null, same),
        ),
        table_first=np.array([0, len(table.table) + len(more)]),
        table=np.concatenate([table.table, len(strings) + np.arange(len(more))]),
    )
