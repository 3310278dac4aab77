"""Debug handles in an archive that is split or shrunk: they become unique, stay as they are, or go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError, ImpossibleError, UnfitOptionsError
from archive.debuginfo.unique_handles import SPAN, common_prefix, prefix_for, unique
from archive.formats.method_handles import build_methods
from archive.formats.record_kinds import CALLSTACK_MAP, METHOD_HANDLES, kind_of
from archive.reader.pickle_records import PickleRecords
from archive.rewrite.slim import smallest_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from archive.companion.contents import Contents
    from archive.container.container import Member
    from archive.debuginfo.handle_tables import MethodTable
    from archive.reader.archive import Archive

HandleChoice: TypeAlias = Literal["unique", "keep", "drop"]


class KeptHandles(NamedTuple):
    """The handles that stay in an archive.

    Attributes:
        records: the debug records that stay.
        prefix: of the unique handles in them; 0 where handles are as PyTorch numbered them.
        is_new: whether the archive has other handles so far.
        largest: a handle that has no unique form, where they should have become unique; else 0.
    """

    records: tuple[str, ...]
    prefix: int = 0
    is_new: bool = False
    largest: int = 0

    @property
    def as_they_are(self) -> tuple[str, ...]:
        """Those of the records that do not change."""
        return () if self.is_new else self.records

    def members(self, opened: Archive, members: Iterable[Member]) -> Iterator[Member]:
        """The members of the archive, with the handles that stay in it."""
        for member in members:
            if member.name == METHOD_HANDLES and self.is_new:
                table = opened.with_unique_handles(self.prefix).method_table
                assert table is not None  # noqa: S101 (the record is there)
                yield smallest_member(METHOD_HANDLES, build_methods(table))
            else:
                yield member

    def noted(self, contents: Contents) -> Contents:
        """A companion's contents with the prefix of the handles that the archive prints, if it is new."""
        if not self.is_new:
            return contents
        return contents.with_columns({**contents.columns, "file.prefix": np.array([self.prefix])})


def kept_handles(
    opened: Archive, handles: HandleChoice | None, salt: str, *, by_default: HandleChoice
) -> KeptHandles:
    """Decide which handles stay in an archive.

    Args:
        opened: the archive.
        handles: what becomes of them; None for the default.
        salt: of their prefix.
        by_default: what becomes of them, if there are some.

    Raises:
        UnfitOptionsError: ``handles`` is given, and there are none.
        ImpossibleError: they cannot become unique, or are so already.
        ArchiveError: a salt is given, and the handles are not to become unique.
    """
    if METHOD_HANDLES not in opened.records:
        if handles or salt:
            what = "make unique" if (handles or "unique") == "unique" else handles
            why = f"has no debug handles to {what}: there is no {METHOD_HANDLES}"
            raise UnfitOptionsError(why, file=opened.file, options=("handles", "salt"))
        return KeptHandles(())
    choice = handles or ("unique" if salt else by_default)
    if salt and choice != "unique":
        raise ArchiveError("a salt is for unique handles", file=opened.file)
    if choice == "drop":
        return KeptHandles(())
    if salt and opened.handle_form.prefix:
        raise ImpossibleError("its handles are unique already, and keep their prefix", file=opened.file)
    if choice == "keep" or opened.handle_form.prefix:
        return KeptHandles((METHOD_HANDLES,), opened.handle_form.prefix)
    largest = _largest(opened)
    if largest < SPAN:
        return KeptHandles((METHOD_HANDLES,), prefix_of(opened, salt), is_new=True)
    if handles or salt:
        why = f"handle {largest} has more than 8 digits, so handles cannot become unique; `--handles keep`"
        raise ImpossibleError(why, file=opened.file)
    return KeptHandles((METHOD_HANDLES,), largest=largest)


def prefix_of(opened: Archive, salt: str = "") -> int:
    """The prefix of an archive's unique handles, as long as it has its debug records.

    Args:
        opened: the archive.
        salt: another text gives another prefix.
    """
    records = opened.container.records
    debug = [(name, record.view()) for name, record in records.items() if kind_of(name).is_debug]
    return prefix_for(opened.archive_id, debug, salt)


def _largest(opened: Archive) -> int:
    """The largest handle of an archive; -1 where there are none."""
    tables = opened.handle_table, opened.method_table
    columns = [] if tables[0] is None else [tables[0].handle]
    columns += [] if tables[1] is None else [tables[1].value]
    return max((int(column.max(initial=-1)) for column in columns), default=-1)


def check_handles_left(opened: Archive) -> None:
    """Refuse a companion of another file of the same model: the handles in the archive are not its own.

    Raises:
        ArchiveError: what was split from the companion's file prints other handles than the archive does.
    """
    companion = opened.companion
    if companion is None or METHOD_HANDLES not in opened.container.records:
        return
    left, whole = PickleRecords(opened.container).method_table, companion.method_table
    # Companions of version 1 keep no prefix: then any is theirs, as long as all handles have it.
    prefix = companion.handle_form.prefix or (0 if left is None else common_prefix(left.value))
    prefixes = {0 if whole is not None and common_prefix(whole.value) else prefix}
    if CALLSTACK_MAP in opened.container.records:  # it was not split, and may be the original itself
        prefixes.add(0)
    if left is None or whole is None or not any(_prints(left, whole, one) for one in prefixes):
        raise ArchiveError(
            "its debug handles are those of another file of this model; "
            f"{companion.file} is not the companion that was split from it",
            file=opened.file,
            record=METHOD_HANDLES,
        )


def _prints(left: MethodTable, whole: MethodTable, prefix: int) -> bool:
    """Whether an archive prints the handles of another one, with a prefix or as they are.

    Names and order of methods do not count: hashes may stand for names.
    """
    expected = unique(whole.value, prefix) if prefix else whole.value
    return np.array_equal(np.sort(left.value), np.sort(expected))
