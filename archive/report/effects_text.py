"""Side effects as text for a terminal: a Python function a method, beside it the model's own lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from archive.base.errors import one_line
from archive.report.as_json import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.verbs.inspect_effects import EffectFacts, EffectsInspection, GuardFacts, MethodFacts

WIDEST = 60
"""Columns of a statement up to which the model's lines stand in one column."""


def effects_text(facts: EffectsInspection) -> Text:
    """What an archive says of side effects."""
    return Text("\n".join(_lines(facts)))


def _lines(facts: EffectsInspection) -> Iterator[str]:
    methods, places = len(facts.methods), len(facts.state)
    yield (
        f"{one_line(escaped(facts.file))}: effects of {methods:,} method{'s' * (methods != 1)}, "
        f"{places:,} place{'s' * (places != 1)} of state"
    )
    for method in facts.methods:
        if method.guards:
            yield ""
            yield f"# {method.method} is refused unless"
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
    """Lines with notes beside them, in one column."""
    width = max((len(text) for text, note in noted if note and len(text) <= WIDEST), default=0)
    for text, note in noted:
        yield f"{text:{width}}  # {note}" if note else text


def _note(effect: EffectFacts | GuardFacts) -> str:
    """Where an effect or a guard comes from."""
    if effect.where:
        return one_line(escaped(f"{effect.where}: {effect.line}"))
    return f"debug handle {effect.handle}" if effect.handle >= 0 else ""
