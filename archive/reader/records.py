"""The parts that an opened archive is read through; an archive and its companion as one; unique handles.

An archive needs three things, whatever it was opened from: records by name (:class:`Records`), debug
information as columns (:class:`DebugTables`), and the class names of the module tree
(:class:`ModuleClassNames`).
A zip provides the first, and the others by parsing its records; a companion provides all three. A file of
tensors that isn't a zip provides only the first, and its tensors with it (:class:`TensorRecords`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.container.serialization_id import RECORD_NAME
from archive.debuginfo.symbolicate import TableLookup
from archive.debuginfo.unique_handles import HandleForm, unique
from archive.formats.record_kinds import place_of_companion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from archive.base.limits import Allowance
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import HandleLookup
    from archive.debuginfo.tables import RangeSummary, RangeTable
    from archive.formats.record_kinds import RecordKind
    from archive.formats.tensor_files.described import ClassSource, Value
    from archive.formats.tensors.tensor import Tensor
    from archive.reader.companion import Companion
    from archive.reader.recognition.kinds import Recognised


class ReadableRecord(Protocol):
    """One record: stored in a zip, or made from a companion when it is asked for."""

    @property
    def name(self) -> str:
        """Its name, without the root folder."""

    @property
    def size(self) -> int:
        """Inflated size in bytes."""

    @property
    def stored_size(self) -> int:
        """Size in the zip in bytes; 0 for a record that is made."""

    @property
    def compression(self) -> str:
        """``stored``, ``deflated`` or ``companion``."""

    @property
    def crc32(self) -> int:
        """Of the inflated bytes; 0 also means that PyTorch did not compute it."""

    @property
    def borrowed(self) -> bool:
        """Whether :meth:`view` is part of the file rather than a copy."""

    def view(self) -> memoryview:
        """The record's bytes, read only."""


class Records(Protocol):
    """Records by name, from one file or two."""

    @property
    def file(self) -> str:
        """Name of the file, for messages."""

    @property
    def root(self) -> str:
        """The folder that all records are in; "" for a companion."""

    @property
    def allowance(self) -> Allowance:
        """The memory and sizes that the file may ask for."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    @property
    def data(self) -> memoryview:
        """The bytes of the whole file."""

    @property
    def records(self) -> Mapping[str, ReadableRecord]:
        """The records by name, without root, in the file's order."""

    def fetch(self, names: Iterable[str]) -> None:
        """Read some records of a remote file in few requests, for use right after; else do nothing."""

    def check_unchanged(self) -> None:
        """Refuse a file that was written to since it was mapped."""

    def close(self) -> None:
        """Close the file."""


INSIDE = "!/"
"""What separates the name of a file, or of a record that is a zip, from that of a record in it."""


class RecordSpan(NamedTuple):
    """Bytes of an inflated record: its name, the first byte, and how many."""

    record: str
    start: int
    size: int


class TensorRecords(Records, Protocol):
    """The records of a file of tensors, or of a model in several files, and what these say of it."""

    @property
    def recognised(self) -> Recognised:
        """The kind of file, with details."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors by name. The record of each is one of these records or storages, or ""."""

    @property
    def storages(self) -> Mapping[str, tuple[ReadableRecord, RecordSpan]]:
        """Storages that are parts of records, by name, and where they lie."""

    @property
    def is_big_endian(self) -> bool:
        """Whether the elements are big-endian."""

    @property
    def version(self) -> int | None:
        """Of the format; None where its files have none."""

    @property
    def metadata(self) -> Mapping[str, Value]:
        """What the file says of the model: see the module of its format."""

    @property
    def sources(self) -> Sequence[ClassSource]:
        """Sources of classes in it."""

    @property
    def imports(self) -> Sequence[str]:
        """What Python imports to read its pickles, and ``weights_only`` refuses."""

    @property
    def kinds(self) -> Mapping[str, RecordKind]:
        """The kind of each record."""

    @property
    def files(self) -> Mapping[str, int]:
        """The model's files and their sizes in bytes, the main file first."""

    @property
    def missing(self) -> Sequence[str]:
        """Files that it names but that do not exist."""

    @property
    def padding(self) -> int:
        """Bytes that only align others."""


