"""The side effects of an archive's methods or programs, as Python text, each with the model's line."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, cast

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, counted
from archive.base.quick_dataclass import dataclass
from archive.formats.effects import EFFECTS
from archive.formats.effects.model import Attribute, Effect, Local, Made, MethodEffects, Op, Output
from archive.formats.effects.source_text import (
    effect_text,
    graph_text,
    guard_text,
    notes_of,
    source_text,
    value_text,
)
from archive.formats.exported.changes import IN_PLACE
from archive.reader.lookups.nodes import found_nodes, place_of_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.formats.effects.model import Source
    from archive.formats.exported.program import Program
    from archive.reader.archive import Archive


NO_HANDLE, FORWARD = -1, "forward"


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """One side effect.

    Attributes:
        op: the kind of effect.
        text: the effect as Python.
        handle: debug handle of the model's statement; -1 where it has none.
        where: file and line of that statement; "" where they are not known.
        line: the line itself.
    """

    op: str
    text: str
    handle: int
    where: str
    line: str


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """A condition that each call must meet.

    Attributes:
        look: the property that is looked at.
        text: the condition as Python.
        handle: debug handle of the model's statement that relies on it; -1 where it has none.
        where: file and line of that statement; "" where they are not known.
        line: the line itself.
    """

    look: str
    text: str
    handle: int
    where: str
    line: str


@dataclass(frozen=True, slots=True)
class MethodInspection:
    """The effects of one method, or of one of its entries.

    Attributes:
        method: its name; of a program ``forward``, with the program's name before it if there are several.
        entry: number of the entry, from 1; 0 for a method with one table.
        graph: inputs and outputs of its graph, as text.
        result: its return value, as Python.
        effects: its changes, in the order in which they are made.
        notes: what the texts of effects don't say: when places are read, and whose variables cells are.
        guards: conditions of a call, which is refused otherwise.
        defaults: arguments that may be left out, and their values then, both as Python.
    """

    method: str
    entry: int
    graph: str
    result: str
    effects: Sequence[EffectFacts]
    notes: Sequence[str]
    guards: Sequence[GuardFacts]
    defaults: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class EffectsInspection:
    """The side effects of an archive's methods.

    Attributes:
        file: name of the archive.
        methods: those with effects; entries of a method follow one another.
        state: places of state and the values that were there at capture, both as Python.
    """

    file: str
    methods: Sequence[MethodInspection]
    state: Sequence[tuple[str, str]]


@bounded
def inspect_effects(archive: Archive) -> EffectsInspection:
    """List the side effects of an archive's methods, or of its programs."""
    if programs := [each for program in archive.programs.values() for each in _program(archive, program)]:
        return EffectsInspection(archive.file, programs, [])
    table = archive.effects
    if table is None:
        raise ArchiveError(f"no effects ({EFFECTS}) in it", file=archive.file)
    lines: dict[int, tuple[str, str]] = {}
    return EffectsInspection(
        archive.file,
        [
            _method(archive, method, entry, lines)
            for method, entry in zip(table.methods, entry_numbers(table.methods), strict=True)
        ],
        [(source_text(source), value_text(value)) for source, value in table.state],
    )


def entry_numbers(methods: Sequence[MethodEffects]) -> Iterator[int]:
    """The number of each entry, from 1; 0 for methods with one table."""
    counts = Counter(method.method for method in methods)
    met: Counter[str] = Counter()
    for method in methods:
        met[method.method] += 1
        yield met[method.method] if counts[method.method] > 1 else 0


def _method(
    archive: Archive, method: MethodEffects, entry: int, lines: dict[int, tuple[str, str]]
) -> MethodInspection:
    for handle in (one.handle for some in (method.effects, method.guards) for one in some):
        if handle not in lines:
            lines[handle] = _model_line(archive, handle)
    effects = [
        EffectFacts(str(effect.op), effect_text(effect), effect.handle, *lines[effect.handle])
        for effect in method.effects
    ]
    guards = [
        GuardFacts(str(guard.look), guard_text(guard), guard.handle, *lines[guard.handle])
        for guard in method.guards
    ]
    defaults = [(argument.name, value_text(value)) for argument, value in method.defaults]
    return MethodInspection(
        method.method,
        entry,
        graph_text(method),
        value_text(method.result),
        effects,
        notes_of(method),
        guards,
        defaults,
    )


def _program(archive: Archive, program: Program) -> Iterator[MethodInspection]:
    """The effects of a program: what its signature changes, and a note of what may change besides."""
    in_place = sum(bool(IN_PLACE.fullmatch(site.target)) for site in program.sites.values())
    notes = [f"{counted(in_place, 'operation')} in place, whose changes the signature does not have"]
    changes = program.outputs.changes
    if not (changes or in_place):
        return
    name = f"{program.name}:{FORWARD}" if len(archive.programs) > 1 else FORWARD
    table = _table(program, name)
    effects = [
        EffectFacts(str(effect.op), effect_text(effect), NO_HANDLE, *_maker_line(program, change.maker))
        for effect, change in zip(table.effects, changes, strict=True)
    ]
    graph, result = graph_text(table), value_text(table.result)
    yield MethodInspection(table.method, 0, graph, result, effects, notes if in_place else [], [], [])


def _table(program: Program, method: str) -> MethodEffects:
    """The table of a program, whose graph takes the arguments, and of the model what changes."""
    places = [
        Local(change.name)
        if change.is_argument
        else reduce(Attribute, change.name.split("."), cast("Source", Local("self")))
        for change in program.outputs.changes
    ]
    effects = [
        Effect(Op.COPY, place, value=Output(change.number))
        for place, change in zip(places, program.outputs.changes, strict=True)
    ]
    arguments = [Local(each.name) for each in program.inputs or () if each.name]
    results = [*map(Output, program.outputs.results)]
    result = results[0] if len(results) == 1 else Made("tuple", tuple(results))
    return MethodEffects(method, tuple(dict.fromkeys([*arguments, *places])), result, tuple(effects))


def _maker_line(program: Program, maker: str) -> tuple[str, str]:
    """File and line number of the statement that makes a value, and the line; "" where not known."""
    for node in found_nodes({program.name: program}, maker):
        line = place_of_node(node).source
        if line is not None:
            return f"{line.file}:{line.number}", line.text
    return "", ""


def _model_line(archive: Archive, handle: int) -> tuple[str, str]:
    """File and line number of a debug handle's statement, and the line itself; "" where not known."""
    line = archive.symbolicate([handle]).source_line
    return ("", "") if line is None else (f"{line.file}:{line.number}", line.text)
