"""The places of operations that ran in stock PyTorch, from its call stacks and the archive's debug info."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.backend.profile.places import (
    INSTANCES_WITHOUT_LEVEL,
    ModuleLevel,
    OperationPlace,
    lines_of,
    model_line,
    place_of,
)
from archive.backend.profile.stock.code import CODE_FOLDER, Code
from archive.backend.source_files import is_pytorchs
from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.backend.profile.places import SourceLine
    from archive.backend.profile.stock.code import CallSite, CodeFunction, CodeRecord
    from archive.debuginfo.symbolicate import Symbolication
    from archive.reader.archive import Archive

STACK_ENTRY = re.compile(r"(?P<record>.+)\((?P<line>\d+)\): (?P<function>.*)")
"""An entry of a call stack in ``torch.profiler``: ``code/__torch__.py(14): forward``."""
DEBUG_ENDING = ".debug_pkl"
EITHER = "|"
"""Stands between the names of modules where it cannot be told which one is called."""


class Step(NamedTuple):
    """A step of a call stack in generated code.

    Attributes:
        record: the code.
        line: the line in it, from 1.
        function: the function that the line belongs to.
    """

    record: CodeRecord
    line: int
    function: CodeFunction


class StockPlaces:
    """Finds places in one archive.

    Args:
        opened: the archive, with its debug info.
    """

    def __init__(self, opened: Archive) -> None:
        self._opened = opened
        self._code = Code(opened.records, lambda name: bytes(opened.records[name].view()))

    def of_handle(self, handle: int) -> OperationPlace:
        """The place that a debug handle stands for; modules in lists have their whole path."""
        told = self._opened.symbolicate(handle)
        place = place_of(told)
        return place if told.missing else place.within(self._levels_of(told, place.levels[0]))

    def _levels_of(self, told: Symbolication, top: ModuleLevel) -> Iterator[ModuleLevel]:
        """The modules that lead to an operation, the top module first."""
        yield top
        caller, path = self._opened.qualified_top, ""
        for call in (one for entry in reversed(told.entries) for one in entry.stack):
            if call.module is None:
                continue
            callee, instance = str(call.module.type_name), str(call.module.instance)
            sites = self._sites.get((int(call.tag), caller, str(call.function)), []) if call.tag >= 0 else []
            step = _one_path(sites, caller, callee, self._code, last=instance) or instance
            caller = callee
            if instance not in INSTANCES_WITHOUT_LEVEL:
                path = f"{path}.{one_line(step)}".removeprefix(".")
                yield ModuleLevel(path, one_line(call.module.class_name), one_line(step))

    @cached_property
    def _sites(self) -> dict[tuple[int, str, str], list[tuple[CodeFunction, CallSite]]]:
        """The calls in generated code, by the tag of the range that they come from, class, and method."""
        table = self._opened.range_table
        found: dict[tuple[int, str, str], list[tuple[CodeFunction, CallSite]]] = {}
        for number, name in enumerate(table.names):
            record = self._code.record(name.removesuffix(DEBUG_ENDING))
            rows = table.rows(number)
            offsets = table.offset[rows.start : rows.stop]
            for function, site in () if record is None else record.sites():
                row = rows.start + int(np.searchsorted(offsets, site.start, "right")) - 1
                if row >= rows.start:
                    key = int(table.tag[row]), function.type_name, site.method
                    found.setdefault(key, []).append((function, site))
        return found

    def of_stack(self, stack: Sequence[str], op: str) -> OperationPlace:
        """The place of an operation of TorchScript.

        Args:
            stack: its call stack, innermost first, as ``torch.profiler`` gives it.
            op: the operator's name.
        """
        steps = [step for entry in reversed(stack) if (step := self._step(entry)) is not None]
        levels = [ModuleLevel(f"top({self._opened.top})", ""), *self._levels_between(steps)]
        hierarchy = ".".join(map(str, levels))
        source, innermost = self._source([*_positions(steps, op)])
        return OperationPlace(tuple(levels), f"{hierarchy}.{op}", source, innermost, op)

    def _levels_between(self, steps: Sequence[Step]) -> Iterator[ModuleLevel]:
        """The modules whose methods the steps of a call stack call, outermost first."""
        path = ""
        for (_, line, caller), (_, _, callee) in pairwise(steps):
            if callee.type_name:
                sites = [(caller, one) for one in _sites_on(line, caller, callee.name)]
                attributes = _one_path(sites, caller.type_name, callee.type_name, self._code)
                if attributes and attributes not in INSTANCES_WITHOUT_LEVEL:
                    path = f"{path}.{one_line(attributes)}".removeprefix(".")
                    yield ModuleLevel(path, callee.type_name.rpartition(".")[2], one_line(attributes))

    def _step(self, entry: str) -> Step | None:
        """The step of an entry of a call stack; None if it is none of the archive's."""
        found = STACK_ENTRY.fullmatch(entry)
        if found is None or not found["record"].startswith(CODE_FOLDER):
            return None
        record = self._code.record(found["record"])
        if record is None:
            return None
        line = int(found["line"])
        function = record.function_at(line)
        return None if function is None else Step(record, line, function)

    def _source(
        self, positions: Sequence[tuple[CodeRecord, Sequence[int]]]
    ) -> tuple[SourceLine | None, SourceLine | None]:
        """The innermost line that is not in PyTorch's source, and the innermost one; None if not one alone.

        Args:
            positions: for each step of a call stack, innermost first, the positions in code that it may be.
        """
        innermost: list[SourceLine | None] = []
        for record, offsets in positions:
            found = {self._lines(record.name, offset) for offset in offsets}
            innermost.append(_only({lines[0] for lines in found if lines}))
            own = {line for lines in found if (line := model_line(lines)) and not is_pytorchs(line.file)}
            if own:
                return _only(own), innermost[0]
        return (innermost[0], innermost[0]) if innermost else (None, None)

    def _lines(self, name: str, offset: int) -> tuple[SourceLine, ...]:
        span = self._opened.locate(name, offset)
        return () if span is None else tuple(lines_of(span))


