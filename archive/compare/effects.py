"""The side effects of two archives: what they do differs, or the places that they name, or debug handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.compare.changes import Change, Status, TextChange, changed
from archive.compare.records import same_bytes
from archive.compare.sameness import Level
from archive.compare.unified import unified
from archive.formats.effects import EFFECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.compare.unified import Unified
    from archive.formats.effects.model import EffectTable
    from archive.reader.archive import Archive


def effect_changes(old: Archive, new: Archive) -> Iterator[Change]:
    """What differs in the side effects of two archives that have some: one row, or none."""
    was, now = old.effects, new.effects
    if same_bytes(old.records[EFFECTS], new.records[EFFECTS]) or was is None or now is None:
        return
    from archive.formats.effects.parts import without_handles, without_places  # noqa: PLC0415 (few have)
    from archive.formats.effects.record import build_effects  # noqa: PLC0415 (the same)

    if build_effects(without_handles(was)) == build_effects(without_handles(now)):
        yield _changed(Level.IDS, "other debug handles")
    elif build_effects(without_places(was)) == build_effects(without_places(now)):
        yield _changed(Level.DEBUG, "other files or lines of calls")
    else:
        yield _of_text(unified(_text(was), _text(now)))


def _of_text(lines: Unified) -> Change:
    if not lines.lines:
        return _changed(Level.MODEL, "settings that are not in their text")
    return TextChange(
        level=Level.MODEL,
        what="effects",
        name=EFFECTS,
        status=Status.CHANGED,
        of="effects",
        lines=lines.lines,
        added=lines.added,
        gone=lines.gone,
    )


def _changed(level: Level, what: str) -> Change:
    return changed(level, "effects", EFFECTS, "the same", what)


def _text(table: EffectTable) -> str:
    """Effects as Python, line by line, without places."""
    from archive.formats.effects.program_text import graph_text, method_program  # noqa: PLC0415 (few have)
    from archive.formats.effects.source_text import guard_text, source_text, value_text  # noqa: PLC0415

    lines: list[str] = []
    for method in table.methods:
        lines += [f"# {method.method}: {graph_text(method)}"]
        lines += [f"assert {guard_text(guard)}" for guard in method.guards]
        lines += [f"{source_text(name)} = {value_text(value)}  # default" for name, value in method.defaults]
        lines += [line.text for line in method_program(method).lines]
    lines += [f"{source_text(source)} = {value_text(value)}" for source, value in table.state]
    return "\n".join(lines)
