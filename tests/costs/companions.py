"""Companions that fit an archive, and say more of it than it has: few bytes, for columns compress well."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.debuginfo.model import RangeLayout
from archive.formats.record_kinds import EMBEDDED
from archive.normalform.columns import RANGE_LAYOUTS
from archive.normalform.form import NormalForm
from tests.support.corpus import RELEASES
from tests.support.halves import facts_of, halves
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.columns import Ints
    from archive.normalform.columns import Columns

    Change = Callable[[Columns, int], Columns]

BASE = RELEASES / "torch-2.13.0" / "unicode.ptl"
LINES = 500
"""Lines of the text that many sources share."""
FRAMES = 4_000
AT: tuple[str, str] = ("row.offset", "row.column")


def _more(columns: Columns, times: int, *names: str) -> Columns:
    """Columns whose last value stands so many times more."""
    return {name: np.append(columns[name], np.repeat(columns[name][-1:], times)) for name in names}


def _counted(columns: Columns, times: int, *names: str) -> Columns:
    """Columns that go on counting up."""
    return {name: np.append(columns[name], columns[name].max() + 1 + np.arange(times)) for name in names}


def _all_rows(columns: Columns, times: int) -> Columns:
    """The first record has more rows, all in one line of code."""
    rows: Columns = {"record.rows": columns["record.rows"] + np.array([times, 0])}
    places = ((name, columns[name][-1] + 1 + np.arange(times)) for name in AT)
    rows |= {name: np.append(columns[name], more) for name, more in places}
    return rows | _more(columns, times, "row.line")


def _rows(columns: Columns, times: int) -> Columns:
    """Rows of one range."""
    return _all_rows(columns, times) | _more(columns, times, "row.range")


def _ranges(columns: Columns, times: int) -> Columns:
    """Rows of ranges of their own."""
    some = _more(columns, times, "range.source", "range.start", "range.end")
    return _all_rows(columns, times) | some | _counted(columns, times, "row.range", "range.tag")


def _sources(columns: Columns, times: int) -> Columns:
    """Rows of sources of their own, which share a text of many lines."""
    some = _more(columns, times, "source.text", "source.filename", "source.null")
    counted = _counted(columns, times, "range.source", "source.line")
    return _ranges(columns, times) | some | counted | _text(columns, LINES)


def _text(columns: Columns, times: int) -> Columns:
    """A text of many equal lines."""
    lines = np.repeat(columns["node.line"][-1:], times)
    return {"node.parent": np.arange(times) - 1, "node.line": lines, "text.node": np.array([times - 1])}


def _handles(columns: Columns, times: int) -> Columns:
    """Handles without a call stack."""
    place = np.arange(len(columns["handle.place"]) + times)
    more = _more(columns, times, "handle.tag", "handle.op", "handle.stack")
    return more | _counted(columns, times, "handle.handle") | {"handle.place": place}


def _stacks(columns: Columns, times: int) -> Columns:
    """Handles that share a call stack of many frames."""
    changed = _handles(columns, times)
    frames = np.arange(FRAMES)
    none = np.full(FRAMES, -1)
    return changed | {
        "handle.stack": np.zeros_like(changed["handle.stack"]),
        "frame.next": np.append(frames[1:], -1),
        "frame.module": none,
        "frame.tag": np.ones_like(frames),
        "frame.function": np.repeat(columns["method.name"], FRAMES),
    }


def _instructions(columns: Columns, times: int) -> Columns:
    """A method of many instructions."""
    counts: Columns = {"method.instructions": columns["method.instructions"] + times}
    return counts | _more(columns, times, "instruction.handle")


def _methods(columns: Columns, times: int) -> Columns:
    """Methods without instructions."""
    none: Ints = np.zeros(times, np.int64)
    counts: Columns = {"method.instructions": np.append(columns["method.instructions"], none)}
    return counts | _more(columns, times, "method.name")


def _inline(change: Change, columns: Columns, times: int) -> Columns:
    """The same, for records that have each text as a whole."""
    layouts = np.full_like(columns["record.layout"], RANGE_LAYOUTS.index(RangeLayout.INLINE))
    return change(columns, times) | {"record.layout": layouts}


CHANGES: dict[str, Change] = {
    "rows": _rows,
    "ranges": _ranges,
    "sources": _sources,
    "inline sources": partial(_inline, _sources),
    "lines": _text,
    "inline lines": partial(_inline, _text),
    "handles": _handles,
    "stacks": _stacks,
    "instructions": _instructions,
    "methods": _methods,
}


@cache
def companion(name: str, layout: CompanionLayout, times: int) -> bytes:
    """A companion that says so much more of the archive."""
    facts = facts_of(BASE)
    columns = dict(facts.columns)
    form = NormalForm(columns | CHANGES[name](columns, times), facts.strings)
    return build_companion(replace(facts, form=form), layout)


def alone(name: str, layout: CompanionLayout, times: int) -> dict[str, bytes]:
    """The companion as the model."""
    return {"m.ptl": companion(name, layout, times)}


def beside(name: str, layout: CompanionLayout, times: int) -> dict[str, bytes]:
    """The archive that it was split off, and the companion."""
    return {"m.ptl": halves(BASE).out, "m.ptdbg": companion(name, layout, times)}


def within(name: str, layout: CompanionLayout, times: int) -> dict[str, bytes]:
    """The archive with the companion in it."""
    return {"m.ptl": tampered(halves(BASE).out, {EMBEDDED: companion(name, layout, times)})}


COMPANIONS = {
    f"{where.__name__}, {layout.name.lower()}: {name}": partial(where, name, layout)
    for name in CHANGES
    for layout in CompanionLayout
    for where in (alone, beside, within)
}
