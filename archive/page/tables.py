"""Nodes, kernels and instructions as tables, each row linked to the line of source that it comes from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import several
from archive.base.strings import decoded
from archive.describe.executorch import executorch_methods
from archive.formats.exported.modules import paths_in_model
from archive.formats.exported.traces import parse_trace
from archive.formats.record_kinds import label_in
from archive.page.kernels import calls_of_kernels
from archive.page.units import plain
from archive.reader.lookups.framed import FramedInstructions
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.formats.exported.traces import TraceFrame
    from archive.page.sources import ArchiveSources
    from archive.page.traced import Link, TracedSources
    from archive.reader.archive import Archive

MOST_ROWS = 250_000
"""Rows of one table; those beyond are left out."""
MOST_NAMES = 20
"""Nodes that a cell names."""


class Table:
    """A table that is filled row by row.

    Attributes:
        left_out: rows that the page has no room for.
    """

    def __init__(self, title: str, *columns: str) -> None:
        self.title, self._columns = title, columns
        self._rows: list[tuple[Any, ...]] = []
        self.left_out = 0

    def add(self, *row: object) -> bool:
        """Add a row; whether there was room for it."""
        if len(self._rows) == MOST_ROWS:
            self.left_out += 1
            return False
        memory.take(memory.ROW, "rows of tables")
        self._rows.append(tuple(plain(cell) if isinstance(cell, str) else cell for cell in row))
        return True

    def __len__(self) -> int:
        return len(self._rows)

    def facts(self, links: Sequence[Link | None]) -> dict[str, Any]:
        """The table with the links of its rows; rows beyond the last link have none."""
        rows = [list(column) for column in zip(*self._rows, strict=True)]
        missing = [None] * (len(self) - len(links))
        return {
            "title": self.title,
            "columns": list(self._columns),
            "rows": rows,
            "links": [*links, *missing],
        }


# --- programs and compiled models


def is_traced(opened: Archive) -> bool:
    """Whether stack traces lead to the model's source, rather than source ranges."""
    kinds = opened.programs, opened.compiled, opened.instructions
    return any(kinds) or opened.recognised.kind is FileKind.EXECUTORCH


def add_nodes(table: Table, opened: Archive, sources: TracedSources) -> list[TraceFrame | None]:
    """Add the nodes of all programs; the frames that they lead to."""
    frames = []
    known: dict[str, TraceFrame | None] = {}
    for name, program in opened.programs.items():
        for key, site in program.sites.items():
            text = site.trace
            if text is not None and text not in known:
                known[text] = sources.take(site.frames)
            frame = None if text is None else known[text]
            module = paths_in_model(site.modules)[-1] if site.modules else ""
            place = sources.file(frame), frame.line if frame else None
            if table.add(label_in(name, key), site.target, module, *place):
                frames.append(frame)
    return frames


def add_kernels(table: Table, opened: Archive, sources: TracedSources) -> list[TraceFrame | None]:
    """Add the kernels of all compiled models; the frames that they lead to, each of its last stack trace."""
    frames = []
    known: dict[str, TraceFrame | None] = {}
    calls = calls_of_kernels(opened)
    for label, kernel in opened.kernels.items():
        for text in kernel.stack_traces:
            if text not in known:
                known[text] = sources.take(parse_trace(text))
        frame = known[kernel.stack_traces[-1]] if kernel.stack_traces else None
        place = sources.file(frame), frame.line if frame else None
        call = calls.get(label)
        code = (call.file, call.line) if call else ("", None)
        nodes = several(kernel.pre_grad_nodes or kernel.post_grad_nodes, MOST_NAMES)
        if table.add(label, nodes, *place, *code):
            frames.append(frame)
    return frames


