"""A profile as the model's source, with the times of each line, as ``line_profiler`` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.backend.profile.text import TABLE_WIDTH, duration
from archive.backend.source_files import is_pytorchs
from archive.base.errors import one_line
from archive.base.strings import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.backend.profile.timeline import Row, Timeline
    from archive.debuginfo.model import Source

HEADING = f"{'line':>5} {'calls':>7} {'self':>10} {'share':>6}  source"


def listing(timeline: Timeline, sources: Iterable[Source]) -> str:
    """The functions in which time was spent, those with most of it first; "" if no source has their lines.

    Args:
        timeline: the recording.
        sources: the texts that the archive's debug info has. Of traced models these are call stacks, in which
            no line stands as the model has it.
    """
    rows = {row.name: row for row in timeline.by_line()}
    parts = [part for one in _distinct(sources) if (part := _Part(*one, rows)).time]
    return "\n\n".join("\n".join(part.lines()) for part in sorted(parts, key=lambda part: -part.time))


def _distinct(sources: Iterable[Source]) -> Iterator[tuple[str, int, str]]:
    """File, first line and text of each source of the model, each once."""
    seen = set()
    for one in sources:
        if one.filename is None or is_pytorchs(str(one.filename)):
            continue
        key = one_line(str(one.filename)), one.starting_line, decoded(bytes(one.text))
        if key not in seen:
            seen.add(key)
            yield key


class _Part:
    """A source with the rows of its lines.

    Args:
        file: its file.
        first: its first line's number.
        text: its text.
        rows: the rows of all lines, by ``file:line``.
    """

    def __init__(self, file: str, first: int, text: str, rows: dict[str, Row]) -> None:
        self._file = file
        self._first = first
        self._text = text.splitlines()
        found = enumerate(self._text, first)
        self._rows = {
            number: row
            for number, line in found
            if (row := rows.get(f"{file}:{number}")) is not None and row.text == one_line(line.strip())
        }
        self.time = sum(row.self_ns for row in self._rows.values())

    def lines(self) -> Iterator[str]:
        """A heading, and each line with its times."""
        yield f"{self._file}: {duration(self.time)}"
        yield HEADING
        for number, text in enumerate(self._text, self._first):
            row = self._rows.get(number)
            numbers = f"{row.calls:>7,} {duration(row.self_ns):>10} {row.share:>6.1%}" if row else " " * 25
            yield f"{number:>5} {numbers}  {one_line(text)[: TABLE_WIDTH - 33]}".rstrip()
