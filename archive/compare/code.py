"""Generated code, compared function by function, and the model's own source of each.

A record of code is cut into *units*: a class with its attributes, a method, a function. Units are paired by
qualified name, then by text: a function that is gone here and added there, word for word, was renamed. The
source of a unit is what its source ranges lead to.

Functions that differ only in names of variables, which PyTorch numbers, get rows of their own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.errors import several
from archive.base.quick_dataclass import dataclass
from archive.compare.alignment import unified
from archive.compare.changes import added, changed, gone, renamed, text_changed
from archive.compare.debug import SourceTexts
from archive.compare.generated_code import canonical, constants_sorted
from archive.compare.pairing import code_in_terms_of, is_allowed
from archive.compare.sameness import Level
from archive.debuginfo.frames import CALL
from archive.formats.record_kinds import DATA, RecordKind, is_code, module_of, range_records_of
from archive.pickles.values import Inert
from archive.reader.recognition.kinds import kind_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.compare.changes import Change
    from archive.compare.pairing import Pairing
    from archive.reader.archive import Archive


# --- names


def rows_of_names(
    numbered: Sequence[str], renamed: Mapping[tuple[tuple[str, str], ...], Sequence[str]]
) -> Iterator[Change]:
    """Rows about functions that differ only in names: of variables, and of arguments that callers use."""
    if numbered:
        yield changed(Level.IDS, "names of variables", several(numbered))
    for pairs, functions in renamed.items():
        was, now = (", ".join(each) for each in zip(*pairs, strict=True))
        yield changed(Level.MODEL, "names of arguments", several(functions), was, now)


def roots_of(archive: Archive) -> set[str]:
    """The classes of the models themselves, whose methods callers use; none of PyTorch 1.0 to 1.2."""
    kind = archive.recognised.kind
    trees = [
        name for name in archive.records if kind_in(kind, name) is RecordKind.MODULES and name.endswith(DATA)
    ]
    return {str(value.what) for value in map(archive.value, trees) if isinstance(value, Inert)}


def differ_in_numbers(old: str, new: str, *, keeps_arguments: bool) -> bool:
    """Whether a function differs only in names of variables; of arguments, too, unless they are kept."""
    if old == new or not is_allowed(len(old) + len(new)):
        return False
    was, now = (canonical(each, keeps_arguments=keeps_arguments) for each in (old, new))
    return was == now


# --- code

HEAD = re.compile(rb"^(?:(class|def) (\w+)|  def (\w+))", re.MULTILINE)
WORDS = {"class": "class", "def": "function"}
RENAMABLE = ("function", "method")


@dataclass(frozen=True, slots=True)
class Unit:
    """A class, a method or a function of generated code.

    Attributes:
        name: qualified; the beginning of a record, before all of them, has the record's.
        what: ``class``, ``method``, ``function``; ``code`` before all of them.
        text: its lines; the constants of a class are sorted.
    """

    name: str
    what: str
    text: str
    record: str
    start: int
    end: int


class UnitSource(NamedTuple):
    """A text of the model's source: its file, the number of its first line there, and the text."""

    file: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"


def units(archive: Archive) -> dict[str, Unit]:
    """The units of all code of an archive, by name. Later ones of the same name have a number."""
    by_name: dict[str, Unit] = {}
    same: dict[str, int] = {}
    for name, record in archive.records.items():
        if is_code(name):
            data = bytes(record.view())
            memory.take(len(data) + memory.TEXT * data.count(b"\n"), "lines of code", record=name)
            for unit in _units(name, data):
                memory.take(4 * memory.ROW, "functions", record=name)
                number = same[unit.name] = same.get(unit.name, 0) + 1
                by_name[unit.name if number == 1 else f"{unit.name} ({number})"] = unit
    return by_name


def _units(record: str, data: bytes) -> Iterator[Unit]:
    module = module_of(record)
    heads = list(HEAD.finditer(data))
    ends = [head.start() for head in heads] + [len(data)]
    before = _unit(module, "code", data, record, (0, ends[0]))
    if before.text.strip():  # the digest doesn't count blanks either
        yield before
    holder = module
    for head, end in zip(heads, ends[1:], strict=True):
        kind, top, method = (part.decode() if part else "" for part in head.groups())
        if method:
            yield _unit(f"{holder}.{method}", "method", data, record, (head.start(), end))
            continue
        holder = f"{module}.{top}" if kind == "class" else module
        yield _unit(f"{module}.{top}", WORDS[kind], data, record, (head.start(), end))


def _unit(name: str, what: str, data: bytes, record: str, span: tuple[int, int]) -> Unit:
    text = data[slice(*span)].decode("utf-8", "surrogateescape")
    return Unit(name, what, constants_sorted(text) if what == "class" else text, record, *span)


