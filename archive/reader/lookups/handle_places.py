"""The places of debug handles in the module tree and the model's source.

The call stacks of an archive's handles begin alike: those of all operations of a module have the calls that
lead to it. What a call adds to a place is found once for each way to it.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from archive.base.errors import ArchiveError, LimitError, in_file, one_line
from archive.base.limits import Steps
from archive.debuginfo.profiles.places import (
    INSTANCES_WITHOUT_LEVEL,
    UNKNOWN_NAME,
    ModuleLevel,
    OperationPlace,
    place_of,
)
from archive.debuginfo.source_lines import Innermost, LineReader
from archive.debuginfo.symbolicate import STEPS_A_FRAME, function_of, heading_of, link_of
from archive.formats.record_kinds import code_of, module_of
from archive.reader.lookups.generated_code import one_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.source_lines import SourceLine
    from archive.reader.archive import Archive
    from archive.reader.lookups.generated_code import CallSite, CodeFunction, GeneratedCode

_Sites: TypeAlias = dict[tuple[int, str, str], list[tuple["CodeFunction", "CallSite"]]]
NO_LINES: Innermost[SourceLine] = Innermost(None, None)


class _Way:
    """A call on the way to operations, and the calls that follow it.

    Args:
        link: what it adds to the hierarchy.
        tag: of its range.
        caller: the class of the module that it leads to.
        path: of this module.
        level: the module, if it is a level of its own.
    """

    __slots__ = ("caller", "following", "level", "link", "path", "tag")

    def __init__(self, link: str, tag: int, caller: str, path: str, level: ModuleLevel | None = None) -> None:
        self.link, self.tag, self.caller, self.path, self.level = link, tag, caller, path, level
        self.following: dict[tuple[int, int, int], _Way] = {}


class HandlePlaces:
    """Finds the places of the handles of one archive."""

    def __init__(self, opened: Archive, code: GeneratedCode, lines: LineReader) -> None:
        self._opened, self._code, self._lines = opened, code, lines
        self._innermost_at = cache(self._innermost_of)
        self._sites_in = cache(self._sites_of)

    def of(self, handle: int) -> OperationPlace:
        """The place that a debug handle stands for; modules in lists have their whole path."""
        table, known = self._opened.handle_table, self._opened.handle_form.known_as(handle)
        if table is None or known not in table.rows:
            found = self._opened.symbolicate(handle)
            if table is None or found.missing:
                return place_of(found)
            known = found.entries[0].handle  # it was given in the form that a log has
        with in_file(self._opened.file):
            try:
                return self._of_row(table, table.rows[known])
            except ArchiveError as error:
                raise error.within(place=f"debug handle {known}") from error.__cause__

    def _of_row(self, table: HandleTable, row: int) -> OperationPlace:
        limits = self._opened.limits
        steps, size = Steps(limits.work), 0
        way, ways = self._top, [self._top]
        for frame in table.frames(row):
            way = self._next(way, table, frame)
            ways.append(way)
            steps.take(STEPS_A_FRAME)
            size += len(way.link)
            if size > limits.output:
                raise LimitError("output", limits.output, size)
        name = table.op_of(row)
        op = None if name is None else str(name)
        hierarchy = one_line(f"{''.join([way.link for way in ways])}.{op or ''}")
        lines = self._innermost([int(table.tag[row]), *(way.tag for way in reversed(ways))])
        return OperationPlace(
            (
                ModuleLevel(hierarchy.partition("::")[0], ""),
                *(way.level for way in ways if way.level is not None),
            ),
            hierarchy,
            lines.of_model,
            lines.first,
            UNKNOWN_NAME if op is None else one_line(op),
        )

    @cached_property
    def _top(self) -> _Way:
        return _Way(heading_of(self._opened.top), -1, self._opened.qualified_top, "")

    def _next(self, way: _Way, table: HandleTable, frame: int) -> _Way:
        """The call of a frame, after those on the way to it."""
        key = table.module.item(frame), table.call_tag.item(frame), table.function.item(frame)
        if key not in way.following:
            way.following[key] = self._called(way, table, frame)
        return way.following[key]

    def _called(self, way: _Way, table: HandleTable, frame: int) -> _Way:
        call = table.call(frame)
        tag, link = int(call.tag), link_of(call, function_of(call))
        if call.module is None:
            return _Way(link, tag, way.caller, way.path)
        callee, instance = str(call.module.type_name), str(call.module.instance)
        if instance in INSTANCES_WITHOUT_LEVEL:
            return _Way(link, tag, callee, way.path)
        step = one_line(self._step(tag, way.caller, str(call.function), callee, instance))
        path = f"{way.path}.{step}".removeprefix(".")
        return _Way(link, tag, callee, path, ModuleLevel(path, one_line(call.module.class_name), step))

    def _innermost(self, tags: Sequence[int]) -> Innermost[SourceLine]:
        """The innermost lines of the ranges with some tags, innermost first."""
        first = None
        for lines in map(self._innermost_at, tags):
            first = first or lines.first
            if lines.own is not None:
                return Innermost(lines.own, first)
        return Innermost(None, first)

    def _innermost_of(self, tag: int) -> Innermost[SourceLine]:
        """The innermost lines of the range with a tag."""
        ranges = self._opened.range_table
        row = ranges.with_tag(tag)
        return NO_LINES if row is None else self._lines.innermost(ranges.source_range(row))

    def _step(self, tag: int, caller: str, function: str, callee: str, instance: str) -> str:
        """The attributes that lead from a module to the one that it calls."""
        sites = self._sites_in(caller.rpartition(".")[0]).get((tag, caller, function), []) if tag >= 0 else []
        return one_path(sites, caller, callee, self._code, last=instance) or instance

    @cached_property
    def _ranges_by_module(self) -> dict[str, list[int]]:
        """The numbers of the records of source ranges, by the module whose code they are of."""
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self._opened.range_table.names):
            numbers.setdefault(module_of(code_of(name)), []).append(number)
        return numbers

    def _sites_of(self, module: str) -> _Sites:
        """The calls in a module's generated code, by the tag of their range, class, and method.

        Code is parsed for the classes that call: most only run operators, as ``Linear`` does.
        """
        table = self._opened.range_table
        sites: _Sites = {}
        for number in self._ranges_by_module.get(module, ()):
            record = self._code.record(code_of(table.names[number]))
            rows = table.rows(number)
            offsets = table.offset[rows.start : rows.stop]
            found = [] if record is None else [*record.sites()]
            last = np.searchsorted(offsets, [site.start for _, site in found], "right") - 1
            tags = table.tag[rows.start : rows.stop][last].tolist() if len(offsets) else []
            for (function, site), at, tag in zip(found, last.tolist(), tags, strict=False):
                if at >= 0:
                    key = tag, function.type_name, site.method
                    sites.setdefault(key, []).append((function, site))
        return sites
