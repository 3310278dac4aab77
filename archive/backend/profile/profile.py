"""A profile: a timeline that can be shown as text, and saved for viewers of traces and flame graphs.

As text it is the model's source with the times of each line, like that of ``line_profiler``.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from archive.backend.profile.stacks import folded_stacks, speedscope
from archive.backend.profile.text import TABLE_WIDTH, duration, table
from archive.backend.profile.timeline import Timeline
from archive.backend.profile.trace import chrome_trace
from archive.backend.source_files import is_pytorchs
from archive.base.errors import ArchiveError, one_line
from archive.base.output import replacing
from archive.base.strings import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.backend.profile.events import Recording
    from archive.backend.profile.places import OperationPlace
    from archive.backend.profile.text import By
    from archive.backend.profile.timeline import Row
    from archive.base.output import Target
    from archive.debuginfo.model import Source


# --- listing

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


# --- profile


class Profile(Timeline):
    """A recording at the model's source; ``str()`` gives its sums by module and line as text.

    Args:
        recording: the events.
        place: the place in the model that a debug handle stands for; called once for each.
        sources: the texts of the archive's debug info, for :meth:`listing`.

    Raises:
        ValueError: an operation ends before it starts.
    """

    def __init__(
        self, recording: Recording, place: Callable[[int], OperationPlace], sources: Sequence[Source] = ()
    ) -> None:
        super().__init__(recording, place)
        self._sources = sources

    def __str__(self) -> str:
        _, _, lines = table(self, by="line").partition("\n\n")
        return f"{table(self, by='module')}\n\n{lines}"

    def table(self, *, by: By = "module", most: int = 20) -> str:
        """The sums as text: see :func:`archive.backend.profile.text.table`."""
        return table(self, by=by, most=most)

    def listing(self) -> str:
        """The model's source with the times of each line: see :mod:`archive.backend.profile.profile`."""
        return listing(self, self._sources)

    def facts(self) -> dict[str, Any]:
        """The sums for JSON: what ran, its times in ns, the peak of memory, and the rows of each view."""
        return {
            "backend": self.backend,
            "operations": len(self.events),
            "total_ns": self.total_ns,
            "peak_bytes": self.peak if self.memory else None,
            "of_allocator": self.of_allocator,
            "module": [asdict(row) for row in self.by_module()],
            "line": [asdict(row) for row in self.by_line()],
            "operator": [asdict(row) for row in self.by_operator()],
        }

    def chrome_trace(self) -> dict[str, Any]:
        """The trace: see :mod:`archive.backend.profile.trace`."""
        return chrome_trace(self)

    def folded(self) -> str:
        """Folded stacks: see :mod:`archive.backend.profile.stacks`."""
        return folded_stacks(self)

    def speedscope(self) -> dict[str, Any]:
        """The file for speedscope: see :mod:`archive.backend.profile.stacks`."""
        return speedscope(self)

    def save(self, path: Target, *, force: bool = False) -> None:
        """Write the profile in the format that the file's name asks for.

        Args:
            path: the target; takes its name only when complete. ``x.speedscope.json`` is for speedscope,
                ``x.folded`` holds folded stacks for ``flamegraph.pl``, and any other ``x.json`` a trace for
                Chrome and Perfetto.
            force: replace an existing file.

        Raises:
            ArchiveError: the name has none of these endings, or the target exists and ``force`` is not given.
            OSError: it cannot be written.
        """
        write = writer_of(path)
        with replacing(path, force=force) as file:
            file.write(write(self).encode())


def writer_of(path: Target) -> Callable[[Profile], str]:
    """The function that makes the text of a file, by the file's name.

    Raises:
        ArchiveError: the name has no known ending.
    """
    name = os.fspath(path)
    kind = next((ending for ending in WRITERS if name.endswith(ending)), None)
    if kind is None:
        raise ArchiveError(expected=f"a name that ends in {', '.join(WRITERS)}", found=name)
    return WRITERS[kind]


def _trace_text(profile: Profile) -> str:
    """The trace as JSON, one event a line."""
    trace = profile.chrome_trace()
    events = ",\n".join(map(json.JSONEncoder(allow_nan=False).encode, trace.pop("traceEvents")))
    return f'{json.dumps(trace)[:-1]}, "traceEvents": [\n{events}\n]}}\n'


WRITERS: dict[str, Callable[[Profile], str]] = {
    ".speedscope.json": lambda profile: json.dumps(profile.speedscope(), allow_nan=False) + "\n",
    ".folded": Profile.folded,
    ".json": _trace_text,
}
"""The text of a file by its name's ending; the first ending that fits counts."""
