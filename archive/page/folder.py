"""The page that lists the pages of several files, with their sums.

::

    {"version": 1,
     "folder": {"name": text, "totals": [[what, number]…], "files": {…}, "refused": [[why, count]…]}}

``files``, a row for each: ``file``, ``kind``, ``size``, ``debug_bytes``, ``release``, ``findings``, and
``page``, the page's address as seen from this one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from archive.page.bounding import MOST_BYTES
from archive.page.document import document, packed
from archive.page.facts import VERSION
from archive.page.units import plain

if TYPE_CHECKING:
    from archive.page.report import Report

ENDING = ".html"
INDEX = f"index{ENDING}"
MOST_CAUSES = 1_000
"""Causes of refusals that are listed; files of others are counted together."""
COLUMNS = ("file", "kind", "size", "debug_bytes", "release", "findings", "page")


def page_of(relative: str) -> str:
    """The page of a file, as a path below the folder of pages."""
    return relative + ENDING


class FolderPage:
    """Takes the pages of files one by one, in their order.

    Args:
        name: of the folder, or of what was asked for.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: list[tuple[Any, ...]] = []
        self._refused = Counter[str]()

    def add(self, relative: str, made: Report) -> None:
        """Take a page that was made."""
        sizes = made.size, made.debug_bytes
        address = quote(page_of(relative), errors="surrogateescape")
        self._rows.append((plain(relative), made.kind, *sizes, made.release, made.findings, address))

    def refuse(self, why: str) -> None:
        """Take a file that has no page, and why."""
        self._refused[why] += 1

    def facts(self) -> dict[str, Any]:
        """The data of the page."""
        columns = [list(column) for column in zip(*self._rows, strict=True)] or [[] for _ in COLUMNS]
        files = dict(zip(COLUMNS, columns, strict=True))
        totals = [
            ["files", len(self._rows)],
            ["bytes", sum(files["size"])],
            ["bytes of debug info", sum(files["debug_bytes"])],
            ["findings", sum(files["findings"])],
        ]
        told = self._refused.most_common(MOST_CAUSES)
        more = self._refused.total() - sum(count for _, count in told)
        told += [("other causes", more)] if more else []
        refused = [[plain(why), count] for why, count in told]
        folder = {"name": plain(self._name), "totals": totals, "files": files, "refused": refused}
        return {"version": VERSION, "folder": folder}

    def page(self) -> bytes:
        """The page; of very many files, the first ones, with the sums of all."""
        facts = self.facts()
        data, rows = packed(facts), len(self._rows)
        while len(data) > MOST_BYTES and rows:
            rows //= 2
            files = {name: column[:rows] for name, column in facts["folder"]["files"].items()}
            told = [f"left out of this page: {len(self._rows) - rows:,} files", len(self._rows) - rows]
            refused = [*facts["folder"]["refused"], told]
            data = packed({**facts, "folder": {**facts["folder"], "files": files, "refused": refused}})
        return document(data, f"{self._name}: debug-archive")
