"""The page that lists several files with their sums: of an inventory, or of report pages.

::

    {"version": 1,
     "folder": {"name": text, "totals": [[what, number]…], "columns": [[key, title, as]…], "files": {…},
                "tables": [{"title", "columns": [[title, as]…], "rows": [[cell…]…]}…], "notes": [text…],
                "refused": [[why, count]…]}}

``files`` has a list for each of ``columns``, a value for each file, null where it is not known: ``file``,
``kind``, ``size``, ``debug_bytes``, ``release``, and what else the page is about. ``page``, which isn't a
column, is the address of a file's page relative to this one. ``as`` is ``text``, ``number`` or ``bytes``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from archive.base.tables import Column
from archive.page.bounding import MOST_BYTES
from archive.page.document import document, packed
from archive.page.facts import VERSION
from archive.page.units import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.page.report import Report

ENDING = ".html"
INDEX = f"index{ENDING}"
MOST_CAUSES = 1_000
"""Causes of refusals that are listed; files with others are counted together."""


REPORTED = (
    Column("file", "File"),
    Column("kind", "Kind"),
    Column("size", "Size", "bytes"),
    Column("debug_bytes", "Debug information", "bytes"),
    Column("release", "Release"),
    Column("findings", "Errors, warnings", "number"),
)
"""What the list of report pages says about each."""


def page_of(relative: str) -> str:
    """The page of a file, as a path below the folder of pages."""
    return relative + ENDING


class FolderPage:
    """Takes files one by one, in their order.

    Args:
        name: of the folder, or of what was asked for.
    """

    def __init__(self, name: str, columns: Sequence[Column] = REPORTED) -> None:
        self._name, self._columns = name, columns
        self._files: dict[str, list[Any]] = {column.key: [] for column in columns}
        self._refused = Counter[str]()

    def add(self, facts: Mapping[str, Any]) -> None:
        """Take a file: a value for each column, and perhaps its page."""
        for key, value in facts.items():
            self._files.setdefault(key, []).append(value)

    def report(self, relative: str, made: Report) -> None:
        """Take a report page that was made."""
        self.add(
            {
                "file": plain(relative),
                "kind": made.kind,
                "size": made.size,
                "debug_bytes": made.debug_bytes,
                "release": made.release,
                "findings": made.findings,
                "page": quote(page_of(relative), errors="surrogateescape"),
            }
        )

    def refuse(self, why: str) -> None:
        """Take a file that couldn't be read, and why."""
        self._refused[why] += 1

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
        totals = [["files", len(files["file"])]]
        totals += [[words[key], sum(value or 0 for value in files[key])] for key in summed]
        causes = self._refused.most_common(MOST_CAUSES)
        more = self._refused.total() - sum(count for _, count in causes)
        causes += [("other causes", more)] if more else []
        folder = {
            "name": plain(self._name),
            "totals": totals,
            "columns": [list(column) for column in self._columns],
            "files": files,
            "tables": list(tables),
            "notes": list(notes),
            "refused": [[plain(why), count] for why, count in causes],
        }
        return {"version": VERSION, "folder": folder}

    def page(self, tables: Sequence[Mapping[str, Any]] = (), notes: Sequence[str] = ()) -> bytes:
        """The page; with very many files, only the first, but the sums of all. See :meth:`facts`."""
        facts = self.facts(tables, notes)
        folder = facts["folder"]
        data, all_rows = packed(facts), len(folder["files"]["file"])
        rows = all_rows
        while len(data) > MOST_BYTES and rows:
            rows //= 2
            files = {name: column[:rows] for name, column in folder["files"].items()}
            cut = [f"left out of this page: {all_rows - rows:,} files", all_rows - rows]
            refused = [*folder["refused"], cut]
            data = packed({**facts, "folder": {**folder, "files": files, "refused": refused}})
        return document(data, f"{self._name}: debug-archive")
