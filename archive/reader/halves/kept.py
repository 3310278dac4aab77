"""What stays in an archive whose debug information is taken out; its companion has all of it.

- *Kinds* of debug information of a ``.pt2``: some stay by default, others by choice.
- *Debug handles*: they become unique, stay as they are, or go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError, ImpossibleError, UnfitOptionsError
from archive.debuginfo.unique_handles import SPAN, common_prefix, unique
from archive.formats.method_handles import build_methods
from archive.formats.record_kinds import CALLSTACK_MAP, METHOD_HANDLES, MetadataKind, SpareKind, kind_of
from archive.reader.halves.slim import slim_members, smallest_member
from archive.reader.pickle_records import PickleRecords
from archive.reader.split_handles import largest_handle, prefix_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from enum import StrEnum
    from typing import TypeAlias

    from archive.companion.contents import Contents
    from archive.container.write import Member
    from archive.debuginfo.handle_tables import MethodTable
    from archive.reader.archive import Archive

HandleChoice: TypeAlias = Literal["unique", "keep", "drop"]

KIND_BY_WORD = {kind.name.lower(): kind for kind in (*MetadataKind, *SpareKind)}
"""The kinds of debug information in a ``.pt2`` by the words that options take."""
KEPT = ("modules", "handles")
"""Kinds that stay by default: what ``torch.export.unflatten`` and ExecuTorch's Inspector read."""


# --- kinds


def kept_kinds(
    opened: Archive, keep: Collection[str], drop: Collection[str]
) -> frozenset[MetadataKind | SpareKind]:
    """The kinds that stay in an archive, whether or not it has some.

    Args:
        keep: kinds that stay beside those that do by default.
        drop: kinds that do not stay.

    Raises:
        UnfitOptionsError: kinds are given, and the archive has no exported programs or compiled models.
    """
    for word in (*keep, *drop):
        if word not in KIND_BY_WORD:
            raise ArchiveError(expected=f"a kind: {', '.join(KIND_BY_WORD)}", found=word)
    kept, dropped = ({KIND_BY_WORD[word] for word in words} for words in (keep, drop))
    if both := kept & dropped:
        raise ArchiveError(f"{', '.join(sorted(both))} cannot be both kept and dropped", file=opened.file)
    if (keep or drop) and not opened.programs and not opened.spare.kinds:
        why = "kinds are kept and dropped in exported programs and compiled models, and it has none"
        raise UnfitOptionsError(why, file=opened.file, options=("keep", "drop"))
    return frozenset({KIND_BY_WORD[word] for word in KEPT} | kept) - dropped


class Remains(NamedTuple):
    """What is left of an archive's debug information in it.

    Attributes:
        records: debug records of compiled models that stay.
        parts: what is left of exported programs and shared objects, by record.
        handles: the debug handles that stay.
    """

    records: list[str]
    parts: Mapping[str, bytes]
    handles: KeptHandles

    @classmethod
    def of(cls, opened: Archive, kinds: Collection[StrEnum], handles: KeptHandles) -> Remains:
        """What is left of an archive, if some kinds and handles stay."""
        records = [name for name, kind in opened.spare.records.items() if kind in kinds]
        return cls(records, {**opened.programs.left_with(kinds), **opened.spare.left(kinds)}, handles)

    def members(self, opened: Archive) -> Iterator[Member]:
        """The members of the archive that is left, without the serialization id."""
        debug = (*self.handles.records, *self.records)
        for member in slim_members(opened.recognised.kind, opened.container, debug, self.parts):
            if member.name == METHOD_HANDLES and self.handles.is_new:
                table = opened.with_unique_handles(self.handles.prefix).method_table
                assert table is not None  # noqa: S101 (the record is there)
                yield smallest_member(METHOD_HANDLES, build_methods(table))
            else:
                yield member

    def lost(self, opened: Archive) -> int:
        """Stored bytes of all debug records, plus those that programs and shared objects lose."""
        records = opened.container.records
        debug = [name for name in records if kind_of(name).is_debug]
        debug += [name for name in opened.spare.records if name not in self.records]
        parts = sum(records[name].size - len(data) for name, data in self.parts.items())
        return parts + sum(records[name].stored_size for name in debug)


# --- handles


class KeptHandles(NamedTuple):
    """The handles that stay in an archive.

    Attributes:
        records: the debug records that stay.
        prefix: of the unique handles in them; 0 where handles are as PyTorch numbered them.
        is_new: whether these differ from the archive's present handles.
        largest: a handle too large to become unique, where handles should have; else 0.
    """

    records: tuple[str, ...]
    prefix: int = 0
    is_new: bool = False
    largest: int = 0

    @property
    def as_they_are(self) -> tuple[str, ...]:
        """The records that do not change."""
        return () if self.is_new else self.records

    def noted(self, contents: Contents) -> Contents:
        """A companion's contents with the prefix of the handles that the model prints, if it is new."""
        if not self.is_new:
            return contents
        return contents.with_columns({**contents.columns, "file.prefix": np.array([self.prefix])})


def kept_handles(
    opened: Archive, handles: HandleChoice | None, salt: str, *, by_default: HandleChoice
) -> KeptHandles:
    """Decide which handles stay in an archive.

    Args:
        handles: what becomes of them; None for the default.
        salt: of their prefix.
        by_default: what becomes of them by default.

    Raises:
        UnfitOptionsError: ``handles`` is given, and the archive has none.
        ImpossibleError: they cannot become unique, or they are already.
    """
    if METHOD_HANDLES not in opened.records:
        if handles or salt:
            what = "make unique" if (handles or "unique") == "unique" else handles
            why = f"has no debug handles to {what}, as {METHOD_HANDLES} is missing"
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
    largest = largest_handle(opened)
    if largest < SPAN:
        return KeptHandles((METHOD_HANDLES,), prefix_of(opened, salt), is_new=True)
    if handles or salt:
        why = f"handle {largest} has more than 8 digits, so handles cannot become unique; `--handles keep`"
        raise ImpossibleError(why, file=opened.file)
    return KeptHandles((METHOD_HANDLES,), largest=largest)


def check_handles_left(opened: Archive) -> None:
    """Refuse a companion of another file of the same model: the handles in the archive are not its own."""
    companion = opened.companion
    if companion is None or METHOD_HANDLES not in opened.container.records:
        return
    left, whole = PickleRecords(opened.container).method_table, companion.method_table
    # Companions of version 1 keep no prefix: any fits, as long as all handles have it.
    prefix = companion.handle_form.prefix or (0 if left is None else common_prefix(left.value))
    prefixes = {0 if whole is not None and common_prefix(whole.value) else prefix}
    if CALLSTACK_MAP in opened.container.records:  # it was not split, and may be the original itself
        prefixes.add(0)
    if left is None or whole is None or not any(_prints(left, whole, prefix) for prefix in prefixes):
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
