"""Redirects operations of an archive from generated source to the source that it was generated from.

A handle of the call-stack map gets the range of that source, and the calls on the way there; a row of source
ranges gets only the range. PyTorch then prints that source. The ranges of handles become rows of
``delegated_backends.debug_pkl``, where PyTorch looks for them by their tags; tags are above those in use. A
backend's own handles are added to the call-stack map.

Calls get the source ranges that PyTorch 2.13 looks for after loading (:func:`show_calls`).

PyTorch writes generated code in pieces, each with a range. What is called may be a piece without one: the
name of a function, or, up to PyTorch 1.9, the attribute that holds a module::

    x1 = __torch__.models.scaled(x0, 2., )        h = (self.first).forward(x, )
         null                   the call               null      the call

PyTorch 2.13 looks for a call's range where the code of the call begins: at these pieces. So it loses the
frames of such calls, in tracebacks of TorchScript and in archives that are saved for lite interpreters. Here
these pieces get the range of the call.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats.record_kinds import DELEGATED
from archive.normalform.columns import CALLSTACK_LAYOUTS, NO_ROW, RANGE_LAYOUTS
from archive.normalform.form import NormalForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.sites import CallStep, Span
    from archive.normalform.builder import FormBuilder
    from archive.normalform.columns import Columns


LINES = re.compile(rb"[^\n]*\n|[^\n]+")
OF_HANDLES: tuple[str, ...] = (
    *("handle.handle", "handle.tag", "handle.op", "handle.stack", "handle.place"),
    *("frame.next", "frame.module", "frame.tag", "frame.function", "module.type", "module.instance"),
)
NO_HANDLES: Columns = {
    **{name: np.zeros(0, np.int64) for name in OF_HANDLES},
    "file.callstacks": np.array([CALLSTACK_LAYOUTS.index(Generation.CALLSTACK_4)]),
}
CALLED = re.compile(rb'[^\W\d][\w.]*|getattr\([\w." ,()]+\)')
"""A function's name, or a module as an attribute: ``self.first``, ``getattr(self.blocks, "0")``."""
CALL = re.compile(rb"\(|\)\.\w+\(")
"""What follows it: the arguments of the function, or a method of the module."""


@dataclass(slots=True)
class _AddedRows:
    """Rows that will be added to some columns."""

    rows: list[tuple[int, ...]] = field(default_factory=list)

    def added_to(self, columns: Columns, *names: str) -> None:
        if not self.rows:
            return
        values = np.array(self.rows, np.int64)
        for place, name in enumerate(names):
            columns[name] = np.append(columns[name], values[:, place])


