"""A method's effects as the source of a Python function that makes the same changes.

The function takes the method's arguments and ``out``, the outputs of the graph, and returns the method's
result. All values are those from before the first change. So a source that an earlier change may have touched
(an attribute of the same name, any item) is first read into ``old0``; being cautious only takes a line.
Sources below temporaries did not exist before, and are read where they are used. No name hides another::
    # graph(x, self.count) -> 2 values
    def forward(self, x, out):
        old0 = self.count
        self.count = out[1]
        self.history.append(old0)
        return out[0]
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.formats.effects.containers import FACTORIES
from archive.formats.effects.hooks import functions_of, hooks_of
from archive.formats.effects.known_calls import CATEGORIES
from archive.formats.effects.model import (
    ATTRIBUTE_OPS,
    At,
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Length,
    Local,
    Op,
    Temporary,
)
from archive.formats.effects.parts import output_count, parts_of, places, reads, root_of, values_of
from archive.formats.effects.rows import FactNumbers
from archive.formats.effects.source_text import (
    HOOK_WORDS,
    Printer,
    is_dotted,
    is_name,
    modules_named,
    source_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.effects.model import Effect, MethodEffects, Source, Value

OWN_WORDS = ("out", "modules", "named", "hooks", *HOOK_WORDS)
"""Words of a program that aren't names of the model."""
CALLED_BUILTINS = (
    *("object", "getattr", "setattr", "delattr", "float", "print", "set", "frozenset"),
    *("set_backward", "inference"),
    *FACTORIES,
    *CATEGORIES,
)
"""Builtins that a program calls; nothing else in it may have their names."""
NAMESPACES = {"__dict__", "_parameters", "_buffers", "_modules"}
"""Dicts whose items are attributes of the object that owns them."""
ITEM_OPS = {
    Op.SET_ITEM,
    Op.DELETE_ITEM,
    Op.APPEND,
    Op.EXTEND,
    Op.INSERT,
    Op.POP,
    Op.APPEND_LEFT,
    Op.POP_LEFT,
    Op.ADD,
    Op.DISCARD,
    Op.CLEAR,
}


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """A line of a program, and the number of the effect that it makes, or None."""

    text: str
    effect: int | None = None


@dataclass(frozen=True, slots=True)
class MethodProgram:
    """A method's effects as a Python function.

    The function finds Python modules by their own names in its globals and, if it needs them, the dicts
    ``modules`` (by name), ``named`` (classes and functions by ``module:qualname``) and ``hooks`` (by number).
    For hooks it needs ``MethodType``, ``partial`` and ``copied``.

    Attributes:
        name: name of the function.
        lines: lines of its source.
        cells: closure cells of the model's functions, by the names of the globals in their place.
    """

    name: str
    lines: tuple[ProgramLine, ...]
    cells: Mapping[str, ClosureCell]

    def __str__(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)


def method_program(effects: MethodEffects) -> MethodProgram:
    """A method's effects as a Python function, line by line."""
    return _ProgramWriter(effects).program()


def graph_text(effects: MethodEffects) -> str:
    """Inputs and outputs of a method's graph: ``graph(x, self.count) -> 3 values``."""
    count = output_count(effects)
    inputs = ", ".join(map(source_text, effects.inputs))
    return f"graph({inputs}) -> {count} value{'' if count == 1 else 's'}"


@dataclass(slots=True)
class ChangesSoFar:
    """Names and kinds of places that the effects so far have changed."""

    attributes: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    cells: set[ClosureCell] = field(default_factory=set)
    items: bool = False
    tensors: bool = False
    anything: bool = False

    def add(self, effect: Effect) -> None:
        """Add an effect."""
        if effect.op in ATTRIBUTE_OPS:
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
            if isinstance(effect.source, Attribute) and effect.source.name in NAMESPACES:
                self.anything = True

    def touch(self, source: Source) -> bool:
        """Whether a source may have changed by now; below temporaries, the present value is the right one."""
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
                case Length(base):
                    if self.items:
                        return True
                    source = base
                case GlobalName(_, name):
                    return self.anything or name in self.globals or name in self.attributes
                case _:
                    return source in self.cells


class UniqueNames:
    """Python names, each given only once."""

    def __init__(self) -> None:
        self.taken = set(CALLED_BUILTINS)
        self._given: dict[object, str] = {}

    def give(self, what: object, wanted: str) -> str:
        """The name of a fact: the wanted one, followed by a number if it is taken."""
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
        """A stem that no name starts with, for names that end in numbers."""
        if wanted not in self._given:
            stem = wanted
            while any(name.startswith(stem) for name in self.taken):
                stem += "_"
            self._given[wanted] = stem
        return self._given[wanted]


