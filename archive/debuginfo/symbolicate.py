"""Debug handles -> module hierarchy and source, in PyTorch's own words.

The words are those of ``getStackTraceWithModuleHierarchy`` and ``MobileDebugTable`` in
``torch/csrc/jit/mobile/debug_info.cpp``.

A failing delegated call has several handles, ``[inner, …, outer]``: the backend's own operations first, the
instruction that called the backend last. They are walked from the outer one inwards:

- The hierarchy starts with ``top(<class of the top module>)::<unknown>``.
- Each frame of a handle's call stack adds ``.instance(Class)::function``, free functions
  ``.UNKNOWN_INSTANCE(UNKNOWN_TYPE)::function``, and prints the range of the call, in the function before it.
- Each handle starts again in the function ``<unknown>`` and ends with the range of its own operation.
- The operator's name of the *first* handle ends the hierarchy.

If the archive does not know one of the handles, PyTorch prints one line that says so. PyTorch 1.9 printed
neither function nor operator names: ``Style.V1_9``.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from archive.base.bounded import bounded_members
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import DEFAULT_LIMITS, Limits, Steps
from archive.base.notebooks import shown_by
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.debuginfo.excerpt import cost_of, excerpt
from archive.debuginfo.source_lines import lines_of, model_line
from archive.debuginfo.unique_handles import PLAIN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.model import HandleEntry, InlinedCall, SourceRange
    from archive.debuginfo.source_lines import SourceLine
    from archive.debuginfo.tables import RangeTable
    from archive.debuginfo.unique_handles import HandleForm

UNKNOWN_FUNCTION = b"FunctionName_UNKNOWN"
TOP_FUNCTION = b"<unknown>"
HIERARCHY_HEADING = b"Module hierarchy:"
TRACEBACK_HEADING = b"Traceback of TorchScript (most recent call last):\n"
STEPS_A_FRAME = 16
"""Steps of one frame, without its source: about as much work as looking up this many handles."""


class HandleLookup(Protocol):
    """Looks up handles and tags."""

    def entry_of(self, handle: int) -> HandleEntry | None:
        """The row of a debug handle, in whichever form it is given; None if it is unknown."""

    def range_of(self, tag: int) -> SourceRange | None:
        """The range that has a tag; None if none has."""


class TableLookup:
    """Looks up handles and tags in the tables of an archive.

    Args:
        handle_table: the call-stack debug map; None where the archive has none.
        range_table: the source ranges.
        form: of the handles in the map.
    """

    def __init__(
        self, handle_table: HandleTable | None, range_table: RangeTable, form: HandleForm = PLAIN
    ) -> None:
        self._handles = handle_table
        self._ranges = range_table
        self._form = form

    def entry_of(self, handle: int) -> HandleEntry | None:
        """The row of a debug handle; None if it is unknown."""
        if self._handles is None:
            return None
        row = self._handles.rows.get(self._form.known_as(handle))
        return None if row is None else self._handles.entry(row)

    def range_of(self, tag: int) -> SourceRange | None:
        """The range that has a tag; None if none has."""
        row = self._ranges.with_tag(tag)
        return None if row is None else self._ranges.source_range(row)


class Style(StrEnum):
    """The release whose wording is used: PyTorch 1.10 to 2.13, or 1.9."""

    CURRENT = "2.13"
    V1_9 = "1.9"


@bounded_members
@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """One frame of a symbolicated traceback, outermost first.

    Attributes:
        function: the function the range lies in, as PyTorch names it.
        range: the source range; None where its tag is -1 or nowhere recorded.
    """

    function: bytes
    range: SourceRange | None

    def __bytes__(self) -> bytes:
        return b"" if self.range is None else excerpt(self.range, self.function)

    def __str__(self) -> str:
        return decoded(bytes(self))


@bounded_members
@dataclass(frozen=True, slots=True)
class Symbolication:
    """The explanation of some handles; ``str()`` and ``bytes()`` return PyTorch's text.

    Attributes:
        handles: the handles asked for, inner ones first.
        missing: those that the archive does not know; if there are any, there are no frames.
        module_hierarchy: ``top(Stack)::<unknown>.first(Affine)::forward.aten::matmul``.
        entries: the row of each handle.
        frames: the traceback, outermost first.
        steps: the steps that it takes: see ``Limits.work``.
    """

    handles: tuple[int, ...]
    missing: tuple[int, ...]
    module_hierarchy: str
    entries: tuple[HandleEntry, ...]
    frames: tuple[TracebackFrame, ...] = field(repr=False)
    steps: int = field(default=0, repr=False, compare=False)

    _repr_html_ = shown_by("of_symbolication")

    @property
    def source_line(self) -> SourceLine | None:
        """The model's own line: the innermost that is not in PyTorch's source; the innermost if all are.

        None where no frame has a line.
        """
        return model_line(self.source_lines())

    def source_lines(self) -> Iterator[SourceLine]:
        """The lines of all frames, innermost first; generated source has none."""
        ranges = (frame.range for frame in reversed(self.frames) if frame.range is not None)
        return (line for span in ranges for line in lines_of(span))

    def __bytes__(self) -> bytes:
        if self.missing:
            return not_found(self.handles)
        hierarchy = self.module_hierarchy.encode("utf-8", "surrogateescape")
        return b"".join((HIERARCHY_HEADING, hierarchy, b"\n", TRACEBACK_HEADING, *map(bytes, self.frames)))

    def __str__(self) -> str:
        return decoded(bytes(self))


def not_found(handles: Sequence[int]) -> bytes:
    """PyTorch's line about unknown handles; it joins them without a separator."""
    joined = "".join(map(str, handles)).encode()
    return b"Debug info for handle(s): debug_handles:{%b}, was not found." % joined