class Attachment:
    """Sources of operations, added to the debug information of an archive.

    Args:
        form: that debug information; if it has a call-stack map, one of four elements. An empty map is added
            where there is none, and so is an empty ``delegated_backends.debug_pkl``.
    """

    def __init__(self, form: FormBuilder) -> None:
        columns, pool = form.columns, form.pool
        self._columns = NO_HANDLES | columns
        self._pool = pool
        self._tag = int(columns["range.tag"].max(initial=-1)) + 1
        self._tags: dict[Span, int] = {}
        self._sources: dict[tuple[bytes, bytes, int], int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self._modules: dict[tuple[int, int], int] = {}
        self._known_frames: dict[tuple[int, int, int, int], int] = {}
        self._ranges, self._source_rows, self._texts, self._lines = (
            _AddedRows(),
            _AddedRows(),
            _AddedRows(),
            _AddedRows(),
        )
        self._frames, self._module_rows, self._handles = _AddedRows(), _AddedRows(), _AddedRows()
        delegated = pool.number(DELEGATED.encode())
        if delegated not in self._columns["record.name"]:
            new: dict[str, int] = {
                "record.name": delegated,
                "record.layout": RANGE_LAYOUTS.index(RangeLayout.EMPTY),
                "record.rows": 0,
            }
            self._columns |= {name: np.append(self._columns[name], value) for name, value in new.items()}

    def relocate(self, row: int, span: Span) -> None:
        """Give a row of source ranges, by its number in the whole archive, another source."""
        self._columns["row.range"] = self._columns["row.range"].copy()
        self._columns["row.range"][row] = len(self._columns["range.source"]) + self.tag_of(span) - self._tag

    def rename(self, row: int, text: bytes, filename: bytes) -> None:
        """Give the source of a row, by its number in the whole archive, another text and filename."""
        columns = self._columns
        source = int(columns["range.source"][columns["row.range"][row]])
        if source >= len(columns["source.line"]):
            return  # an equal source was renamed
        new = self._source(text, filename, int(columns["source.line"][source]))
        columns["range.source"] = np.where(columns["range.source"] == source, new, columns["range.source"])

    def lead(
        self,
        row: int,
        span: Span,
        steps: Sequence[CallStep],
        *,
        last: str | None = None,
        op: str | None = None,
    ) -> None:
        """Give a debug handle another source.

        Args:
            row: that of the handle, in the order of their numbers.
            span: the operation's own source.
            steps: the calls that lead there, after those of the handle's own call stack.
            last: instance of the last call of the handle's own stack to keep; a stack without such a call is
                dropped. None keeps all calls.
            op: the operator's name; None keeps the present one.
        """
        columns = self._columns
        columns["handle.tag"] = columns["handle.tag"].copy()
        columns["handle.tag"][row] = self.tag_of(span)
        columns["handle.stack"] = columns["handle.stack"].copy()
        columns["handle.stack"][row] = self._stack(
            [*self._until(last, int(columns["handle.stack"][row])), *map(self._call, steps)]
        )
        if op is not None:
            columns["handle.op"] = columns["handle.op"].copy()
            columns["handle.op"][row] = self._pool.number(op.encode())

    def add(self, handle: int, op: str, span: Span | None, steps: Sequence[CallStep]) -> None:
        """Add a debug handle, which the map does not have yet.

        Args:
            handle: its number.
            op: the operator's name.
            span: the operation's source; None where it is unknown.
            steps: the calls that lead there.
        """
        tag = -1 if span is None else self.tag_of(span)
        stack = self._stack(list(map(self._call, steps)))
        place = len(self._columns["handle.place"]) + len(self._handles.rows)
        self._handles.rows.append((handle, tag, self._pool.number(op.encode()), stack, place))

    def _stack(self, calls: list[tuple[int, int, int]]) -> int:
        """The first frame of a call stack, which is added. Added stacks share the frames they end with."""
        frame = -1
        for call in reversed(calls):
            key = frame, *call
            if key not in self._known_frames:
                self._known_frames[key] = len(self._columns["frame.next"]) + len(self._frames.rows)
                self._frames.rows.append(key)
            frame = self._known_frames[key]
        return frame

    def _until(self, instance: str | None, frame: int) -> Sequence[tuple[int, int, int]]:
        """The calls of a stack up to the last call of an instance; all calls, if ``instance`` is None."""
        columns, calls = self._columns, []
        while frame >= 0:
            module, tag = int(columns["frame.module"][frame]), int(columns["frame.tag"][frame])
            calls.append((module, tag, int(columns["frame.function"][frame])))
            frame = int(columns["frame.next"][frame])
        if instance is None:
            return calls
        number, before = self._pool.number(instance.encode()), columns["module.instance"]
        while calls:
            module = calls[-1][0]
            if module >= 0:
                added = module - len(before)
                name = self._module_rows.rows[added][1] if added >= 0 else int(before[module])
                if name == number:
                    break
            calls.pop()
        return calls

    def _call(self, step: CallStep) -> tuple[int, int, int]:
        module = -1
        if step.type_name is not None and step.instance is not None:
            names = self._pool.number(step.type_name.encode()), self._pool.number(step.instance.encode())
            if names not in self._modules:
                self._modules[names] = len(self._columns["module.type"]) + len(self._module_rows.rows)
                self._module_rows.rows.append(names)
            module = self._modules[names]
        tag = -1 if step.span is None else self.tag_of(step.span)
        return module, tag, self._pool.number(step.function.encode())

    def tag_of(self, span: Span) -> int:
        """The tag of a range, which is added with a new tag if it has not been added yet."""
        if span not in self._tags:
            source = self._source(span.text, span.filename, span.line)
            self._tags[span] = self._tag + len(self._tags)
            self._ranges.rows.append((source, span.start, span.end, self._tags[span]))
        return self._tags[span]

    def _source(self, text: bytes, filename: bytes, line: int) -> int:
        key = text, filename, line
        if key not in self._sources:
            node = -1
            for piece in reversed(LINES.findall(text)):
                row = node, self._pool.number(piece)
                if row not in self._nodes:
                    self._nodes[row] = len(self._columns["node.parent"]) + len(self._lines.rows)
                    self._lines.rows.append(row)
                node = self._nodes[row]
            number = len(self._columns["text.node"]) + len(self._texts.rows) if text else -1
            if text:
                self._texts.rows.append((node,))
            self._sources[key] = len(self._columns["source.text"]) + len(self._source_rows.rows)
            self._source_rows.rows.append(
                (number, self._pool.number(filename), line, int(not text and not filename))
            )
        return self._sources[key]

    def form(self) -> NormalForm:
        """The debug information with all that was added."""
        return NormalForm(self._all(), self._pool.table())

    def _all(self) -> Columns:
        columns = dict(self._columns)
        self._lines.added_to(columns, "node.parent", "node.line")
        self._texts.added_to(columns, "text.node")
        self._source_rows.added_to(columns, "source.text", "source.filename", "source.line", "source.null")
        first = len(columns["range.source"])
        self._ranges.added_to(columns, "range.source", "range.start", "range.end", "range.tag")
        self._frames.added_to(columns, "frame.next", "frame.module", "frame.tag", "frame.function")
        self._module_rows.added_to(columns, "module.type", "module.instance")
        self._handles.added_to(
            columns, "handle.handle", "handle.tag", "handle.op", "handle.stack", "handle.place"
        )
        # The layout of the archive's records that have rows.
        pieced = RANGE_LAYOUTS.index(RangeLayout.STRING_TABLE) in self._columns["record.layout"]
        layout = RANGE_LAYOUTS.index(RangeLayout.STRING_TABLE if pieced else RangeLayout.INLINE)
        added = np.append(self._without_row(columns), first + np.arange(len(self._ranges.rows)))
        for record in np.flatnonzero(columns["record.name"] == self._pool.number(DELEGATED.encode())):
            at = int(firsts(columns["record.rows"])[record + 1])
            columns["row.offset"] = np.insert(columns["row.offset"], at, np.full(len(added), -1))
            columns["row.range"] = np.insert(columns["row.range"], at, added)
            columns["record.rows"] = columns["record.rows"].copy()
            columns["record.rows"][record] += len(added)
            columns["record.layout"] = columns["record.layout"].copy()
            columns["record.layout"][record] = layout
        return columns

    def _without_row(self, columns: Columns) -> Ints:
        """Ranges that handles still refer to, but rows no longer do."""
        used = np.concatenate([columns["handle.tag"], columns["frame.tag"]])
        known = columns["range.tag"][: len(self._columns["range.tag"])]
        shown = np.zeros(len(known), np.bool_)
        shown[columns["row.range"][columns["row.range"] < len(known)]] = True
        return np.flatnonzero(np.isin(known, used) & ~np.isin(known, known[shown]))


def show_calls(form: FormBuilder, codes: Sequence[bytes]) -> int:
    """Give the pieces of code that are called the ranges of their calls.

    Args:
        form: the debug information; it is changed.
        codes: the generated code of each record of source ranges; b"" for one without.

    Returns:
        How many had none.
    """
    columns = form.columns
    offset, rows = columns["row.offset"], columns["row.range"].copy()
    null = columns["source.text"][columns["range.source"][rows]] == NO_ROW
    first = firsts(columns["record.rows"])
    changed = 0
    for code, low, high in zip(codes, first[:-1].tolist(), first[1:].tolist(), strict=True):
        for row in (low + np.flatnonzero(null[low : high - 1] & ~null[low + 1 : high])).tolist():
            start, end = int(offset[row]), int(offset[row + 1])
            if CALL.match(code, end) and CALLED.fullmatch(code, start, end):
                rows[row] = rows[row + 1]
                changed += 1
    columns["row.range"] = rows
    return changed
