"""The page that lists several files with their sums: of an inventory, or of report pages.

::

    {"version": 1,
     "folder": {"name": text, "where": text, "totals": [[what, number]…], "columns": [[key, title, as]…],
                "files": {…}, "tables": [{"title", "columns": [[title, as]…], "rows": [[cell…]…]}…],
                "notes": [text…]},
     "left_out": [text…]}

``files`` has a list for each of ``columns``, a value for each file, null where it is not known: ``file``,
``state``, ``kind``, ``size``, ``debug_bytes``, ``release``, and what else the page is about. ``as`` is
``text``, ``number`` or ``bytes``. A file that could not be read is among them: its ``kind`` is "", and
``unread`` says why. These aren't columns: ``grave``, how grave the state is (``error``, ``warning``,
``note``, ``well`` or ""); ``page``, the address of a file's page relative to this one; ``first``, the number
of the file that it is the same as.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from archive.base.errors import counted, one_line
from archive.base.tables import Column
from archive.io.places import absolute, last_part
from archive.page.bounding import MOST_BYTES
from archive.page.document import document, packed
from archive.page.facts import VERSION
from archive.page.summary import IN_ERROR, IN_PART, NOT_READ, summary_of
from archive.page.units import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.page.report import Report

ENDING = ".html"
INDEX = f"index{ENDING}"
MOST_UNREAD = 1_000
"""Files that could not be read which are listed also where a page has no room for all files."""
FILE, STATE, UNREAD = Column("file", "File"), Column("state", "State"), Column("unread", "Not read")
"""The columns of every list of files: the first two, and the last."""
NONE, WITH_LEAKS = "none", "with leaks"
"""What a column says where something was looked for and not found; and what counts files with leaks."""
REFERENCES = {"page", "first"}
"""Keys that some files lack: null there."""

REPORTED = (
    FILE,
    STATE,
    Column("kind", "Kind"),
    Column("size", "Size", "bytes"),
    Column("debug_bytes", "Debug info", "bytes"),
    Column("release", "Release"),
    Column("label", "Label"),
    Column("findings", "Errors, warnings", "number"),
    UNREAD,
)
"""What the list of report pages says about each."""


def page_of(relative: str) -> str:
    """The page of a file, as a path below the folder of pages."""
    return relative + ENDING


def title_of(names: Sequence[str]) -> str:
    """The name of what was asked for: a folder's own, without those above it; of several, all as given."""
    first = names[0].rstrip("/\\") or names[0]
    own = (
        last_part(first)
        if last_part(first) not in {"", "."} and ".." not in first
        else last_part(absolute(first))
    )
    return one_line(own or first if len(names) == 1 else ", ".join(names))


def errors_in_words(errors: int) -> tuple[str, str]:
    """The state of a file that was checked, and how grave it is."""
    return (counted(errors, "error"), "error") if errors else ("", "")


class FolderPage:
    """Takes files one by one, in their order.

    Args:
        name: of the folder, or of what was asked for.
        where: its path, if that is shown.
    """

    def __init__(self, name: str, columns: Sequence[Column] = REPORTED, *, where: str = "") -> None:
        self._name, self._where, self._columns = name, where, columns
        self._keys = [*(column.key for column in columns), "grave"]
        self._files: dict[str, list[Any]] = {key: [] for key in self._keys}
        self._rows = self._unread = 0

    def add(self, facts: Mapping[str, Any]) -> None:
        """Take a file: a value for each column, how grave its state is, and perhaps more (see above)."""
        for key in REFERENCES & facts.keys() - self._files.keys():
            self._files[key] = [None] * self._rows
        for key, column in self._files.items():
            column.append(facts.get(key) if key in REFERENCES else facts[key])
        self._rows += 1

    def report(self, relative: str, made: Report) -> None:
        """Take a report page that was made."""
        state, grave = errors_in_words(made.errors)
        self.add(
            {
                "file": plain(relative),
                "state": state,
                "grave": grave,
                "kind": made.kind,
                "size": made.size,
                "debug_bytes": made.debug_bytes,
                "release": made.release,
                "label": made.label,
                "findings": made.findings,
                "unread": "",
                "page": quote(page_of(relative), errors="surrogateescape"),
            }
        )

    def refuse(self, file: str, why: str) -> None:
        """Take a file that couldn't be read, and why."""
        self._unread += 1
        nothing = {column.key: "" if column.holds == "text" else None for column in self._columns}
        own = {"file": plain(file), "state": NOT_READ, "grave": "error", "unread": plain(why)}
        self.add({**nothing, **own})

    def facts(self, tables: Sequence[Mapping[str, Any]] = (), notes: Sequence[str] = ()) -> dict[str, Any]:
        """The data of the page.

        Args:
            tables: sums, each in a table.
            notes: sentences below the sums.
        """
        files = self._files
        words = {"size": "bytes", "debug_bytes": "bytes of debug info", "elements": "elements"}
        words["findings"] = "errors and warnings"
        summed = [
            key for key in words if files.get(key) and all(isinstance(one, int | None) for one in files[key])
        ]
        totals = [["files", self._rows - self._unread]]
        totals += [[words[key], sum(value or 0 for value in files[key])] for key in summed]
        ill = {IN_ERROR: files["grave"].count("error") - self._unread, IN_PART: files["state"].count(IN_PART)}
        ill[WITH_LEAKS] = sum(words not in {"", NONE} for words in files.get("leaks", ()))
        totals += [[what, number] for what, number in {**ill, NOT_READ: self._unread}.items() if number]
        folder = {
            "name": plain(self._name),
            "where": plain(self._where),
            "totals": totals,
            "columns": [list(column) for column in self._columns],
            "files": files,
            "tables": list(tables),
            "notes": list(notes),
        }
        return {"version": VERSION, "folder": folder, "left_out": []}

    def page(self, tables: Sequence[Mapping[str, Any]] = (), notes: Sequence[str] = ()) -> bytes:
        """The page; with very many files, only the first, but the sums of all. See :meth:`facts`."""
        facts = self.facts(tables, notes)
        folder = facts["folder"]
        data, rows = packed(facts), self._rows
        while len(data) > MOST_BYTES and rows:
            rows //= 2
            files = first_files(folder["files"], rows)
            out = counted(self._rows - len(files["file"]), "file")
            data = packed({**facts, "folder": {**folder, "files": files}, "left_out": [f"files: {out}"]})
        return document(data, summary_of(facts))


def first_files(files: Mapping[str, list[Any]], rows: int) -> dict[str, list[Any]]:
    """The first files, and of those that could not be read the first, wherever they are."""
    unread = [row for row, why in enumerate(files["unread"]) if why][: min(MOST_UNREAD, rows)]
    stay = sorted({*range(rows), *unread})
    number = {row: place for place, row in enumerate(stay)}
    less = {key: [column[row] for row in stay] for key, column in files.items()}
    if "first" in less:
        less["first"] = [None if row is None else number.get(row) for row in less["first"]]
    return less
