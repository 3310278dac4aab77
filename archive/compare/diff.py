"""``diff`` lists what differs between two files, from the model down to the line.

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
- all other records by their bytes (``records``);
- files of tensors that keep no objects by their tensors and metadata (``tensor_files``).

No record is left out: what is not understood, or could not be compared, keeps ``diff`` from calling two
models the same.

PyTorch numbers tensors that are constants of code, of methods of the lite interpreter, and of exported
programs. A constant that is new gives all later ones other numbers. So they are paired by their order and
content, not by number. The content is known by its checksum in the zip: two that are paired
wrongly are rows of what changed, since their elements are compared.
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
from archive.compare.constants import with_lines
from archive.compare.equality import same_bytes
from archive.compare.pairing import Pairing
from archive.compare.records import layout_changes, record_changes, rewritten
from archive.compare.sameness import TRACED, Level, ignored_levels, level_of
from archive.compare.tensor_files import OBJECT_KINDS, PLAIN_KINDS, TensorFileComparison, are_identical
from archive.compare.tensors import TensorComparison
from archive.compare.values import Values
from archive.formats.effects import EFFECTS
from archive.formats.lowered import is_lowered
from archive.formats.record_kinds import (
    BYTECODE,
    DATA,
    KINDS_IN_COLUMNS,
    PROGRAM_RECORD,
    RecordKind,
    is_code,
)
from archive.formats.tensors.exported import TABLE
from archive.pickles.machine import plain_value
from archive.reader.archive import Archive, shared_value
from archive.reader.opening import open as open_archive
from archive.reader.recognition import OPENED_KINDS, PROGRAM_KINDS, TENSOR_KINDS, FileKind
from archive.reader.recognition.kinds import kind_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from archive.io.mapped import Source
    from archive.reader.tensors import Tensors

# --- numbered tensors

NUMBERED = re.compile(r"((?:.*:)?CONSTANTS\.c|(?:.+[:.])?lifted_tensor_|bytecode:(?:\d+\.)+)\d+")
"""The name of such a tensor: what stands before the number."""


def pairs_of_tensors(old: Tensors, new: Tensors) -> dict[str, str]:
    """The new archive's names of the tensors that both have, by the old one's."""
    was, now = _groups(old), _groups(new)
    pairs = {name: name for name in old if name in new and NUMBERED.fullmatch(name) is None}
    for group in was.keys() & now.keys():
        names = was[group], now[group]
        keys = (
            [_keys(tensors, name) for name in each] for tensors, each in zip((old, new), names, strict=True)
        )
        pairs |= {names[0][old_at]: names[1][new_at] for old_at, new_at in paired(*keys)}
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

VALUE_KINDS = {RecordKind.MODULES, RecordKind.CONSTANTS, RecordKind.OBJECT}
"""Kinds of records that are pickled values."""
ORDER = list(Level)


class _ArchiveComparison:
    """One comparison.

    Attributes:
        understood: names of the records of each that something compares by what they say.
    """

    def __init__(self, old: Archive, new: Archive) -> None:
        self._old, self._new = old, new
        self._kinds = old.recognised.kind, new.recognised.kind
        self.unchecked: list[str] = []
        self._unread: set[tuple[str, str]] = set()
        self.weights = ""
        self.understood: tuple[set[str], set[str]] = set(), set()
        self._tensors = pairs_of_tensors(old.tensors, new.tensors)
        self._names = Pairing(_classes(old), _classes(new), self._tensors)

    def changes(self) -> Iterator[Change]:
        """The rows of all that is compared."""
        changes = tuple(self._of_parts())
        yield from changes
        if self._old.has_code and self._new.has_code:
            yield from record_changes(self._old, self._new, self.understood)
            yield from rewritten(self._old, self._new, self.understood, changes, self._unread)
            if TENSOR_KINDS.isdisjoint(self._kinds):
                yield from layout_changes(self._old, self._new)

    def _of_parts(self) -> Iterator[Change]:
        """The rows of all parts that are compared by what they say."""
        if self._kinds[0] is not self._kinds[1]:
            yield changed(Level.FORMAT, "file", "kind", *map(str, self._kinds))
        if self._old.has_code and self._new.has_code:
            tensors = TensorComparison(self._old, self._new, self._tensors)
            self._understand(self._old.tensors.storages, self._new.tensors.storages)
            self._understand(_headers(self._old), _headers(self._new))
            yield from with_lines(tensors.changes(), self._old, self._new)
            self.unchecked += tensors.unchecked
            self._unread = tensors.unread
            self.weights = tensors.weights()
            yield from self._of_values()
            yield from self._of_code()
            yield from self._of_programs()
            if self._kinds == (FileKind.EXECUTORCH, FileKind.EXECUTORCH):
                from archive.compare.executorch import (  # noqa: PLC0415 (few files are some)
                    executorch_changes,
                    graph_digest,
                )

                yield from executorch_changes(self._old, self._new)
                if graph_digest(self._old) == graph_digest(self._new):
                    self._understand([PROGRAM_RECORD], [PROGRAM_RECORD])
        else:
            self.unchecked.append("the model: a companion has none of it")
        yield from self._of_debug_info()

    def _understand(self, old: Iterable[str], new: Iterable[str]) -> None:
        self.understood[0].update(old)
        self.understood[1].update(new)

    def _both_have(self, name: str) -> bool:
        return name in self._old.records and name in self._new.records

    def _of_code(self) -> Iterator[Change]:
        """Generated code, instructions and side effects of methods."""
        code = [set(filter(is_code, archive.records)) for archive in (self._old, self._new)]
        self._understand(*code)
        if any(code):
            from archive.compare.code import code_changes  # noqa: PLC0415 (checkpoints have none)

            yield from code_changes(self._old, self._new, self._names)
        self._understand([BYTECODE], [BYTECODE])
        having = [archive for archive in (self._old, self._new) if BYTECODE in archive.records]
        if self._both_have(BYTECODE):
            from archive.compare.methods import bytecode_changes  # noqa: PLC0415 (the same)

            yield from bytecode_changes(self._old, self._new, self._names)
        elif having:
            self.unchecked.append(f"instructions: only {having[0].file} has bytecode")
        are_effects = all(kind_in(kind, EFFECTS) is RecordKind.EFFECTS for kind in self._kinds)
        if are_effects and self._both_have(EFFECTS):  # those of only one file are a row about the record
            from archive.compare.methods import effect_changes  # noqa: PLC0415 (few archives have some)

            self._understand([EFFECTS], [EFFECTS])
            yield from effect_changes(self._old, self._new)

    def _of_programs(self) -> Iterator[Change]:
        if PROGRAM_KINDS.isdisjoint(self._kinds):
            return
        from archive.compare.programs import program_changes, table_changes  # noqa: PLC0415 (few have some)

        self._understand(self._old.programs.records.values(), self._new.programs.records.values())
        yield from program_changes(self._old, self._new, self._tensors)
        for name in filter(TABLE.fullmatch, self._old.records):
            if self._both_have(name):
                self._understand([name], [name])
                yield from table_changes(self._old, self._new, name, self._tensors)

    def _of_values(self) -> Iterator[Change]:
        """Attributes, constants and saved objects, of records that both have and read alike."""
        saved = [kind in OBJECT_KINDS for kind in self._kinds]
        if saved[0] != saved[1]:
            self.unchecked.append(
                "attributes and other values: one file has objects of Python, the other has none"
            )
            return
        lowered = [any(map(is_lowered, _classes(archive))) for archive in (self._old, self._new)]
        for name in filter(self._both_have, self._old.records):
            kinds = [kind_in(kind, name) for kind in self._kinds]
            if name != TRACED[0] and not (name.endswith(".pkl") and VALUE_KINDS.issuperset(kinds)):
                continue
            self._understand([name], [name])
            if same_bytes(self._old.records[name], self._new.records[name]):
                continue
            if saved[0]:
                values = Values("value", self._names)
            else:  # the programs of lowered modules have debug handles in them
                values = Values("attribute", self._names, in_blobs=all(lowered))
            root = "" if name == DATA else name.removesuffix(".pkl")
            level = level_of(self._new, name)
            for row in values.changes(_value(self._old, name), _value(self._new, name), root):
                yield replace(row, level=level) if row.level is Level.MODEL else row
        for was, now in self._names.renamed:
            yield renamed(Level.MODEL, "class", now, was)

    def _of_debug_info(self) -> Iterator[Change]:
        """Source ranges and handles; nothing is read where all of their records have the same bytes."""
        was, now = (
            {name for name in archive.records if kind_in(kind, name) in KINDS_IN_COLUMNS}
            for archive, kind in zip((self._old, self._new), self._kinds, strict=True)
        )
        self._understand(was, now)
        if was == now and all(same_bytes(self._old.records[name], self._new.records[name]) for name in was):
            return
        from archive.compare.debug import (  # noqa: PLC0415 (checkpoints have none)
            handle_changes,
            method_changes,
            range_changes,
        )

        yield from range_changes(self._old, self._new, self._names)
        yield from handle_changes(self._old, self._new, self._names)
        yield from method_changes(self._old, self._new)


def _headers(archive: Archive) -> list[str]:
    """The records of a file of tensors that only say where the others are."""
    kinds = {} if archive.tensor_file is None else archive.tensor_file.kinds
    return [name for name, kind in kinds.items() if kind is RecordKind.HEADER]


def _classes(archive: Archive) -> list[str]:
    return list(archive.classes) if archive.recognised.kind not in OBJECT_KINDS else []


def _value(archive: Archive, name: str) -> object:
    """The value of a record that a pickler wrote."""
    if archive.recognised.kind not in OBJECT_KINDS:
        return shared_value(archive, name)
    with in_file(archive.file, name):
        return plain_value(archive.records[name].view(), 0)[0]


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
    """Compare two archives, saved objects, exported programs, files of tensors or companions, alike or not.

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
        ValueError: the level is unknown, or ``model``.
    """
    levels = ignored_levels(ignore)
    if not isinstance(old, Archive):
        with open_archive(old, limits=limits, kinds=OPENED_KINDS) as opened:
            return diff(opened, new, ignore=levels, limits=limits)
    if not isinstance(new, Archive):
        with open_archive(new, limits=limits, kinds=OPENED_KINDS) as opened:
            return diff(old, opened, ignore=levels, limits=limits)
    # identical: both are one file each, or as many, of the same bytes
    is_split = any(
        file.companion is not None and file.has_code and not file.is_embedded for file in (old, new)
    )
    identical = not is_split and are_identical(old, new)
    rows, unchecked, weights = _rows(old, new, identical=identical)
    kinds = old.recognised.what, new.recognised.what
    return Diff(old.file, new.file, *kinds, tuple(rows), tuple(unchecked), identical, weights).without(levels)


def _rows(old: Archive, new: Archive, *, identical: bool) -> tuple[list[Change], list[str], str]:
    """The rows of a difference, what was not compared, and of two kinds what is said of their weights."""
    kinds = {old.recognised.kind, new.recognised.kind}
    if PLAIN_KINDS.isdisjoint(kinds):
        comparison: _ArchiveComparison | TensorFileComparison = _ArchiveComparison(old, new)
    else:
        pairs = pairs_of_tensors(old.tensors, new.tensors)
        comparison = TensorFileComparison(old, new, pairs)
    changes = [] if identical else list(comparison.changes())
    if not changes and not identical:
        what = "zip" if TENSOR_KINDS.isdisjoint(kinds) else "file"
        changes = [changed(Level.LAYOUT, what, "headers and padding")]
    weights = comparison.weights if len(kinds) > 1 else ""
    return sorted(changes, key=lambda change: ORDER.index(change.level)), comparison.unchecked, weights