class UnitSources:
    """The source texts of units of code."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._texts = SourceTexts(archive)
        self._read: dict[int, UnitSource | None] = {}

    def of(self, unit: Unit) -> list[UnitSource]:
        """The source texts that a unit's ranges lead to, in the order of its code; those with a file."""
        table = self._archive.range_table
        number = next(
            (table.numbers[name] for name in range_records_of(unit.record) if name in table.numbers), None
        )
        if number is None:
            return []
        rows = table.rows(number)
        offsets = table.offset[rows.start : rows.stop]
        low, high = np.searchsorted(offsets, [unit.start, unit.end])
        used = table.source[rows.start + low : rows.start + high].tolist()
        texts = [self._text(source) for source in dict.fromkeys(used)]  # not those of traced models
        return list(dict.fromkeys(text for text in texts if text is not None))

    def _text(self, number: int) -> UnitSource | None:
        """A source with its text; None of one without a file or text, and of a stack trace."""
        if number not in self._read:
            sources = self._archive.range_table.sources
            self._read[number] = None
            if sources.filename[number] >= 0 and not sources.is_null[number]:
                file, line, data = self._texts[number]
                text = data.decode("utf-8", "surrogateescape")
                if file and text and not CALL.match(text.lstrip()):
                    self._read[number] = UnitSource(file, line, text)
        return self._read[number]


def code_changes(old: Archive, new: Archive, names: Pairing) -> Iterator[Change]:
    """What differs in the code of two archives and in its source; units without a pair are paired here."""
    was, now = units(old), units(new)
    names.pair_rest(*([name for name, unit in each.items() if unit.what != "method"] for each in (was, now)))
    current = {names.old_name(name): unit for name, unit in now.items()}
    texts = {name: _in_old_terms(unit, name, names) for name, unit in current.items()}
    other_names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    numbered: list[str] = []
    roots = roots_of(old) | set(map(names.old_name, roots_of(new)))
    sources = UnitSources(old), UnitSources(new)
    moved = _renamed(was, current, texts)
    left = set(moved.values())
    for name, unit in was.items():
        if name in current:
            of_function = unit.what in RENAMABLE
            text, variables = code_in_terms_of(unit.text, texts[name]) if of_function else (texts[name], {})
            keeps = not roots or name.rpartition(".")[0] in roots
            if of_function and differ_in_numbers(unit.text, texts[name], keeps_arguments=keeps):
                text = unit.text
                numbered.append(unit.name)
            elif variables and text == unit.text:
                other_names.setdefault(tuple(variables.items()), []).append(unit.name)
            yield from _compared(unit, current[name], text, sources)
        elif name not in left:
            yield gone(Level.MODEL, unit.what, unit.name, _place(unit, sources[0]))
    for name, unit in current.items():
        if name in moved:
            yield renamed(Level.MODEL, unit.what, unit.name, moved[name])
        elif name not in was:
            yield added(Level.MODEL, unit.what, unit.name, _place(unit, sources[1]))
    yield from rows_of_names(numbered, other_names)


def _in_old_terms(unit: Unit, old: str, names: Pairing) -> str:
    """A unit's text with the old archive's names; a class's own, too."""
    text = names.in_old_terms(unit.text)
    return re.sub(r"^class \w+", f"class {old.rpartition('.')[2]}", text) if unit.what == "class" else text


def _renamed(was: Mapping[str, Unit], now: Mapping[str, Unit], texts: Mapping[str, str]) -> dict[str, str]:
    """The old names of functions that were only renamed, by the new ones."""
    left = {_nameless(unit.text): name for name, unit in was.items() if name not in now}
    old_names: dict[str, str] = {}
    for name, unit in now.items():
        if name not in was and unit.what in RENAMABLE:
            old = left.pop(_nameless(texts[name]), None)
            if old is not None and was[old].what in RENAMABLE:
                old_names[name] = old
    return old_names


def _nameless(text: str) -> str:
    return re.sub(r"^(\s*def )\w+", r"\1", text, count=1)


def _place(unit: Unit, sources: UnitSources) -> str:
    """Where a unit comes from, or how long it is."""
    texts = sources.of(unit)
    return texts[0].place if texts else f"{unit.text.count(chr(10)):,} lines of code"


def _compared(old: Unit, new: Unit, text: str, sources: tuple[UnitSources, UnitSources]) -> Iterator[Change]:
    """What differs in a unit that both archives have, or in its source."""
    was, now = (each.of(unit) for each, unit in zip(sources, (old, new), strict=True))
    is_same = old.text == text
    level = Level.DEBUG if is_same else Level.MODEL
    edits = list(_edits(was, now))
    edited = [edit for edit in edits if edit[0].text != edit[1].text]
    for before, after in edited:
        lines = unified(before.text, after.text, before.line, after.line)
        place = after.place if before.file == after.file else f"{before.place} → {after.place}"
        if not is_same:
            code = unified(old.text, text)
            place += f"; generated code +{code.added} −{code.gone}"  # noqa: RUF001 (a minus sign)
        yield text_changed(level, old.what, old.name, "source", lines, new=place)
    if not is_same and not edited:
        words = "the source is the same" if was and not edits else ""
        yield text_changed(level, old.what, old.name, "generated code", unified(old.text, text), new=words)
    if not edited:
        for before, after in edits:
            yield changed(Level.DEBUG, "place of source", old.name, before.place, after.place)


def _edits(was: Sequence[UnitSource], now: Sequence[UnitSource]) -> Iterator[tuple[UnitSource, UnitSource]]:
    """The sources of a unit that differ, paired by text, then in their order."""
    common = set(was).intersection(now)
    left, right = ([source for source in sources if source not in common] for sources in (was, now))
    by_text = {source.text: source for source in right}
    rest = []
    for source in left:
        same = by_text.pop(source.text, None)
        if same is None:
            rest.append(source)
        else:
            yield source, same
    yield from zip(rest, [source for source in right if source.text in by_text], strict=False)
