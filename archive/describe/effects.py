"""The side effects of an archive's methods, as Python text, each with the model's line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.formats.effects import EFFECTS
from archive.formats.effects.program_text import ProgramLine, graph_text, method_program
from archive.formats.effects.source_text import effect_text, guard_text, source_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.formats.effects.model import MethodEffects
    from archive.reader.archive import Archive


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
        method: its name.
        entry: number of the entry, from 1; 0 for a method with one table.
        graph: inputs and outputs of its graph, as text.
        result: its return value, as Python.
        effects: its changes, in the order in which they are made.
        program: a Python function that does the same, line by line; effects are named by their places.
        guards: conditions of a call, which is refused otherwise.
        defaults: arguments that may be left out, and their values then, both as Python.
    """

    method: str
    entry: int
    graph: str
    result: str
    effects: Sequence[EffectFacts]
    program: Sequence[ProgramLine]
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
    """List the side effects of an archive's methods."""
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
        method_program(method).lines,
        guards,
        defaults,
    )


def _model_line(archive: Archive, handle: int) -> tuple[str, str]:
    """File and line number of a debug handle's statement, and the line itself; "" where not known."""
    if handle not in archive.handles:
        return "", ""
    frames = archive.symbolicate(handle).frames
    span = frames[-1].range if frames else None
    if span is None or span.source.is_null:
        return "", ""
    file, text = span.source.filename, bytes(span.source.text)
    end = text.find(b"\n", span.start)
    line = text[text.rfind(b"\n", 0, span.start) + 1 : len(text) if end < 0 else end]
    return f"{'' if file is None else file}:{span.line}", decoded(line).strip()