class DebugTables(Protocol):
    """The debug information of an archive, as columns. Each is read when it is first asked for."""

    @property
    def range_table(self) -> RangeTable:
        """The source ranges of all records."""

    @property
    def range_summary(self) -> RangeSummary:
        """How much these records hold."""

    @property
    def range_names(self) -> Collection[str]:
        """The records of source ranges, in the file's order."""

    def locate(self, name: str, position: int) -> SourceRange | None:
        """The source of a position in the code of a record of source ranges; None where none is known."""

    @property
    def handle_table(self) -> HandleTable | None:
        """The call-stack debug map; None where there is none."""

    @property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions; None where there are none."""

    @property
    def path_table(self) -> MethodTable | None:
        """The module paths of PyTorch 1.7 and 1.8; None where there are none."""

    @property
    def handle_form(self) -> HandleForm:
        """The form of the handles in these tables, and of those that the archive prints."""

    @property
    def known(self) -> HandleLookup:
        """Where single handles and tags are looked up."""


class ModuleClassNames(Protocol):
    """The class names in a module tree."""

    @property
    def top(self) -> str:
        """Class of the top module, as PyTorch's texts have it; "" where it is not recorded."""

    @property
    def qualified_top(self) -> str:
        """The same with its module: ``__torch__.models.Stack``."""

    @property
    def classes(self) -> Collection[str]:
        """The qualified names of all classes."""


class Rejoined:
    """The records of an archive, followed by those of its companion.

    Args:
        archive: the archive without debug information; it is the file that messages name.
        companion: its companion.
    """

    def __init__(self, archive: Records, companion: Companion) -> None:
        self._archive, self._companion = archive, companion
        self.file, self.root, self.allowance = archive.file, archive.root, archive.allowance

    @property
    def size(self) -> int:
        """Bytes of the archive, without those of a separate companion."""
        return self._archive.size

    @property
    def data(self) -> memoryview:
        """The archive's bytes, without those of a separate companion."""
        return self._archive.data

    @cached_property
    def records(self) -> Mapping[str, ReadableRecord]:
        """The records by name, without the companion itself and the serialization id of what was left.

        Records of a redacted archive that the companion has under their former names are left out, too.
        """
        there = self._archive.records
        gone = {place_of_companion(there), RECORD_NAME, *self._companion.replaced}
        stays = {name: record for name, record in there.items() if name not in gone}
        return stays | dict(self._companion.records)

    def fetch(self, names: Iterable[str]) -> None:
        """Read some records of a remote archive in few requests; those of a companion are at hand."""
        here = self._archive.records
        self._archive.fetch([name for name in names if name in here])

    def check_unchanged(self) -> None:
        self._archive.check_unchanged()

    def close(self) -> None:
        """Close both files."""
        self._companion.close()
        self._archive.close()


class UniqueTables:
    """The debug tables of an archive, with unique handles.

    Args:
        tables: the archive's own, whose handles have at most eight digits.
        prefix: of the unique handles.
    """

    def __init__(self, tables: DebugTables, prefix: int) -> None:
        self._tables = tables
        self.handle_form = HandleForm(prefix, tabled=True)

    @property
    def range_table(self) -> RangeTable:
        return self._tables.range_table

    @property
    def range_summary(self) -> RangeSummary:
        return self._tables.range_summary

    @property
    def range_names(self) -> Collection[str]:
        return self._tables.range_names

    def locate(self, name: str, position: int) -> SourceRange | None:
        return self._tables.locate(name, position)

    @cached_property
    def handle_table(self) -> HandleTable | None:
        table = self._tables.handle_table
        return None if table is None else replace(table, handle=unique(table.handle, self.handle_form.prefix))

    @cached_property
    def method_table(self) -> MethodTable | None:
        table = self._tables.method_table
        return None if table is None else replace(table, value=unique(table.value, self.handle_form.prefix))

    @property
    def path_table(self) -> MethodTable | None:
        return self._tables.path_table

    @cached_property
    def known(self) -> HandleLookup:
        return TableLookup(self.handle_table, self.range_table, self.handle_form)