class _ProgramWriter:
    """Writes the program of one method."""

    def __init__(self, effects: MethodEffects) -> None:
        self.effects = effects
        self.numbering = FactNumbers()
        self.names = UniqueNames()
        self.cells: dict[str, ClosureCell] = {}
        self.known: dict[tuple[int, bool], str] = {}  # by number of the source, and whether it is cloned
        self.reads: list[str] = []
        roots = list(_roots(effects))
        self.locals = list(dict.fromkeys(["self", *(one.name for one in roots if isinstance(one, Local))]))
        self.modules = {text.partition(".")[0] for text in _modules(effects) if is_dotted(text)}
        self._give_names([one for one in roots if isinstance(one, ClosureCell)])

    def _give_names(self, cells: list[ClosureCell]) -> None:
        """Name the arguments first, since they matter most, then cells, modules and the program's own."""
        for name in self.locals:
            self.names.give(Local(name), name)
        for cell in cells:
            self.cells[self.names.give(cell, cell.name)] = cell
        self.modules -= self.names.taken
        self.names.taken |= self.modules
        for own in OWN_WORDS:
            self.names.give(own, own)
        for stem in ("tmp", "old"):
            self.names.series(stem)

    def program(self) -> MethodProgram:
        """The program; writing statements finds the reads that they need."""
        made, changes = [], []
        so_far = ChangesSoFar()
        for number, effect in enumerate(self.effects.effects):
            if effect.op is Op.NEW:
                made.append(ProgramLine(f"    {Printer(free=self.free).effect(effect)}", number))
            else:
                changes.append(ProgramLine(f"    {self.statement(effect, so_far)}", number))
                so_far.add(effect)
        result = f"    return {self.printer(so_far, self.effects.result).value(self.effects.result)}"
        reads = [ProgramLine(f"    {read}") for read in self.reads]
        name, head = self._head()
        return MethodProgram(name, (*head, *made, *reads, *changes, ProgramLine(result)), self.cells)

    def _head(self) -> tuple[str, list[ProgramLine]]:
        """Name of the function, and its first lines."""
        method = self.effects.method
        name = self.names.give(None, method if is_name(method) else "method")
        parameters = ", ".join([self.free(Local(one)) for one in self.locals] + [self.free("out")])
        globals_ = [f"    global {cell}  # of {whose.function!r}" for cell, whose in self.cells.items()]
        lines = [f"# {graph_text(self.effects)}", f"def {name}({parameters}):", *globals_]
        return name, [ProgramLine(line) for line in lines]

    def statement(self, effect: Effect, changes: ChangesSoFar) -> str:
        values = [value for value in (effect.key, effect.value) if value is not None]
        copied = effect.op is Op.COPY and changes.tensors
        return self.printer(changes, *values, target=effect, copied=copied).effect(effect)

    def printer(
        self, changes: ChangesSoFar, *values: Value, target: Effect | None = None, copied: bool = False
    ) -> Printer:
        """A printer for one statement, which names the values read before the first change.

        Args:
            changes: the changes so far.
            values: the statement's values; those changed so far are read first from now on.
            target: the effect that the statement makes; None for the result.
            copied: whether the values are tensors to copy from, cloned in case a copy has changed them.
        """
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
        """Read a source before the first change, and clone it if it is copied."""
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
        if what in OWN_WORDS:
            return self.names.give(what, what)
        return what if what in self.modules else ""


def _roots(effects: MethodEffects) -> Iterator[Source]:
    """Locals, globals, cells and temporaries that the sources of a method start from."""
    yield from map(root_of, places(effects))


def _modules(effects: MethodEffects) -> Iterator[str]:
    """Names of the Python modules in a method's sources, classes and functions."""
    for source in _roots(effects):
        if isinstance(source, GlobalName):
            yield source.module
    for effect in effects.effects:
        if effect.op in (Op.NEW, Op.SET_BACKWARD) and isinstance(effect.key, Constant):
            yield str(effect.key.value).partition(":")[0]
        for hook in hooks_of(effect):
            for name, _ in functions_of(hook):
                yield name.partition(":")[0]
    for part in parts_of(values_of(effects)):
        yield from modules_named(part)
