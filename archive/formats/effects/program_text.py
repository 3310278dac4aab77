"""The effects of a method as a Python function that does the same.

The function takes the method's arguments and ``out``, what the graph gave, and returns what the method
returns. All values are those from before the first change: what is read behind a change of the same
name, or of any item where an item is read, is given a name first (``old0``). Caution costs a line there,
no more. What temporaries hold wasn't there before: that is read where it stands. Names are given so that
none hides another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Local,
    Op,
    Temporary,
)
from archive.formats.effects.parts import output_count, places, reads, root_of
from archive.formats.effects.rows import Numbering
from archive.formats.effects.source_text import Printer, is_dotted, is_name, source_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.effects.model import Effect, MethodEffects, Source, Value

OWN = ("object", "getattr", "setattr", "delattr", "float")
"""What the program calls; no argument may be called so."""
INNER = {"__dict__", "_parameters", "_buffers", "_modules"}
"""Attributes that hold other attributes as items."""
ITEM_OPS = {
    Op.SET_ITEM,
    Op.DELETE_ITEM,
    Op.APPEND,
    Op.EXTEND,
    Op.INSERT,
    Op.POP,
    Op.CLEAR,
}


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """A line of a program; ``effect``: the number of the effect that it does, None where it does none."""

    text: str
    effect: int | None = None


@dataclass(frozen=True, slots=True)
class MethodProgram:
    """A method's effects as Python.

    Attributes:
        name: of the function; what it defines.
        lines: of its source.
        cells: by name the variables of other functions that it takes for globals. Besides it takes modules by
            their names, and where they are needed the dicts ``modules`` (by name), ``named`` (classes and
            functions by ``module:qualname``) and ``hooks`` (by number).
    """

    name: str
    lines: tuple[ProgramLine, ...]
    cells: Mapping[str, ClosureCell]

    def __str__(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)


def method_source(effects: MethodEffects) -> str:
    """A method's effects as the source of a Python function."""
    return str(method_program(effects))


def method_program(effects: MethodEffects) -> MethodProgram:
    """A method's effects as a Python function."""
    return _Writing(effects).program()


def graph_text(effects: MethodEffects) -> str:
    """What the graph takes and gives: ``graph(x, self.count) -> 3 values``."""
    count = output_count(effects)
    inputs = ", ".join(map(source_text, effects.inputs))
    return f"graph({inputs}) -> {count} value{'' if count == 1 else 's'}"


@dataclass(slots=True)
class Changes:
    """What has been changed so far, so that it is known what may not be read any more."""

    attributes: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    cells: set[ClosureCell] = field(default_factory=set)
    items: bool = False
    tensors: bool = False
    anything: bool = False

    def add(self, effect: Effect) -> None:
        """An effect that has been done."""
        if effect.op in (Op.SET_ATTRIBUTE, Op.DELETE_ATTRIBUTE):
            if isinstance(effect.key, Constant):
                self.attributes.add(str(effect.key.value))
        elif isinstance(effect.source, GlobalName) and effect.op is Op.SET_GLOBAL:
            self.globals.add(effect.source.name)
        elif isinstance(effect.source, ClosureCell) and effect.op is Op.SET_CELL:
            self.cells.add(effect.source)
        elif effect.op is Op.COPY:
            self.tensors = True
        elif effect.op in ITEM_OPS:
            self.items = True
            if isinstance(effect.source, Attribute) and effect.source.name in INNER:
                self.anything = True

    def touch(self, source: Source) -> bool:
        """Whether something else may live at a source now; what temporaries hold is meant as it is now."""
        if isinstance(root_of(source), Temporary):
            return False
        while True:
            match source:
                case Attribute(base, name):
                    if self.anything or name in self.attributes or name in self.globals:
                        return True
                    source = base
                case Item(base, _):
                    if self.items:
                        return True
                    source = base
                case GlobalName(_, name):
                    return self.anything or name in self.globals or name in self.attributes
                case _:
                    return source in self.cells


class Names:
    """Python names for what has none, or one that another has already."""

    def __init__(self) -> None:
        self.taken = set(OWN)
        self._given: dict[object, str] = {}

    def give(self, what: object, wanted: str) -> str:
        """The name of something, as wanted or with a number behind."""
        if what not in self._given:
            stem = wanted if is_name(wanted) else "name"
            name, number = stem, 1
            while name in self.taken:
                number += 1
                name = f"{stem}_{number}"
            self.taken.add(name)
            self._given[what] = name
        return self._given[what]

    def series(self, wanted: str) -> str:
        """A beginning that no name has, for names with numbers behind."""
        if wanted not in self._given:
            stem = wanted
            while any(name.startswith(stem) for name in self.taken):
                stem += "_"
            self._given[wanted] = stem
        return self._given[wanted]


