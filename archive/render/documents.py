"""What ``--json`` prints: one document a command, of the same form for one file and for many.

::

    {"schema": "urn:debug-archive:inspect:1", "version": "0.2.0", "command": "inspect", "files": [{…}, {…}]}

``schema`` names the JSON Schema that describes the document, ``docs/schemas/inspect.json``; its number grows
where a key goes or means something else. ``version`` is that of debug-archive. ``files`` has an object for
each file: a result as its room declares it, or what ``archive/render`` makes of one; of a file that could not
be read, it is :class:`Unread`. An inventory has ``totals`` after them. ``docs/schemas`` is made of these
classes and their docstrings.
"""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from archive.render.as_json import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.diagnostics import Diagnostic
    from archive.batches.outcome import OutcomeKind
    from archive.compare.digest import Of
    from archive.describe.totals import Totals

SCHEMA_VERSION = 1


class Document:
    """The text of a document, a piece for each file, so that facts are printed as they arrive.

    Args:
        command: the command's name, such as ``store ls``.
        version: of debug-archive.
    """

    def __init__(self, command: str, version: str) -> None:
        head = as_json({"schema": schema_name(command), "version": version, "command": command})
        self._before = head.removesuffix("\n}") + ',\n  "files": ['
        self._end = "]\n}\n"

    def entry(self, facts: object) -> str:
        """The piece of the next file, from facts as :func:`~archive.render.as_json.as_json` takes them."""
        text = f"{self._before}\n{indent(as_json(facts), '    ')}"
        self._before, self._end = ",", "\n  ]\n}\n"
        return text

    def end(self, totals: Totals | None = None) -> str:
        """The last piece, with the sums of all files where there are some."""
        end = (self._before if self._end.startswith("]") else "") + self._end
        if totals is None:
            return end
        return end.removesuffix("\n}\n") + "," + as_json({"totals": totals}).removeprefix("{") + "\n"


def schema_name(command: str) -> str:
    """The name of the schema of a command's documents."""
    return f"urn:debug-archive:{command.replace(' ', '-')}:{SCHEMA_VERSION}"


class Unread(TypedDict):
    """A file that could not be read.

    Attributes:
        file: its name.
        error: why.
    """

    file: str
    error: str


class InFile(TypedDict):
    """Facts about a file, or about a store."""

    file: str


class Made(TypedDict):
    """What became of a file. The other keys are the command's own, where it has done its work.

    Attributes:
        file: the input.
        out: the file that was written, or would be.
        companion: the same of the companion.
        outcome: what became of it.
        reason: why, where that is not as usual.
    """

    file: str
    out: NotRequired[str]
    companion: NotRequired[str]
    outcome: OutcomeKind
    reason: NotRequired[str]


class Verified(TypedDict):
    """What was found wrong in a file; nothing in one that is well.

    Attributes:
        file: its name.
        diagnostics: what is wrong, or worth knowing.
        checked: what was looked at, in sentences; empty for stores.
        unchecked: what no check of such a file looks at, each in a few words.
    """

    file: str
    diagnostics: Sequence[Diagnostic]
    checked: NotRequired[Sequence[str]]
    unchecked: NotRequired[Sequence[str]]


class DigestFacts(TypedDict):
    """The digest of a file; ``expected`` and ``same`` where it is compared with a list.

    ``left_out`` is how many weights lack the prefix that others have.
    """

    file: str
    of: NotRequired[Of]
    digest: NotRequired[str]
    parts: NotRequired[Mapping[str, str]]
    left_out: NotRequired[int]
    error: NotRequired[str]
    expected: NotRequired[str]
    same: NotRequired[bool]


class AddedFacts(TypedDict):
    """What became of a file that was to be added; the other keys are those of ``store ls``."""

    file: str
    outcome: str
    reason: NotRequired[str]


class RemovedFacts(TypedDict):
    """A companion that was removed."""

    archive_id: str
    outcome: Literal["removed"]


class DemoFacts(TypedDict):
    """What the demo showed, a key a step; ``problem`` is null where every claim held."""

    file: str
    kept: bool
    steps: Mapping[str, Any]
    seconds: Mapping[str, float]
    problem: str | None