def symbolicate(
    handles: Sequence[int],
    *,
    known: HandleLookup,
    top: str,
    style: Style = Style.CURRENT,
    classes: Collection[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Symbolication:
    """Explain handles.

    Args:
        handles: inner ones first, the outermost last.
        known: looks up handles and tags.
        top: class name of the top module.
        style: the release whose wording is used.
        classes: qualified names of the archive's own classes; for ``Style.V1_9``, which has no name for
            instances of other classes (frozen models have them).
        limits: ``output`` bounds the text, and ``work`` the steps to make it.
    """
    rows = [known.entry_of(handle) for handle in handles]
    missing = tuple(handle for handle, entry in zip(handles, rows, strict=True) if entry is None)
    if missing:
        return Symbolication(tuple(handles), missing, "", (), ())
    entries = tuple(entry for entry in rows if entry is not None)
    old = style is Style.V1_9
    cost = _Cost(limits)
    hierarchy = [f"top({top})" if old else heading_of(top)]
    frames: list[TracebackFrame] = []
    for entry in reversed(entries):
        with cost.of(entry):
            function = TOP_FUNCTION
            for call in entry.stack:
                frames.append(cost.counted(_frame(known, call.tag, function, old=old)))
                cost.add_link(call)
                function = function_of(call)
                hierarchy.append(link_of(call, function, old=old, classes=classes))
            frames.append(cost.counted(_frame(known, entry.tag, function, old=old)))
    if not old:
        op = entries[0].op
        hierarchy.append("." + ("" if op is None else str(op)))
    return Symbolication(tuple(handles), (), "".join(hierarchy), entries, tuple(frames), cost.steps.taken)


class _Cost:
    """The cost of a symbolication, computed from columns before its text is made."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.output
        self._size = 0
        self.steps = Steps(limits.work)

    @contextmanager
    def of(self, entry: HandleEntry) -> Iterator[None]:
        """Make errors of the block name a handle; count its operator's name."""
        try:
            self._add(0 if entry.op is None else len(entry.op))
            yield
        except ArchiveError as error:
            raise error.within(place=f"debug handle {entry.handle}") from error.__cause__

    def counted(self, frame: TracebackFrame) -> TracebackFrame:
        """A frame, counted."""
        self.steps.take(STEPS_A_FRAME)
        if frame.range is not None:
            cost = cost_of(frame.range, frame.function)
            self.steps.take(cost.steps)
            self._add(cost.size)
        return frame

    def add_link(self, call: InlinedCall) -> None:
        """Count what a call adds to the hierarchy, and the names that are read for it."""
        size = 0 if call.function is None else len(call.function)
        if call.module is not None:
            self.steps.take(len(call.module.type_name) // 4096)
            size += len(call.module.instance) + len(call.module.class_name)
        self._add(size + len(UNKNOWN_FUNCTION))

    def _add(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise LimitError("output", self._most, self._size)


def heading_of(top: str) -> str:
    """The beginning of a hierarchy, by the class of the top module."""
    return f"top({top})::{TOP_FUNCTION.decode()}"


def function_of(call: InlinedCall) -> bytes:
    """The function that a call calls."""
    return UNKNOWN_FUNCTION if call.function is None else bytes(call.function)


def _frame(known: HandleLookup, tag: int, function: bytes, *, old: bool) -> TracebackFrame:
    return TracebackFrame(UNKNOWN_FUNCTION if old else function, known.range_of(tag))


def link_of(
    call: InlinedCall, function: bytes, *, old: bool = False, classes: Collection[str] | None = None
) -> str:
    """The part of the hierarchy that one call adds."""
    module = call.module
    if old and module is not None and classes is not None and str(module.type_name) not in classes:
        module = None
    if module is None:  # the extra opening bracket is PyTorch 1.9's
        link = ".(UNKNOWN_INSTANCE(UNKNOWN_TYPE)" if old else ".UNKNOWN_INSTANCE(UNKNOWN_TYPE)"
    else:
        link = f".{module.instance}({module.class_name})"
    return link if old else f"{link}::{decoded(function)}"