def _sites_on(line: int, function: CodeFunction, method: str) -> list[CallSite]:
    """The calls of a method on a line of a function."""
    return [one for one in function.calls if one.first_line <= line <= one.last_line and one.method == method]


def _only(lines: set[SourceLine]) -> SourceLine | None:
    return lines.pop() if len(lines) == 1 else None


def _positions(steps: Sequence[Step], op: str) -> Iterator[tuple[CodeRecord, Sequence[int]]]:
    """The positions in code of an operator and of the calls that lead to it, innermost first."""
    for number in reversed(range(len(steps))):
        record, line, function = steps[number]
        if number == len(steps) - 1:
            found = _named(record, line, op)
        else:
            found = [one.start for one in _sites_on(line, function, steps[number + 1].function.name)]
        yield record, found or [record.line_starts[line - 1]]


def _named(record: CodeRecord, line: int, op: str) -> list[int]:
    """The positions in a line of code at which an operator is called."""
    start, end = record.line_starts[line - 1], record.line_starts[line]
    name = re.escape(op.rpartition("::")[2].encode())
    return [start + one.start() for one in re.finditer(rb"[\w.]*\b%b\(" % name, record.text[start:end])]


def _one_path(
    sites: Iterable[tuple[CodeFunction, CallSite]], caller: str, callee: str, code: Code, last: str = ""
) -> str:
    """The attributes that lead from a module to the one that is called, joined by dots.

    Args:
        sites: the calls that may be meant, with the functions that they are in.
        caller: the class of the calling module.
        callee: the class of the called one.
        code: the archive's code.
        last: the last attribute; "" if it is unknown.

    Returns:
        "" for the module itself, or if there is none. Several paths are joined by ``EITHER``.
    """
    paths = {
        site.path
        for function, site in sites
        if function.type_name == caller and code.type_of(caller, site.path) == callee
    }
    if last:
        paths = {path for path in paths if path[-1:] == (last,)}
    return EITHER.join(sorted(".".join(path) for path in paths))
