"""Side effects as text for a terminal: one Python function a method, with the model's own lines beside it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from archive.base.errors import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.describe.inspect_effects import EffectFacts, EffectsInspection, GuardFacts, MethodFacts

LONGEST_ALIGNED = 60
"""Characters of the longest statement that moves the column of the model's lines to the right."""


def effects_text(facts: EffectsInspection) -> Text:
    """The side effects of an archive's methods, their guards, and the state at capture."""
    return Text("\n".join(map(one_line, _lines(facts))))


def _lines(facts: EffectsInspection) -> Iterator[str]:
    names = Counter(method.method for method in facts.methods)
    methods, places = counted(len(names), "method"), counted(len(facts.state), "place")
    yield f"{facts.file}: effects of {methods}, {places} of state"
    for method in facts.methods:
        if method.entry:
            yield ""
            yield f"# {method.method}, {method.entry} of {names[method.method]}: a call for which"
        elif method.guards:
            yield ""
            yield f"# {method.method} is refused unless"
        if method.guards:
            yield from _noted([(f"assert {one.text}", _note(one)) for one in method.guards])
        yield ""
        yield from _program(method)
    if facts.state:
        yield ""
        yield "# state at first"
        yield from (f"{source} = {value}" for source, value in facts.state)


def _program(method: MethodFacts) -> Iterator[str]:
    return _noted(
        [
            (line.text, "" if line.effect is None else _note(method.effects[line.effect]))
            for line in method.program
        ]
    )


def _noted(noted: list[tuple[str, str]]) -> Iterator[str]:
    """Lines with their notes as comments, aligned in one column."""
    width = max((len(text) for text, note in noted if note and len(text) <= LONGEST_ALIGNED), default=0)
    for text, note in noted:
        yield f"{text:{width}}  # {note}" if note else text


def _note(effect: EffectFacts | GuardFacts) -> str:
    """The model's line of an effect or a guard, or its debug handle if the line is unknown."""
    if effect.where:
        return f"{effect.where}: {effect.line}"
    return f"debug handle {effect.handle}" if effect.handle >= 0 else ""
