"""The unique handles that `split` makes of an archive's own, computed from the original archive.

So whoever kept that archive can explain what devices report with `split`'s handles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from archive.debuginfo.unique_handles import SPAN, HandleForm, prefix_for
from archive.formats.record_kinds import CALLSTACK_MAP, METHOD_HANDLES, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.columns import Ints
    from archive.container.container import Container
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.reader.records import ReadableRecord


class HandledArchive(Protocol):
    """What is needed of an archive: see :class:`archive.Archive`."""

    @property
    def companion(self) -> object:
        """The companion that debug information is read from; None where the archive has its own."""

    @property
    def has_code(self) -> bool:
        """Whether it has code."""

    @property
    def archive_id(self) -> bytes:
        """The archive id."""

    @property
    def container(self) -> Container:
        """The zip."""

    @property
    def records(self) -> Mapping[str, ReadableRecord]:
        """The records by name."""

    @property
    def handle_form(self) -> HandleForm:
        """The form of the handles in its tables."""

    @property
    def handle_table(self) -> HandleTable | None:
        """The call-stack debug map; None where there is none."""

    @property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions; None where there are none."""


def prefix_of(opened: HandledArchive, salt: str = "") -> int:
    """The prefix of the unique handles of an archive that has its debug records.

    Args:
        salt: another text gives another prefix.
    """
    records = opened.container.records
    debug = [(name, record.view()) for name, record in records.items() if kind_of(name).is_debug]
    return prefix_for(opened.archive_id, debug, salt)


def largest_handle(opened: HandledArchive) -> int:
    """The largest handle of an archive's instructions; -1 where there are none.

    Below ``SPAN``, they can be unique. Those of delegated operations need not be: a backend prints them as it
    numbered them, in front of the instruction that called it.
    """
    methods = opened.method_table
    return -1 if methods is None else int(methods.value.max(initial=-1))


def delegated_handles(opened: HandledArchive) -> Ints:
    """The handles of an archive's call-stack map that no instruction has."""
    if opened.handle_table is None or opened.method_table is None:
        return np.zeros(0, np.int64)
    return np.setdiff1d(opened.handle_table.handle, opened.method_table.value)


def logged_form(opened: HandledArchive) -> HandleForm:
    """The form of an archive's handles in logs, which it prints itself, or what `split` leaves of it.

    So whoever kept the original archive can explain what devices report with `split`'s handles, except those
    made with a salt, which are not known here.
    """
    form = opened.handle_form
    is_untouched = not form.prefix and opened.companion is None and opened.has_code
    if not is_untouched or not {METHOD_HANDLES, CALLSTACK_MAP} <= opened.records.keys():
        return form
    return HandleForm(prefix_of(opened)) if 0 <= largest_handle(opened) < SPAN else form
