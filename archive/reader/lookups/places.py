"""The places of operations that ran in stock PyTorch, from its call stacks and the archive's debug info."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line
from archive.debuginfo.frames import CALL
from archive.debuginfo.profiles.places import INSTANCES_WITHOUT_LEVEL, ModuleLevel, OperationPlace
from archive.debuginfo.source_lines import LineReader
from archive.formats.record_kinds import CODE, code_of
from archive.reader.lookups.generated_code import GeneratedCode, one_path
from archive.reader.lookups.handle_places import NO_LINES, HandlePlaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.debuginfo.source_lines import Innermost, SourceLine
    from archive.reader.archive import Archive
    from archive.reader.lookups.generated_code import CallSite, CodeFunction, ParsedCode


class StackStep(NamedTuple):
    """A step of a call stack in generated code."""

    record: ParsedCode
    line: int
    function: CodeFunction


class StockPlaces:
    """Finds places in one archive. What a step of a call stack adds to one is found once."""

    def __init__(self, opened: Archive) -> None:
        self._opened = opened
        self._code = GeneratedCode(opened.records, lambda name: bytes(opened.records[name].view()))
        self._with_ranges = {code_of(name) for name in opened.range_records}
        self._lines = LineReader()
        self._handles = HandlePlaces(opened, self._code, self._lines)
        self._step = cache(self._step_of)
        self._module = cache(self._module_of)
        self._offsets = cache(self._offsets_of)
        self._innermost = cache(self._innermost_of)

    def of_handle(self, handle: int) -> OperationPlace:
        """The place that a debug handle stands for; modules in lists have their whole path."""
        return self._handles.of(handle)

    def of_stack(self, stack: Sequence[str], op: str) -> OperationPlace:
        """The place of an operation of TorchScript.

        Args:
            stack: its call stack, innermost first, as ``torch.profiler`` gives it.
        """
        known = [(entry, step) for entry in reversed(stack) if (step := self._step(entry)) is not None]
        entries = [entry for entry, _ in known]
        levels = [ModuleLevel(f"top({self._opened.top})", ""), *self._levels_between(entries)]
        hierarchy = ".".join(map(str, levels))
        # The positions in code of the operator and of the calls that lead to it, innermost first.
        positions = [
            (step.record, self._offsets(entry, inner, "" if inner else op))
            for (entry, step), inner in reversed([*zip(known, [*entries[1:], ""], strict=True)])
        ]
        source, innermost = self._source(positions)
        return OperationPlace(tuple(levels), f"{hierarchy}.{op}", source, innermost, op)

    def _levels_between(self, entries: Sequence[str]) -> Iterator[ModuleLevel]:
        """The modules whose methods the steps of a call stack call, outermost first."""
        path = ""
        for outer, inner in pairwise(entries):
            if (called := self._module(outer, inner)) is not None:
                step, kind = called
                path = f"{path}.{step}".removeprefix(".")
                yield ModuleLevel(path, kind, step)

    def _module_of(self, outer: str, inner: str) -> tuple[str, str] | None:
        """The attributes and class of the module that a step of a call stack calls; None if it is none."""
        step, inner_step = self._step(outer), self._step(inner)
        if step is None or inner_step is None or not inner_step.function.type_name:
            return None
        caller, callee = step.function, inner_step.function
        sites = [(caller, site) for site in _sites_on(step.line, caller, callee.name)]
        attributes = one_path(sites, caller.type_name, callee.type_name, self._code)
        if not attributes or attributes in INSTANCES_WITHOUT_LEVEL:
            return None
        return one_line(attributes), callee.type_name.rpartition(".")[2]

    def _offsets_of(self, entry: str, inner: str, op: str) -> tuple[int, ...]:
        """The positions in code where a step of a call stack may call the next one.

        Args:
            inner: the next one; "" for the innermost step, which calls an operator, ``op``.
        """
        step, inner_step = self._step(entry), self._step(inner) if inner else None
        if step is None:
            return ()
        record, line, function = step
        if inner_step is None:
            offsets = _calls_on(line, record, op.rpartition("::")[2])
        elif inner_step.function.type_name:
            offsets = [site.start for site in _sites_on(line, function, inner_step.function.name)]
        else:
            name = inner_step.function.name
            offsets = _calls_on(line, record, name, *_aliases(name, function, record))
        return tuple(offsets) or (record.line_starts[line - 1],)

    def _step_of(self, entry: str) -> StackStep | None:
        """The step of an entry of a call stack; None if it isn't in the archive's code."""
        place = CALL.fullmatch(entry)
        if place is None or not place["file"].startswith(CODE[0]):
            return None
        record = self._code.record(place["file"])
        if record is None:
            return None
        line = int(place["line"])
        function = record.function_at(line)
        return None if function is None else StackStep(record, line, function)

    def _source(
        self, positions: Sequence[tuple[ParsedCode, Sequence[int]]]
    ) -> tuple[SourceLine | None, SourceLine | None]:
        """The innermost line that is not in PyTorch's source, and the innermost one; None for several.

        Args:
            positions: for each step of a call stack, innermost first, the positions in code that it may be.
        """
        innermost: list[SourceLine | None] = []
        for record, offsets in positions:
            if record.name not in self._with_ranges:  # split off
                continue
            found = [self._innermost(record.name, offset) for offset in offsets]
            innermost.append(_only({lines.first for lines in found} - {None}))
            if own := {lines.own for lines in found} - {None}:
                return _only(own), innermost[0]
        return (innermost[0], innermost[0]) if innermost else (None, None)

    def _innermost_of(self, record: str, offset: int) -> Innermost[SourceLine]:
        """The innermost lines that a position in code comes from; none where no range is recorded."""
        span = self._opened.locate(record, offset)
        return NO_LINES if span is None else self._lines.innermost(span)


def _sites_on(line: int, function: CodeFunction, method: str) -> list[CallSite]:
    return [
        call for call in function.calls if call.first_line <= line <= call.last_line and call.method == method
    ]


def _calls_on(line: int, record: ParsedCode, *names: str) -> list[int]:
    """Where an operator or a function is called on a line."""
    start, end = record.line_starts[line - 1], record.line_starts[line]
    any_of = "|".join(map(re.escape, names)).encode()
    calls = re.finditer(rb"[\w.]*\b(?:%b)\(" % any_of, record.text[start:end])
    return [start + call.start() for call in calls]


def _aliases(name: str, caller: CodeFunction, record: ParsedCode) -> list[str]:
    """What a function calls another one: ``_0 = __torch__.torch.nn.functional.layer_norm``."""
    text = record.text[record.line_starts[caller.first_line - 1] : record.line_starts[caller.last_line]]
    pattern = rb"^ *(\w+) = [\w.]+\.%b$" % re.escape(name.encode())
    return [found.decode() for found in re.findall(pattern, text, re.MULTILINE)]


def _only(lines: set[SourceLine | None]) -> SourceLine | None:
    return lines.pop() if len(lines) == 1 else None
