"""The debug records of a normal form, to the byte, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.formats import callstack_map, method_handles
from archive.formats.record_kinds import CALLSTACK_MAP, holds_ranges
from archive.normalform.columns import CALLSTACK_LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.normalform.form import NormalForm


class DebugRecords(Mapping[str, bytes]):
    """Debug records by name: those of source ranges in the archive's order, then those of handles.

    Args:
        raw: records that are taken unchanged, whether or not the form could rebuild them.

    Attributes:
        raw: the same.
        range_names: the records of source ranges.
    """

    def __init__(self, form: NormalForm, raw: Mapping[str, memoryview | bytes] | None = None) -> None:
        self.raw = raw or {}
        self._makers: dict[str, Callable[[], bytes]] = {}  # none holds `self`: a cycle would stay in memory
        self.range_names = form.range_records.names
        for number, name in enumerate(self.range_names):
            if not holds_ranges(name):
                expected = "the name of a record of source ranges"
                raise ArchiveError(place=f"record.name, row {number}", expected=expected, found=shown(name))
            self._add(name, partial(form.range_records.build, number))
        if form.handle_table is not None:
            layout = CALLSTACK_LAYOUTS[int(form.columns["file.callstacks"][0])]
            build = callstack_map.build_callstack_map
            self._add(CALLSTACK_MAP, partial(build, form.handle_table, layout))
        for name, table in method_handles.method_records(form.method_table, form.path_table).items():
            self._add(name, partial(method_handles.build_methods, table))
        self._makers |= {name: partial(bytes, data) for name, data in self.raw.items()}

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
