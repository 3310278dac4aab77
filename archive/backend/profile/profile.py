"""A profile: a timeline that can be shown as text, and saved for viewers of traces and flame graphs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from archive.backend.profile.listing import listing
from archive.backend.profile.stacks import folded_stacks, speedscope
from archive.backend.profile.text import table
from archive.backend.profile.timeline import Timeline
from archive.backend.profile.trace import chrome_trace
from archive.base.errors import ArchiveError
from archive.base.output import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.backend.profile.events import Recording
    from archive.backend.profile.places import OperationPlace
    from archive.backend.profile.text import By
    from archive.base.output import Target
    from archive.debuginfo.model import Source


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
        """The model's source with the times of each line: see :mod:`archive.backend.profile.listing`."""
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
