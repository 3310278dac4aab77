"""The parts of two archives, each compared by what knows it; and the whole as one list of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import in_file
from archive.formats.bytecode import BYTECODE
from archive.formats.inert_values import DATA
from archive.formats.python_pickle import Value, plain_value
from archive.formats.record_kinds import RecordKind, is_code
from archive.reader.recognition import SAVED_KINDS, FileKind
from archive.reader.recognition.kinds import kind_in
from archive.reader.recognition.saved import tensor_of
from archive.verbs.diff.changes import Change, Diff, Level, Status
from archive.verbs.diff.code import code_changes
from archive.verbs.diff.debug import handle_changes, method_changes, range_changes
from archive.verbs.diff.instructions import bytecode_changes
from archive.verbs.diff.numbers import equal
from archive.verbs.diff.pairing import Pairing
from archive.verbs.diff.programs import program_changes
from archive.verbs.diff.records import layout_changes, record_changes, rewritten, same_bytes
from archive.verbs.diff.tensors import Tensors
from archive.verbs.diff.values import Values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.reader.archive import Archive

VALUE_KINDS = (RecordKind.MODULES, RecordKind.CONSTANTS, RecordKind.OBJECT)
"""Kinds of records that are pickled values."""
DEBUG_TABLES = {RecordKind.RANGES, RecordKind.DELEGATED, RecordKind.CALLSTACKS, RecordKind.HANDLES, RecordKind.PATHS}
"""Kinds of records that are compared as columns."""
ORDER = list(Level)


def compare(old: Archive, new: Archive) -> Diff:
    """The whole difference of two archives.

    Raises:
        ArchiveError: one of them is broken.
    """
    comparison = _Comparison(old, new)
    identical = comparison.is_identical()
    changes = [] if identical else list(comparison.changes())
    if not identical and not changes:
        changes = [Change(level=Level.LAYOUT, what="zip", name="headers and padding", status=Status.CHANGED)]
    changes.sort(key=lambda change: ORDER.index(change.level))
    return Diff(
        old.file, new.file, old.recognised.what, new.recognised.what, tuple(changes),
        tuple(comparison.unchecked), identical,
    )  # fmt: skip


class _Comparison:
    """One comparison.

    Attributes:
        unchecked: what was not compared.
        understood: names of the records of each that something compares by what they say.
    """

    def __init__(self, old: Archive, new: Archive) -> None:
        self._old, self._new = old, new
        self.unchecked: list[str] = []
        self.understood: tuple[set[str], set[str]] = set(), set()
        self._names = Pairing(_classes(old), _classes(new))

    def is_identical(self) -> bool:
        """Whether both are one file each, of the same bytes."""
        if any(one.companion is not None and one.has_code and not one.is_embedded for one in (self._old, self._new)):
            return False
        was, now = (one._source.data for one in (self._old, self._new))  # noqa: SLF001
        return equal(was, now)

    def changes(self) -> Iterator[Change]:
        """The rows of all parts."""
        old, new = self._old, self._new
        if old.recognised.kind is not new.recognised.kind:
            yield Change(
                level=Level.FORMAT, what="file", name="kind", status=Status.CHANGED,
                old=str(old.recognised.kind), new=str(new.recognised.kind),
            )  # fmt: skip
        if old.has_code and new.has_code:
            yield from self._of_model()
        else:
            self.unchecked.append("the model: a companion has none of it")
        yield from self._of_debug_info()
        yield from self._of_records()

    def _of_model(self) -> Iterator[Change]:
        tensors = Tensors(self._old, self._new)
        for archive, understood in self._sides():
            understood.update(archive.tensors.storages)
        yield from tensors.changes()
        self.unchecked += tensors.unchecked
        yield from self._of_values()
        for archive, understood in self._sides():
            understood.update(filter(is_code, archive.records))
        yield from code_changes(self._old, self._new, self._names)
        if old_and_new(self._old, self._new, BYTECODE):
            for _, understood in self._sides():
                understood.add(BYTECODE)
            yield from bytecode_changes(self._old, self._new, self._names)
        for archive, understood in self._sides():
            understood.update(archive.programs.records.values())
        yield from program_changes(self._old, self._new)
