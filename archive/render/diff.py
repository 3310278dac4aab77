"""A difference → text and JSON: rows by level, lines of source and code below, and what may be concluded."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from archive.base.errors import counted, one_line
from archive.compare.changes import TextChange
from archive.compare.sameness import Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.compare.changes import Change, Diff

TITLES = {
    Level.MODEL: "model",
    Level.EXTRAS: "extras",
    Level.FORMAT: "format",
    Level.DEBUG: "debug info",
    Level.IDS: "ids",
    Level.LAYOUT: "layout",
}
SIGNS = {"added": "+", "gone": "-", "changed": "~", "renamed": ">"}
STYLES = {"+": "green", "-": "red", "@": "cyan", "~": "yellow", ">": "yellow"}
MOST_LINES = 60
"""Lines of one text that are shown, unless all are asked for."""


def diff_text(diff: Diff, rows: int, *, stat: bool = False) -> Iterator[tuple[str, str]]:
    """The rows of a difference, and the verdict: lines, each with its style.

    Args:
        rows: rows of each level to show; 0 for all, with all their lines.
        stat: show no lines of texts, and counts in their place.
    """
    for line in _lines(diff, rows, stat=stat):
        yield line, STYLES.get(line.lstrip()[:1], "") if line.startswith("  ") else "bold"
    for line in verdict(diff).split("\n"):
        yield line, "bold"


def _lines(diff: Diff, rows: int, *, stat: bool) -> Iterator[str]:
    yield one_line(f"--- {diff.old}: {diff.old_kind}")
    yield one_line(f"+++ {diff.new}: {diff.new_kind}")
    for level, group in groupby(diff.changes, key=lambda change: change.level):
        changes = list(group)
        yield TITLES[level]
        shown = changes[: rows or None]
        for change in shown:
            yield f"  {SIGNS[change.status]} {one_line(f'{change.what} {change.name}: {change.in_words}')}"
            if isinstance(change, TextChange) and not stat:
                most = 0 if rows == 0 else MOST_LINES
                for line in change.lines[: most or None]:
                    yield f"      {one_line(line.replace(chr(9), '    '))}"
                if most and len(change.lines) > most:
                    yield f"      … {counted(len(change.lines) - most, 'more line')}; -n 0 shows all"
        if len(shown) < len(changes):
            yield f"  … {counted(len(changes) - len(shown), 'more difference')}; -n 0 shows all"


def verdict(diff: Diff) -> str:
    """What may be concluded, in one sentence; and what was not compared."""
    levels = {change.level for change in diff.changes}
    counts = [
        f"{sum(change.level is level for change in diff.changes):,} of {TITLES[level]}"
        for level in Level
        if level in levels
    ]
    verdict = f"differences: {', '.join(counts)}" if counts else "none of the differences asked for"
    missing = [one_line(why) for why in diff.unchecked]
    if diff.identical:
        verdict = "identical, to the byte"
    elif diff.same_model:
        verdict = f"same model; {verdict}"
    elif missing and Level.MODEL not in levels:
        verdict = f"no difference of the model in what was compared; {verdict}"
    weights = [one_line(f"weights: {diff.weights}")] if diff.weights and not diff.same_model else []
    return "\n".join([verdict, *weights, *(f"not compared: {why}" for why in missing)])


def summary_line(diff: Diff) -> str:
    """The verdict of one of several pairs, on one line."""
    return verdict(diff).replace("\n", "; ")


# --- JSON


class DiffSide(TypedDict):
    """One of two files."""

    file: str
    kind: str


class DiffFacts(TypedDict):
    """The difference of two files; of folders, ``file`` is their relative path.

    Attributes:
        identical: whether both are the same to the byte.
        same_model: whether all that belongs to the model was compared, and is the same.
        weights: of files of two kinds, whether their weights are the same, in words; else "".
        unchecked: what was not compared, each a sentence.
        changes: the differences, model first and layout last.
    """

    file: NotRequired[str]
    old: DiffSide
    new: DiffSide
    identical: bool
    same_model: bool
    weights: str
    unchecked: Sequence[str]
    changes: Sequence[Change]


class Lonely(TypedDict):
    """A file that only one of two folders has."""

    file: str
    status: Literal["gone", "added"]


def diff_facts(diff: Diff) -> DiffFacts:
    """A difference for JSON, and what follows from it."""
    return {
        "old": {"file": diff.old, "kind": diff.old_kind},
        "new": {"file": diff.new, "kind": diff.new_kind},
        "identical": diff.identical,
        "same_model": diff.same_model,
        "weights": diff.weights,
        "unchecked": diff.unchecked,
        "changes": diff.changes,
    }
