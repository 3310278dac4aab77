"""What ``--json`` prints: one document a command, of the same form for one file and for many.

::

    {"schema": "urn:debug-archive:inspect:1", "version": "0.2.0", "command": "inspect", "files": [{…}, {…}]}

``schema`` names the JSON Schema that describes the document, ``docs/schemas/inspect.json``; its number grows
where a key goes or means something else. ``version`` is that of debug-archive. ``files`` has an object for
each file, as :mod:`archive.render.document_facts` declares it; of one that could not be read, it is
:class:`Unread`. An inventory has ``totals`` after them: :class:`Totals`.
"""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, TypedDict

from archive.render.as_json import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.describe.totals import Sums
    from archive.reader.recognition import FileKind

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


class Totals(TypedDict):
    """The sums of an inventory.

    Attributes:
        all: of all rows.
        by_kind: of the rows of each kind.
        by_release: of those of each release; "" where that is not known.
        same: of those that are the same as one before, by how that is known: ``file``, ``crc`` or ``digest``.
        others: how many files of each other kind are there, which have no row.
        elements_unknown: how many models do not say how many elements their tensors have.
        unread: how many files could not be read.
    """

    all: Sums
    by_kind: Mapping[str, Sums]
    by_release: Mapping[str, Sums]
    same: Mapping[str, Sums]
    others: Mapping[FileKind, int]
    elements_unknown: int
    unread: int
