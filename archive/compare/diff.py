"""``diff`` tells what differs between two files, from the model down to the line.

Rows (:class:`~archive.compare.changes.Change`) have six levels
(:class:`~archive.compare.sameness.Level`). Each part of a file is compared as what it stands for, so that
numbers and places that a process or a save chooses do not count:

- tensors by name (``tensors``): elements in logical order, whatever the record that holds them (``numbers``);
- attributes, constants and other values part by part (``values``);
- code by class, method and function (``code``), with mangled names paired (``pairing``); lines are those of
  the model's source where source ranges lead to one;
- instructions of the lite interpreter and side effects by method (``methods``);
- exported programs by node (``programs``);
- source ranges, handles (``debug``);
- all other records by their bytes (``records``).

No record is left out: what is not understood, or could not be compared, keeps ``diff`` from calling two
models the same.

PyTorch numbers tensors that are constants of code, of methods of the lite interpreter, and of exported
programs. A constant that is new gives all later ones other numbers. So they are paired by their order and
content, not by number. The content is known by the checksum that the zip has of it: two that are paired
wrongly are told as changed, for their elements are compared.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.compare.alignment import paired
from archive.compare.changes import Change, Diff, Status, TensorChange, TextChange, changed, renamed
from archive.compare.equality import equal_on_cores, same_bytes
from archive.compare.pairing import Pairing
from archive.compare.records import layout_changes, record_changes, rewritten
from archive.compare.sameness import TRACED, Level, level_of
from archive.compare.tensors import TensorComparison
from archive.compare.values import Values
from archive.formats.effects import EFFECTS
from archive.formats.lowered import IN_BLOB, is_lowered
from archive.formats.python_pickle import plain_value
from archive.formats.record_kinds import BYTECODE, DATA, KINDS_IN_COLUMNS, RecordKind, is_code
from archive.formats.tensors.exported import TABLE
from archive.reader.archive import Archive
from archive.reader.opening import open as open_archive
from archive.reader.recognition import PROGRAM_KINDS, SAVED_KINDS
from archive.reader.recognition.kinds import kind_in
from archive.reader.recognition.saved import tensor_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.base.mapped import Source
    from archive.reader.tensors import Tensors

# --- numbered tensors

NUMBERED = re.compile(r"((?:.*:)?CONSTANTS\.c|(?:.+[:.])?lifted_tensor_|bytecode:(?:\d+\.)+)\d+")
"""The name of such a tensor: what stands before the number."""


def pairs_of_tensors(old: Tensors, new: Tensors) -> dict[str, str]:
    """The new archive's names of the tensors that both have, by the old one's.

    Raises:
        ArchiveError: there is no such storage.
    """
    was, now = _groups(old), _groups(new)
    pairs = {name: name for name in old if name in new and NUMBERED.fullmatch(name) is None}
    for group in was.keys() & now.keys():
        names = was[group], now[group]
        keys = (
            [_keys(tensors, name) for name in each] for tensors, each in zip((old, new), names, strict=True)
        )
        pairs |= {names[0][one]: names[1][other] for one, other in paired(*keys)}
    return pairs


def _groups(tensors: Tensors) -> dict[str, list[str]]:
    """The names of numbered tensors by what stands before the number, in their order."""
    groups: dict[str, list[str]] = {}
    for name in tensors:
        match = NUMBERED.fullmatch(name)
        if match:
            groups.setdefault(match[1], []).append(name)
    return groups


def _keys(tensors: Tensors, name: str) -> tuple[str, str]:
    tensor = tensors[name]
    kind = f"{tensor.dtype} {tensor.shape}"
    content = tensors.record(tensor.record).crc32 if tensor.record else None
    return f"{kind} {tensor.strides} {tensor.offset} {content}", kind


# --- comparison

VALUE_KINDS = (RecordKind.MODULES, RecordKind.CONSTANTS, RecordKind.OBJECT)
"""Kinds of records that are pickled values."""
ORDER = list(Level)


class _ArchiveComparison:
    """One comparison.

    Attributes:
        unchecked: what was not compared.
        understood: names of the records of each that something compares by what they say.
    """

    def __init__(self, old: Archive, new: Archive) -> None:
        self._old, self._new = old, new
        self.unchecked: list[str] = []
        self.understood: tuple[set[str], set[str]] = set(), set()
        self._tensors = pairs_of_tensors(old.tensors, new.tensors)
        self._names = Pairing(_classes(old), _classes(new), self._tensors)

    def is_identical(self) -> bool:
        """Whether both are one file each, of the same bytes."""
        if any(
            one.companion is not None and one.has_code and not one.is_embedded
            for one in (self._old, self._new)
        ):
            return False
        was, now = (one._source.data for one in (self._old, self._new))  # noqa: SLF001
        return equal_on_cores(was, now)

    def changes(self) -> Iterator[Change]:
        """The rows of all parts."""
        old, new = self._old, self._new
        if old.recognised.kind is not new.recognised.kind:
            yield changed(Level.FORMAT, "file", "kind", str(old.recognised.kind), str(new.recognised.kind))
        if old.has_code and new.has_code:
            yield from self._of_model()
        else:
            self.unchecked.append("the model: a companion has none of it")
        yield from self._of_debug_info()

    def _of_model(self) -> Iterator[Change]:
        tensors = TensorComparison(self._old, self._new, self._tensors)
        for archive, understood in self._sides():
            understood.update(archive.tensors.storages)
        yield from tensors.changes()
        self.unchecked += tensors.unchecked
        yield from self._of_values()
        yield from self._of_code()
        yield from self._of_bytecode()
        yield from self._of_effects()
        yield from self._of_programs()

    def _of_code(self) -> Iterator[Change]:
        code = [set(filter(is_code, archive.records)) for archive, _ in self._sides()]
        if any(code):
            from archive.compare.code import code_changes  # noqa: PLC0415 (checkpoints have none)

            for (_, understood), names in zip(self._sides(), code, strict=True):
                understood.update(names)
            yield from code_changes(self._old, self._new, self._names)

    def _of_bytecode(self) -> Iterator[Change]:
        having = [archive for archive in (self._old, self._new) if BYTECODE in archive.records]
        for _, understood in self._sides():
            understood.add(BYTECODE)
        if len(having) == 2:  # noqa: PLR2004 (both)
            from archive.compare.methods import bytecode_changes  # noqa: PLC0415 (the same)

            yield from bytecode_changes(self._old, self._new, self._names)
        elif having:
            self.unchecked.append(f"instructions: {having[0].file} alone has bytecode")

    def _of_programs(self) -> Iterator[Change]:
        if not any(archive.recognised.kind in PROGRAM_KINDS for archive, _ in self._sides()):
            return
        from archive.compare.programs import program_changes, table_changes  # noqa: PLC0415 (the same)

        for archive, understood in self._sides():
            understood.update(archive.programs.records.values())
        yield from program_changes(self._old, self._new, self._tensors)
        for name in filter(TABLE.fullmatch, self._old.records):
            if old_and_new(self._old, self._new, name):
                for _, understood in self._sides():
                    understood.add(name)
                yield from table_changes(self._old, self._new, name, self._tensors)

    def _of_effects(self) -> Iterator[Change]:
        """The side effects of methods; those that one file alone has are told as a record."""
        kinds = [kind_in(archive.recognised.kind, EFFECTS) for archive, _ in self._sides()]
        if set(kinds) == {RecordKind.EFFECTS} and old_and_new(self._old, self._new, EFFECTS):
            from archive.compare.methods import effect_changes  # noqa: PLC0415 (few archives have some)

            for _, understood in self._sides():
                understood.add(EFFECTS)
            yield from effect_changes(self._old, self._new)

    def _of_values(self) -> Iterator[Change]:
        """Attributes, constants and saved objects, of records that both have and read alike."""
        saved = [archive.recognised.kind in SAVED_KINDS for archive in (self._old, self._new)]
        if saved[0] != saved[1]:
            self.unchecked.append(
                "attributes and other values: one file has objects of Python, the other has none"
            )
            return
        for name in self._old.records:
            if not old_and_new(self._old, self._new, name) or not self._is_value(name):
                continue
            for _, understood in self._sides():
                understood.add(name)
            if same_bytes(self._old.records[name], self._new.records[name]):
                continue
            what = "value" if saved[0] else "attribute"
            values = (
                Values(what, self._names, _is_saved_tensor)
                if saved[0]
                else Values(what, self._names, handles=self._handles())
            )
            root = "" if name == DATA else name.removesuffix(".pkl")
            level = level_of(self._new, name)
            for row in values.changes(_value(self._old, name), _value(self._new, name), root):
                yield replace(row, level=level) if row.level is Level.MODEL else row
        for was, now in self._names.renamed:
            yield renamed(Level.MODEL, "class", now, was)

    def _handles(self) -> re.Pattern[str] | None:
        """Debug handles in the programs of lowered modules; None where both archives have none."""
        lowered = [any(map(is_lowered, _classes(archive))) for archive in (self._old, self._new)]
        return IN_BLOB if all(lowered) else None

    def _is_value(self, name: str) -> bool:
        kinds = [kind_in(archive.recognised.kind, name) for archive in (self._old, self._new)]
        return name == TRACED[0] or (name.endswith(".pkl") and all(kind in VALUE_KINDS for kind in kinds))

    def _of_debug_info(self) -> Iterator[Change]:
        """Source ranges and handles; nothing is read where all of their records have the same bytes."""
        for archive, understood in self._sides():
            understood.update(name for name in archive.records if _is_table(archive, name))
        names = [{name for name in one.records if _is_table(one, name)} for one in (self._old, self._new)]
        if names[0] == names[1] and all(
            same_bytes(self._old.records[name], self._new.records[name]) for name in names[0]
        ):
            return
        from archive.compare.debug import (  # noqa: PLC0415 (checkpoints have none)
            handle_changes,
            method_changes,
            range_changes,
        )

        yield from range_changes(self._old, self._new, self._names)
        yield from handle_changes(self._old, self._new, self._names)
        yield from method_changes(self._old, self._new)

    def of_records(self, told: list[Change]) -> Iterator[Change]:
        """All other records, and how records are stored, besides what the rows so far tell."""
        if not (self._old.has_code and self._new.has_code):
            return
        yield from record_changes(self._old, self._new, self.understood)
        yield from rewritten(self._old, self._new, self.understood, told)
        yield from layout_changes(self._old, self._new)

    def _sides(self) -> Iterator[tuple[Archive, set[str]]]:
        yield from zip((self._old, self._new), self.understood, strict=True)


def old_and_new(old: Archive, new: Archive, name: str) -> bool:
    """Whether both have a record."""
    return name in old.records and name in new.records


def _classes(archive: Archive) -> list[str]:
    return list(archive.classes) if archive.recognised.kind not in SAVED_KINDS else []


def _is_table(archive: Archive, name: str) -> bool:
    return kind_in(archive.recognised.kind, name) in KINDS_IN_COLUMNS


def _is_saved_tensor(value: object) -> bool:
    return tensor_of(value) is not None


def _value(archive: Archive, name: str) -> object:
    """The value of a record that a pickler wrote."""
    if archive.recognised.kind not in SAVED_KINDS:
        return archive.value(name)
    with in_file(archive.file, name):
        return plain_value(archive.records[name].view(), 0, archive.allowance)[0]


# --- diff

__all__ = ["Change", "Diff", "Level", "Status", "TensorChange", "TextChange", "diff"]


@bounded
def diff(
    old: Archive | Source,
    new: Archive | Source,
    *,
    ignore: Collection[Level | str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Diff:
    """Compare two archives, saved objects, exported programs or companions, of the same kind or not.

    >>> found = diff("fixtures/releases/torch-1.10.0/nested.pt", "fixtures/releases/torch-2.13.0/nested.pt")
    >>> found.identical, found.same_model
    (False, True)

    Args:
        old: an open archive, which stays open, or its file: a path, a bytes-like object, a binary file.
        new: the same.
        ignore: levels of differences that are left out: ``extras``, ``debug``, ``layout``, ``ids``,
            ``format``.
        limits: what hostile input may cost; an open archive has its own.

    Raises:
        ArchiveError: a file is of a kind that is not read (the message says what it is), or contradicts
            itself.
        OSError: a file cannot be read.
        ValueError: there is no such level.
    """
    levels = {Level(level) for level in ignore}
    if not isinstance(old, Archive):
        with open_archive(old, limits=limits) as opened:
            return diff(opened, new, ignore=levels, limits=limits)
    if not isinstance(new, Archive):
        with open_archive(new, limits=limits) as opened:
            return diff(old, opened, ignore=levels, limits=limits)
    comparison = _ArchiveComparison(old, new)
    identical = comparison.is_identical()
    changes: list[Change] = []
    if not identical:
        changes += comparison.changes()
        changes += comparison.of_records(changes)
        changes = changes or [changed(Level.LAYOUT, "zip", "headers and padding")]
        changes.sort(key=lambda change: ORDER.index(change.level))
    kinds = old.recognised.what, new.recognised.what
    unchecked = tuple(comparison.unchecked)
    return Diff(old.file, new.file, *kinds, tuple(changes), unchecked, identical).without(levels)
