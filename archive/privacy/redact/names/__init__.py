"""Names of classes, functions, attributes and variables become hashes: ``redact --names hash``.

In: a TorchScript archive. ``code`` finds the names in generated code, ``pickled`` those in pickles, ``words``
decides which of them stay. Out: the records with other names, and other names of records. Nothing else
changes: the lines of code, values, operators and numbers of instructions stay. Only ``programs`` knows names
of exported programs: those in metadata.

Hashes use a random salt; otherwise a dictionary would reverse them. Whoever has both files knows the names:
the companion has the original records.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ImpossibleError, in_file
from archive.base.quick_dataclass import dataclass
from archive.companion.hashed_names import SALT_BYTES
from archive.formats.record_kinds import (
    CODE,
    LEGACY_TREE,
    PICKLED_KINDS,
    TRACED_INPUTS,
    RecordKind,
    code_of,
    code_record,
    holds_ranges,
    is_code,
    kind_of,
    module_of,
    range_records_of,
)
from archive.privacy.redact.names.code import NameKind, parse_code, renamed_uses
from archive.privacy.redact.names.pickled import TABLES, Pickled
from archive.privacy.redact.names.programs import note_programs
from archive.privacy.redact.names.words import WORDS, ModelNames, note_code
from archive.privacy.redact.rules import LIBRARY
from archive.privacy.redact.sources import called
from archive.reader.recognition import HASHED_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.debuginfo.tables import RangeTable
    from archive.privacy.redact.names.code import CodeNames, NameUse
    from archive.privacy.redact.removed import Removed
    from archive.reader.archive import Archive

PROGRAMS = {FileKind.EXPORTED, FileKind.LEGACY_EXPORTED, FileKind.ETRECORD}
"""The kinds of files with exported programs, in whose metadata names become hashes."""
FOLDERS = ("__torch__.", "torch.")
"""Begins the names of generated code."""
BOUND = "__torch__.torch.classes."
"""Begins the names of C++'s classes."""
SETS_STATE = "__getstate__"
STAY = {
    FileKind.PACKAGE: "its Python source runs by them",
    FileKind.PYTHON_PACKAGE: "its Python source runs by them",
    FileKind.AOTI: "its loader finds weights by them, and compiled code has them",
}
"""Why names in files of a kind stay."""
READ_BY_OTHERS = "programs that load it look values up by them"
"""The same of files that hold no model."""
WAY_OUT = "paths, source text and inputs go without --names"


