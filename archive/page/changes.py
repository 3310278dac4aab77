"""Two files → the lines of source and of generated code that differ between them.

A list of files and records that differ: ``name``; ``status``: ``changed``, ``new`` or ``gone``; ``was``, the
older name where that is another; ``added`` and ``gone``, how many lines. Of what has changed, the lines that
differ and a few around them: ``old`` and ``now``, columns of the numbers that a line has in both, null where
it is not there, and ``text``, all of these lines. A line without numbers stands for lines that are left out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base import memory
from archive.compare.alignment import CONTEXT, differing
from archive.page.units import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.compare.alignment import DifferingBlock

    Text = Mapping[str, Any]

MOST_LINES = 2_000
"""Lines of all files together that are shown."""
LONGEST_LINE = 1_000
"""Characters of a line that are shown."""


class _Line(NamedTuple):
    """A shown line: its numbers in the older and the newer text."""

    old: int | None
    now: int | None
    text: str


class Changes:
    """The differing lines of an older and a newer file.

    Args:
        older: the sources of a page's data, of the older file.
        newer: those of the newer one.

    Attributes:
        left_out: how many lines that differ, or stand around such, are not shown.
    """

    def __init__(self, older: Text, newer: Text) -> None:
        self._room = MOST_LINES
        self.left_out = 0
        self._facts: list[dict[str, Any]] = []
        for kind in ("files", "records"):
            for was, now in _pairs(older[kind], newer[kind]):
                self._add(was, now)

    def facts(self) -> list[dict[str, Any]]:
        """What differs, those with lines to show first."""
        return sorted(self._facts, key=lambda one: one["status"] != "changed")

    def _add(self, was: Text | None, now: Text | None) -> None:
        if was is None or now is None:
            one = now or was or {}
            count = len(_lines(one["text"]))
            sums = {"added": count if now else 0, "gone": count if was else 0}
            self._facts.append(
                {"name": one["name"], "status": "new" if now else "gone", "was": "", **sums, **_columns([])}
            )
        elif was["text"] != now["text"]:
            self._facts.append(self._changed(was, now))

    def _changed(self, was: Text, now: Text) -> dict[str, Any]:
        old, new = _lines(was["text"]), _lines(now["text"])
        with memory.lent(memory.ROW * (len(old) + len(new)), "lines of source"):
            blocks = differing(old, new)
            lines = [*_shown(blocks, old, new, _numbers(was, old), _numbers(now, new))]
        shown = lines[: self._room]
        self._room -= len(shown)
        self.left_out += len(lines) - len(shown)
        return {
            "name": now["name"],
            "status": "changed",
            "was": was["name"] if was["name"] != now["name"] else "",
            "added": sum(block.new_end - block.new for block in blocks),
            "gone": sum(block.old_end - block.old for block in blocks),
            **_columns(shown),
        }


def _columns(lines: Sequence[_Line]) -> dict[str, Any]:
    return {
        "old": [line.old for line in lines],
        "now": [line.now for line in lines],
        "text": "\n".join(line.text[:LONGEST_LINE] for line in lines),
    }


def _pairs(older: Sequence[Text], newer: Sequence[Text]) -> Iterator[tuple[Text | None, Text | None]]:
    """Texts of one name; then those whose file is in another folder only; then those without another."""
    before, now = ({one["name"]: one for one in texts if one["text"]} for texts in (older, newer))
    for name in [name for name in now if name in before]:
        yield before.pop(name), now.pop(name)
    ends = [Counter(map(_own_name, names)) for names in (before, now)]
    moved = {_own_name(name): name for name in before}
    for name in [name for name in now if all(counts[_own_name(name)] == 1 for counts in ends)]:
        yield before.pop(moved[_own_name(name)]), now.pop(name)
    yield from ((None, one) for one in now.values())
    yield from ((one, None) for one in before.values())


def _own_name(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _numbers(one: Text, lines: Sequence[str]) -> list[int]:
    """The number of each line in its file, of which only some may be known."""
    starts = dict(map(tuple, one.get("lines", ())))
    numbers, at, number = [], 0, 0
    for line in lines:
        number = starts.get(at, number + 1)
        numbers.append(number)
        at += count_of(line) + 1
    return numbers


def _shown(
    blocks: Sequence[DifferingBlock],
    old: Sequence[str],
    new: Sequence[str],
    old_numbers: Sequence[int],
    new_numbers: Sequence[int],
) -> Iterator[_Line]:
    """The lines of blocks, and those around them, each once."""

    def both(start: int, end: int, shift: int) -> Iterator[_Line]:
        return (_Line(old_numbers[at], new_numbers[at + shift], old[at]) for at in range(start, end))

    shown = 0
    for block, following in zip(blocks, [*(after.old for after in blocks[1:]), len(old)], strict=True):
        start = max(block.old - CONTEXT, shown)
        if start > shown:
            yield _Line(None, None, "")
        yield from both(start, block.old, block.new - block.old)
        yield from (_Line(old_numbers[at], None, old[at]) for at in range(block.old, block.old_end))
        yield from (_Line(None, new_numbers[at], new[at]) for at in range(block.new, block.new_end))
        shown = min(block.old_end + CONTEXT, following)
        yield from both(block.old_end, shown, block.new_end - block.old_end)
    if shown < len(old):
        yield _Line(None, None, "")