class _Writing:
    """A program in the making."""

    def __init__(self, effects: MethodEffects) -> None:
        self.effects = effects
        self.numbering = Numbering()
        self.names = Names()
        self.cells: dict[str, ClosureCell] = {}
        self.known: dict[tuple[int, bool], str] = {}  # by source, and whether it is a copy
        self.reads: list[str] = []
        sources = list(_roots(effects))
        self.locals = list(dict.fromkeys(["self", *(one.name for one in sources if isinstance(one, Local))]))
        for name in self.locals:
            self.names.give(Local(name), name)
        for one in sources:
            if isinstance(one, ClosureCell):
                self.cells[self.names.give(one, one.name)] = one
        self.roots = {text.partition(".")[0] for text in _modules(effects) if is_dotted(text)}
        self.roots -= self.names.taken
        self.names.taken |= self.roots
        for own in ("out", "modules", "named", "hooks"):
            self.names.give(own, own)
        for stem in ("tmp", "old"):
            self.names.series(stem)

    def program(self) -> MethodProgram:
        effects = self.effects.effects
        news = [(number, effect) for number, effect in enumerate(effects) if effect.op is Op.NEW]
        done = [(number, effect) for number, effect in enumerate(effects) if effect.op is not Op.NEW]
        lines = [
            ProgramLine(f"    {Printer(free=self.free).effect(effect)}", number) for number, effect in news
        ]
        changes = Changes()
        later = []
        for number, effect in done:
            later.append(ProgramLine(f"    {self.statement(effect, changes)}", number))
            changes.add(effect)
        result = f"    return {self.printer(changes, self.effects.result).value(self.effects.result)}"
        reads = [ProgramLine(f"    {read}") for read in self.reads]
        method = self.effects.method
        name = self.names.give(None, method if is_name(method) else "method")
        parameters = ", ".join([self.free(Local(one)) for one in self.locals] + [self.free("out")])
        head = [ProgramLine(f"# {graph_text(self.effects)}"), ProgramLine(f"def {name}({parameters}):")]
        head += [
            ProgramLine(f"    global {cell}  # of {whose.function!r}") for cell, whose in self.cells.items()
        ]
        return MethodProgram(name, (*head, *lines, *reads, *later, ProgramLine(result)), self.cells)

    def statement(self, effect: Effect, changes: Changes) -> str:
        values = [value for value in (effect.key, effect.value) if value is not None]
        copied = effect.op is Op.COPY and changes.tensors
        return self.printer(changes, *values, target=effect, copied=copied).effect(effect)

    def printer(
        self, changes: Changes, *values: Value, target: Effect | None = None, copied: bool = False
    ) -> Printer:
        """A printer that prints what must not be read any more by the names it was given before."""
        for value in values:
            for source in reads(value):
                if changes.touch(source) or (copied and not isinstance(root_of(source), Temporary)):
                    self.keep(source, copied=copied)
        stored = target.source if target is not None and target.op in (Op.SET_GLOBAL, Op.SET_CELL) else None
        if target is not None and stored is None and changes.touch(target.source):
            self.keep(target.source, copied=False)

        def named(fact: Source | Value) -> str | None:
            if isinstance(fact, At):
                return self.known.get((self.numbering.source(fact.source), copied))
            if isinstance(fact, Attribute | Item | GlobalName | ClosureCell) and fact is not stored:
                number = self.numbering.source(fact)
                return self.known.get((number, False)) if changes.touch(fact) else None
            return None

        return Printer(named, self.free)

    def keep(self, source: Source, *, copied: bool) -> None:
        """Read a source before the first change."""
        key = self.numbering.source(source), copied
        if key not in self.known:
            name = f"{self.names.series('old')}{len(self.known)}"
            text = Printer(free=self.free).source(source)
            self.reads.append(f"{name} = {text}{'.clone()' if copied else ''}")
            self.known[key] = name

    def free(self, what: Local | ClosureCell | str) -> str:
        if not isinstance(what, str):
            return self.names.give(what, what.name)
        if what in ("tmp", "old"):
            return self.names.series(what)
        if what in ("out", "modules", "named", "hooks"):
            return self.names.give(what, what)
        return what if what in self.roots else ""


def _roots(effects: MethodEffects) -> Iterator[Source]:
    """What the sources of a method are under."""
    yield from map(root_of, places(effects))


def _modules(effects: MethodEffects) -> Iterator[str]:
    """The Python modules that a method's effects name."""
    for source in _roots(effects):
        if isinstance(source, GlobalName):
            yield source.module
    for effect in effects.effects:
        if effect.op in (Op.NEW, Op.REGISTER_HOOK) and isinstance(effect.key, Constant):
            yield str(effect.key.value).partition(":")[0]
