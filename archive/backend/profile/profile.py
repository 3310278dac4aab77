"""A profile: a timeline that can be shown as text, and saved as a trace for Chrome and Perfetto."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from archive.backend.profile.text import table
from archive.backend.profile.timeline import Timeline
from archive.backend.profile.trace import chrome_trace
from archive.base.output import replacing

if TYPE_CHECKING:
    from archive.base.output import Target


class Profile(Timeline):
    """A recording at the model's source; ``str()`` gives its sums by module and line as text."""

    def __str__(self) -> str:
        _, _, lines = table(self, by="line").partition("\n\n")
        return f"{table(self, by='module')}\n\n{lines}"

    def chrome_trace(self) -> dict[str, Any]:
        """The trace: see :mod:`archive.backend.profile.trace`."""
        return chrome_trace(self)

    def save(self, path: Target, *, force: bool = False) -> None:
        """Write the trace as JSON, one event a line.

        Args:
            path: the target; takes its name only when complete.
            force: replace an existing file.

        Raises:
            ArchiveError: the target exists and ``force`` is not given.
            OSError: it cannot be written.
        """
        trace = self.chrome_trace()
        events = ",\n".join(map(json.JSONEncoder(allow_nan=False).encode, trace.pop("traceEvents")))
        with replacing(path, force=force) as file:
            file.write(f'{json.dumps(trace)[:-1]}, "traceEvents": [\n{events}\n]}}\n'.encode())