@dataclass(frozen=True, slots=True)
class Renamed:
    """An archive with other names.

    Attributes:
        words: the names, and what became of them.
        records: the records that changed, by the names that they had.
        names: the names of records that have others, by those that they had.
        longer: for each code record, where each name began and how many bytes longer it became.
    """

    words: ModelNames
    records: Mapping[str, bytes]
    names: Mapping[str, str]
    longer: Mapping[str, list[tuple[int, int]]]

    def table(self, table: RangeTable) -> RangeTable:
        """Source ranges of the code as it is now."""
        offset = table.offset.copy()
        for number, name in enumerate(table.names):
            rows = slice(int(table.first[number]), int(table.first[number + 1]))
            offset[rows] = _moved(offset[rows], self.longer.get(code_of(name), []))
        names = tuple(self.names.get(name, name) for name in table.names)
        return replace(table, names=names, offset=offset)

    def function(self, name: bytes) -> bytes:
        """The replacement of a Python function's name."""
        return self.words.new(name.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def with_hashes(opened: Archive, removed: Removed) -> Renamed:
    """An archive with hashes in place of names.

    For exported programs, names of classes and functions are found, but no records made.

    Args:
        removed: takes the names that are gone, and those that stay.

    Raises:
        ImpossibleError: the archive is of a kind whose names stay, or a name stands where it cannot change.
    """
    words = ModelNames(os.urandom(SALT_BYTES))
    for name in opened.container.records:
        follows_code = is_code(name) or holds_ranges(name)
        words.spoken.update(WORDS.findall(CODE[0] if follows_code else name))
    with in_file(opened.file):
        if opened.recognised.kind in PROGRAMS:
            renamed = Renamed(words, {}, {}, {})
            removed.stays += note_programs(words, opened)
            words.settle()
        else:
            renamed = _Renaming(opened, words).renamed()
    removed.names |= {word.encode("utf-8", "surrogateescape") for word in words.sought}
    removed.stays += words.remarks()
    return renamed


class _Renaming:
    def __init__(self, opened: Archive, words: ModelNames) -> None:
        self._opened, self._words = opened, words
        self._records = opened.container.records
        _check(opened)
        self._texts = {name: bytes(record.view()) for name, record in self._records.items() if is_code(name)}
        self._codes = {name: parse_code(name, text) for name, text in self._texts.items()}
        self._pickles = [
            name
            for name in self._records
            if (kind_of(name) in PICKLED_KINDS and name.endswith(".pkl")) or name in (*TABLES, TRACED_INPUTS)
        ]

    def renamed(self) -> Renamed:
        words, top = self._words, self._opened.qualified_top
        modules = {module_of(name): code for name, code in self._codes.items()}
        with_state = {
            f"{module}.{class_name}"
            for module, code in modules.items()
            for class_name, declared in code.classes.items()
            if SETS_STATE in declared.methods
        }
        pickled = {name: Pickled(name, self._opened.tree([name]), with_state) for name in self._pickles}
        self._note_code()
        # the Python functions in stacks of traced operations
        for path, function in called(self._opened.range_table):
            library = LIBRARY.fullmatch(path)
            is_own = library is not None and library[1].startswith(b"torch/")
            word = function.decode("utf-8", "surrogateescape")
            (words.spoken if is_own else words.found).add(word)
        has_bound = any(module.startswith(BOUND) for module in modules) or any(
            BOUND in text for text in map(bytes.decode, self._texts.values())
        )
        note_code(words, modules, top, has_bound=has_bound)
        for names in pickled.values():
            names.note(words)
        words.settle()
        records = {name: names.renamed(words) for name, names in pickled.items()}
        longer = {}
        for name, code in self._codes.items():
            records[name], longer[name] = self._code(name, code)
        new_names = self._names()
        changed = {
            name: data
            for name, data in records.items()
            if name in new_names or data != self._records[name].view()
        }
        return Renamed(words, changed, new_names, longer)

    def _note_code(self) -> None:
        words = self._words
        for name, code in self._codes.items():
            text = self._texts[name]
            words.note_dotted(module_of(name))
            for use in code.uses:
                old = text[use.start : use.end].decode()
                if use.kind == NameKind.WORD:
                    words.found.add(old)
                else:
                    words.note_dotted(old if use.kind == NameKind.DOTTED else f"{module_of(name)}.{old}")
            words.spoken.update(word for spoken in code.spoken for word in [spoken, *WORDS.findall(spoken)])

    def _code(self, name: str, code: CodeNames) -> tuple[bytes, list[tuple[int, int]]]:
        """A record of code with other names."""
        text, module, words = self._texts[name], module_of(name), self._words

        def new(use: NameUse) -> bytes:
            old = text[use.start : use.end].decode()
            if use.kind == NameKind.DEFINED:
                return words.dotted(f"{module}.{old}").rpartition(".")[2].encode()
            return (words.dotted(old) if use.kind == NameKind.DOTTED else words.new(old)).encode()

        uses = sorted(code.uses)
        return renamed_uses(text, uses, map(new, uses))

    def _names(self) -> dict[str, str]:
        """The names of records of code, and of their source ranges, that change."""
        names = {}
        for name in self._codes:
            new = code_record(self._words.dotted(module_of(name)))
            if new != name:
                names[name] = new
                ranges, new_ranges = (range_records_of(record)[0] for record in (name, new))
                names |= {ranges: new_ranges} if ranges in self._records else {}
        if len({*names.values(), *(self._records.keys() - names)}) != len(self._records.keys() | names):
            raise ImpossibleError("two records would have one name")
        return names


def _check(opened: Archive) -> None:
    """Refuse an archive with names in places that nothing here changes.

    Raises:
        ImpossibleError: it has such places.
    """
    if opened.recognised.kind is FileKind.SPLIT:
        raise ImpossibleError("its companion leads to the names: `join` them, redact that, and split it then")
    if opened.recognised.kind not in HASHED_KINDS:
        kind = opened.recognised.kind
        raise _refusal(f"names in a file of this kind stay ({kind}): {STAY.get(kind, READ_BY_OTHERS)}")
    names = opened.container.records
    if LEGACY_TREE in names:
        raise _refusal("names in archives of PyTorch 1.0 to 1.2 stay", LEGACY_TREE)
    for name in names:
        if kind_of(name) is RecordKind.EFFECTS:
            raise _refusal("names of a model with side effects stay: replay changes attributes by them", name)
        if is_code(name) and not f"{module_of(name)}.".startswith(FOLDERS):
            raise _refusal("names of code outside of __torch__ stay", name)


def _refusal(why: str, record: str | None = None) -> ImpossibleError:
    return ImpossibleError(f"{why}; {WAY_OUT}", record=record, in_python="names=None")


def _moved(offset: np.ndarray, longer: list[tuple[int, int]]) -> np.ndarray:
    """Where bytes of a text are in the new one."""
    if not longer:
        return offset
    starts, growth = (np.array(column, np.int64) for column in zip(*longer, strict=True))
    before = np.concatenate([[0], np.cumsum(growth)])[np.searchsorted(starts, offset, "left")]
    moved: np.ndarray = offset + np.where(offset < 0, 0, before)
    return moved
