"""The debug records again, to the byte, from what a companion holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.base.errors import ArchiveError
from archive.debuginfo.model import Generation
from archive.formats import callstack_map, method_handles
from archive.formats.source_ranges import build_source_ranges
from archive.normalform.handles import unpack_handles, unpack_methods, unpack_paths
from archive.normalform.ranges import unpack_ranges
from archive.normalform.relayout import laid_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.debuginfo.tables import HandleTable, MethodTable, RangeTable
    from archive.normalform.form import Facts

GENERATIONS = [Generation.CALLSTACK_3, Generation.CALLSTACK_4]
"""A call-stack map's layout is kept as its place in here."""


class DebugRecords(Mapping[str, bytes]):
    """The records by name, each made when it is asked for.

    Attributes:
        facts: what they are made from.
        range_names: those of source ranges, in the archive's order.
        raw: those that are kept as they were, for PyTorch's rules would give others.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._columns = facts.columns
        self._makers: dict[str, Callable[[], bytes]] = {}
        strings = facts.strings
        self.range_names = [_name(strings.data(name)) for name in self._columns["record.name"].tolist()]
        for number, name in enumerate(self.range_names):
            self._add(name, partial(self._ranges, number))
        if "handle.handle" in self._columns:
            self._add(callstack_map.CALLSTACK_MAP, self._callstacks)
        if "method.name" in self._columns:
            self._add(method_handles.METHOD_HANDLES, self._methods)
        if "pathed.name" in self._columns:
            self._add(method_handles.MODULE_PATHS, self._paths)
        self.raw = self._raw()
        self._makers |= {name: partial(bytes, data) for name, data in self.raw.items()}

    def _raw(self) -> dict[str, memoryview | bytes]:
        columns, whole = self._columns, self.facts.raw
        first = firsts(columns.get("raw.length", np.zeros(0, np.int64))).tolist()
        if first[-1] != len(whole):
            raise ArchiveError(place="raw.length", expected=f"{len(whole)} bytes", found=str(first[-1]))
        numbers = columns.get("raw.name", np.zeros(0, np.int64)).tolist()
        names = [_name(self.facts.strings.data(number)) for number in numbers]
        if len(set(names)) < len(names):
            raise ArchiveError(place="raw.name", expected="each record once", found="one twice")
        return {name: whole[start:end] for name, (start, end) in zip(names, pairwise(first), strict=True)}

    def _add(self, name: str, maker: Callable[[], bytes]) -> None:
        if name in self._makers:
            raise ArchiveError(place=name, expected="each record once", found="one twice")
        self._makers[name] = maker

    def __getitem__(self, name: str) -> bytes:
        return self._makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    @cached_property
    def range_table(self) -> RangeTable:
        """The source ranges, laid out as the records have them."""
        return laid_out(unpack_ranges(self._columns, self.facts.strings, self.facts.budget))

    @cached_property
    def handle_table(self) -> HandleTable:
        """The call-stack map."""
        return unpack_handles(self._columns, self.facts.strings)

    @cached_property
    def method_table(self) -> MethodTable:
        """The handles of each method's instructions."""
        return unpack_methods(self._columns, self.facts.strings)

    @cached_property
    def path_table(self) -> MethodTable:
        """The module paths of each method's instructions."""
        return unpack_paths(self._columns, self.facts.strings)

    def _ranges(self, number: int) -> bytes:
        return build_source_ranges(self.range_table, number)

    def _callstacks(self) -> bytes:
        generation = GENERATIONS[int(self._columns["file.callstacks"][0])]
        return callstack_map.build_callstack_map(self.handle_table, generation)

    def _methods(self) -> bytes:
        return method_handles.build_methods(self.method_table, Generation.METHOD_HANDLES)

    def _paths(self) -> bytes:
        return method_handles.build_methods(self.path_table, Generation.MODULE_PATHS)


def _name(data: memoryview) -> str:
    return bytes(data).decode("utf-8", "surrogateescape")