def add_runtime_instructions(table: Table, opened: Archive, _: TracedSources) -> list[TraceFrame | None]:
    """Add the instructions of an ETRecord's methods, with the backends that they call; they lead to nodes."""
    for method, instructions in opened.instructions.items():
        for number, instruction in instructions.items():
            backend = instruction.delegate.backend if instruction.delegate else ""
            handles = several([*map(str, instruction.handles)], MOST_NAMES)
            table.add(method, number, handles, backend)
    return []


def _data(opened: Archive) -> memoryview | None:
    """An ExecuTorch program; None for another file."""
    file = opened.tensor_file if opened.recognised.kind is FileKind.EXECUTORCH else None
    return None if file is None else file.data


def add_methods(table: Table, opened: Archive, _: TracedSources) -> list[TraceFrame | None]:
    """Add the methods of an ExecuTorch program; they lead nowhere."""
    data = _data(opened)
    for name, one in executorch_methods(data).items() if data is not None else ():
        types = ", ".join(one.inputs), ", ".join(one.outputs)
        table.add(name, *types, one.instructions, one.framed, sum(one.planned_bytes))
    return []


def add_calls(table: Table, opened: Archive, _: TracedSources) -> list[TraceFrame | None]:
    """Add the operators and backends that an ExecuTorch program calls; they lead nowhere."""
    data = _data(opened)
    for name, one in executorch_methods(data).items() if data is not None else ():
        for what, calls in (("backend", one.backends), ("operator", one.operators)):
            for callee, count in calls.items():
                table.add(callee, what, name, count)
    return []


def add_framed(table: Table, opened: Archive, sources: TracedSources) -> list[TraceFrame | None]:
    """Add the instructions of an ExecuTorch program; the frames that they lead to."""
    frames = []
    for one in FramedInstructions(opened) if _data(opened) is not None else ():
        frame = sources.take(one.trace)
        place = sources.file(frame), frame.line if frame else None
        if table.add(one.method, one.number, one.operation, *place):
            frames.append(frame)
    return frames


TRACED: tuple[tuple[Callable[[], Table], Callable[..., list[TraceFrame | None]]], ...] = (
    (partial(Table, "Nodes", "Node", "Target", "Module", "File", "Line"), add_nodes),
    (partial(Table, "Kernels", "Kernel", "Nodes", "File", "Line", "C++ file", "C++ line"), add_kernels),
    (
        partial(Table, "Instructions", "Method", "Number", "Debug handles", "Backend"),
        add_runtime_instructions,
    ),
    (
        partial(
            Table, "Methods", "Method", "Inputs", "Outputs", "Instructions", "With frames", "Planned bytes"
        ),
        add_methods,
    ),
    (partial(Table, "Calls", "Operator or backend", "Kind", "Method", "Calls"), add_calls),
    (partial(Table, "Instructions", "Method", "Number", "Calls", "File", "Line"), add_framed),
)
"""The tables of programs and compiled models, and what fills them."""
KERNELS = 1
"""The number of the kernels' table."""


# --- TorchScript


def instructions_table() -> Table:
    """An empty table of a lite archive's instructions."""
    return Table("Instructions", "Method", "Number", "Handle", "Operator", "File", "Line")


def add_instructions(table: Table, opened: Archive, sources: ArchiveSources) -> list[int]:
    """Add the instructions of a lite archive; the rows of source ranges that they lead to, or -1."""
    handles, methods = opened.handle_table, opened.method_table
    if handles is None or methods is None:
        return []
    rows, known = [], sources.rows_with(handles.tag).tolist()
    operators = {number: decoded(handles.strings.data(number)) for number in set(handles.op.tolist()) - {-1}}
    for method, name in enumerate(methods.names):
        for number, handle in enumerate(methods.values(method)):
            own = handles.rows.get(handle, -1)
            row = known[own] if own >= 0 else -1
            operator = operators.get(int(handles.op[own]), "") if own >= 0 else ""
            file, line = sources.file_and_line(row)
            shown = handle if handle >= 0 else None
            if table.add(name.removeprefix("__torch__."), number, shown, operator, file, line or None):
                rows.append(row)
    return rows
