"""The rows of a difference: each says what differs, at which level, and how."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from archive.base.errors import several
from archive.base.notebooks import shown_by
from archive.base.quick_dataclass import dataclass
from archive.compare.sameness import Level, ignored_levels

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from archive.compare.alignment import Unified


class Status(StrEnum):
    """What became of a thing."""

    ADDED = "added"
    GONE = "gone"
    CHANGED = "changed"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference.

    Attributes:
        level: what it is a difference of.
        what: the kind of thing that differs: ``tensor``, ``function``, ``record`` and so on.
        name: of the thing; where it is renamed, its new name.
        status: what became of it.
        old: what it was, in a few words; its old name where it is renamed. "" where there was none.
        new: what it is, in a few words. "" where there is none.
    """

    level: Level
    what: str
    name: str
    status: Status
    old: str = ""
    new: str = ""

    @property
    def in_words(self) -> str:
        """What became of it, in words."""
        if self.status is Status.RENAMED:
            return f"was {self.old}"
        if self.status is Status.CHANGED:
            return f"{self.old} → {self.new}" if self.old or self.new else "changed"
        detail = self.old or self.new
        return f"{self.status}, {detail}" if detail else str(self.status)


def changed(level: Level, what: str, name: str, old: str = "", new: str = "") -> Change:
    """A thing that both files have, and that differs; see :class:`Change`."""
    return Change(level=level, what=what, name=name, status=Status.CHANGED, old=old, new=new)


def gone(level: Level, what: str, name: str, old: str) -> Change:
    """A thing that only the old file has."""
    return Change(level=level, what=what, name=name, status=Status.GONE, old=old)


def added(level: Level, what: str, name: str, new: str) -> Change:
    """A thing that only the new file has."""
    return Change(level=level, what=what, name=name, status=Status.ADDED, new=new)


def renamed(level: Level, what: str, name: str, old: str) -> Change:
    """A thing of which only the name differs."""
    return Change(level=level, what=what, name=name, status=Status.RENAMED, old=old)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChange(Change):
    """A tensor of the same dtype and shape with other elements.

    Attributes:
        count: elements; blocks, where elements have no whole bytes of their own.
        changed: of these, those of which a bit differs.
        block: elements of a block; 1 where each has bytes of its own.
        bits: bits that differ.
        max_abs: the largest difference of two numbers; None where the dtype's numbers are not known here, or
            each differing pair has a NaN.
        max_rel: the largest difference divided by the larger of both magnitudes; None likewise.
        unordered: differing elements with a NaN on either side.
        also: other names of the same elements: of tied weights, of constants that code and methods share.
        new: of a constant of code, the lines of the model that use it, as far as they are known.
    """

    count: int
    changed: int
    bits: int
    max_abs: float | None
    max_rel: float | None
    unordered: int
    block: int = 1
    also: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """How much differs, in words."""
        bits = f"{self.bits:,} bit{'s' * (self.bits != 1)}"
        units = "elements" if self.block == 1 else f"blocks of {self.block:,} elements"
        parts = [f"{self.changed:,} of {self.count:,} {units} differ, {bits}"]
        if self.max_abs is not None:
            parts.append(f"max abs {self.max_abs:.6g}, max rel {self.max_rel:.3g}")
        if self.unordered:
            parts.append(f"{self.unordered:,} with NaN")
        if self.also:
            parts.append(f"the same as {several(self.also)}")
        if self.new:
            parts.append(f"used at {self.new}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChange(Change):
    """A text that differs line by line.

    Attributes:
        of: what the lines are: ``source``, ``generated code``, ``instructions``, ``text``.
        lines: a unified difference, without the header that names files.
        added: lines that came.
        gone: lines that went.
    """

    of: str
    lines: tuple[str, ...]
    added: int
    gone: int

    @property
    def in_words(self) -> str:
        """Which text changed by how much, in words."""
        words = f"{self.of} +{self.added:,} −{self.gone:,}"  # noqa: RUF001 (a minus sign)
        return f"{words}, {self.new}" if self.new else words


def text_changed(level: Level, what: str, name: str, of: str, lines: Unified, *, new: str = "") -> TextChange:
    """A text that both files have, and that differs in some lines; see :class:`TextChange`."""
    return TextChange(
        level=level,
        what=what,
        name=name,
        status=Status.CHANGED,
        new=new,
        of=of,
        lines=lines.lines,
        added=lines.added,
        gone=lines.gone,
    )


@dataclass(frozen=True, slots=True)
class Diff:
    """The difference of two files.

    Attributes:
        old: the old file's name.
        new: the new file's.
        old_kind: the old file's kind, in words.
        new_kind: the new one's.
        changes: the rows, model first and layout last.
        unchecked: what was not compared, each a sentence. Nothing is said of it.
        identical: whether both files are the same to the byte.
        weights: of files of two kinds, whether their weights are the same, in words; "" for files of one
            kind, and where there are none.
    """

    old: str
    new: str
    old_kind: str
    new_kind: str
    changes: Sequence[Change]
    unchecked: Sequence[str]
    identical: bool
    weights: str = ""

    _repr_html_ = shown_by("of_diff")

    @property
    def same_model(self) -> bool:
        """Whether all that belongs to the model was compared, and is the same."""
        return not self.unchecked and not any(change.level is Level.MODEL for change in self.changes)

    def without(self, ignored: Collection[Level]) -> Diff:
        """The same without the differences of some levels; of the model, none can be left out.

        Raises:
            ValueError: a level is ``model``.
        """
        levels = ignored_levels(ignored)
        others = tuple(change for change in self.changes if change.level not in levels)
        return replace(self, changes=others)
