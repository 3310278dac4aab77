"""The facts by which a failure names its model: few bytes that say much while the file is not at hand."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import distinct_values
from archive.base.facts import dataclass
from archive.base.strings import decoded
from archive.container.serialization_id import RECORD_NAME
from archive.debuginfo.unique_handles import SPAN, HandleForm
from archive.formats.record_kinds import CODE_FOLDERS, code_of, is_code

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.reader.archive import Archive

MAX_ID = 64
"""Bytes of a serialization id that is read."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a model that say whether a failure may be its own.

    Attributes:
        archive_id: the archive id, in hexadecimal digits.
        prefix: the prefix of its unique handles; 0 where it has none.
        serialization_id: the serialization id; "" where there is none.
        top: the class of the top module.
        qualified_top: the same with its module.
        handles: its debug handles without a prefix, as ascending ranges.
        code: the code records that a traceback may name; of a companion, those with source ranges. Those of a
            redacted archive are among them.
        redacted_id: the archive id of the redacted archive, in the same digits; "" where it has no other one.
    """

    archive_id: str
    prefix: int
    serialization_id: str
    top: str
    qualified_top: str
    handles: tuple[range, ...]
    code: frozenset[str]
    redacted_id: str = ""

    @property
    def ids(self) -> frozenset[str]:
        """The ids that stand for this model alone."""
        prefix = str(self.prefix) if self.prefix else ""
        return frozenset({self.archive_id, self.redacted_id, prefix, self.serialization_id}) - {""}

    def names(self, file: str) -> frozenset[str]:
        """What a log may call the model: its file, with and without ending; its top class."""
        path = PurePath(file)
        classes = (self.top, self.qualified_top)
        return frozenset({path.name, path.stem, path.name.partition(".")[0], *classes}) - {""}

    def may_have_handles(self, digits: str) -> bool:
        """Whether digits can be split into handles of the model; nothing else is asked of these.

        Args:
            digits: handles as they are printed, one behind the other.
        """
        digits, _ = HandleForm(self.prefix).split(digits)
        if not (digits + "0").isdecimal() or not self.handles:
            return False
        ends, most = {0}, len(str(self.handles[-1][-1]))
        for at in range(len(digits)):
            if at in ends:
                longest = 1 if digits[at] == "0" else most
                for end in range(at + 1, min(at + longest, len(digits)) + 1):
                    handle = int(digits[at:end])
                    run = bisect_right(self.handles, handle, key=lambda handles: handles.start)
                    if run > 0 and handle in self.handles[run - 1]:
                        ends.add(end)
        return len(digits) in ends

    def may_have_code(self, names: Collection[str]) -> bool:
        """Whether the model has code records of all these names."""
        return self.code.issuperset(names)


def facts_of(opened: Archive) -> Facts:
    """The facts about an archive or a companion.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    serialization_id = ""
    if opened.has_code and RECORD_NAME in opened.container.records:
        serialization_id = decoded(opened.container.records[RECORD_NAME].view()[:MAX_ID]).strip()
    companion = opened.companion
    redacted = None if companion is None else companion.redacted_id
    others = [] if companion is None else [name for name in companion.replaced if is_code(name)]
    if opened.has_code:
        code = frozenset(name for name in [*opened.records, *others] if name.startswith(CODE_FOLDERS))
    else:
        code = frozenset([*map(code_of, opened.range_records), *others])
    return Facts(
        archive_id=opened.archive_id.hex(),
        prefix=opened.handle_form.prefix,
        serialization_id=serialization_id,
        top=opened.top,
        qualified_top=opened.qualified_top,
        handles=_handles(opened),
        code=code,
        redacted_id="" if redacted is None else redacted.hex(),
    )


def _handles(opened: Archive) -> tuple[range, ...]:
    table, form = opened.handle_table, opened.handle_form
    if table is None or not len(table):
        return ()
    has_prefix = form.tabled and form.prefix
    handles = distinct_values(table.handle % SPAN if has_prefix else table.handle)
    runs = np.split(handles, np.flatnonzero(np.diff(handles) != 1) + 1)
    return tuple(range(int(run[0]), int(run[-1]) + 1) for run in runs)
