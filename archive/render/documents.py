"""What ``--json`` prints: one document a command, of the same form for one file and for many.

::

    {"schema": "urn:debug-archive:inspect:1", "version": "0.2.0", "command": "inspect", "files": [{…}, {…}]}

``schema`` names the JSON Schema that describes the document, ``docs/schemas/inspect.json``; its number grows
where a key goes or means something else. ``version`` is that of debug-archive. ``files`` has an object for
each file, as :mod:`archive.render.document_facts` declares it; of one that could not be read, it is
:class:`Unread`.
"""

from __future__ import annotations

from textwrap import indent
from typing import TypedDict

from archive.render.as_json import as_json

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

    def end(self) -> str:
        """The last piece."""
        return (self._before if self._end.startswith("]") else "") + self._end


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
