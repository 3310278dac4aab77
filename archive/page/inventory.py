"""The page of an inventory: sums by kind and release, and a table of all files, which a click sorts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.tables import Column
from archive.describe.totals import MOST_GROUPS, SAME, SUMS, largest, numbers, remarks
from archive.page.folder import FolderPage
from archive.page.units import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.describe.inventory import InventoryRow
    from archive.describe.totals import Sums, Totals

COLUMNS = (
    Column("file", "File"),
    Column("kind", "Kind"),
    Column("size", "Size", "bytes"),
    Column("elements", "Elements", "number"),
    Column("weight_bytes", "Weights", "bytes"),
    Column("code_bytes", "Code", "bytes"),
    Column("debug_bytes", "Debug information", "bytes"),
    Column("debug_share", "% debug", "number"),
    Column("release", "Release"),
    Column("release_by", "Known by"),
    Column("versions", "Versions"),
    Column("same_as", "Same as"),
    Column("leaks", "Leaks"),
    Column("findings", "Findings of verify"),
    Column("digest", "Digest"),
    Column("looked_at", "Looked at"),
    Column("unread", "Not read"),
)


class InventoryPage:
    """The form ``html`` of an inventory: nothing for each file, and the page at the end.

    Args:
        name: of the folder, or of what was asked for.
    """

    head = ""

    def __init__(self, name: str, totals: Totals) -> None:
        self._totals = totals
        self._page = FolderPage(name, COLUMNS)

    def lines(self, file: str, row: InventoryRow) -> Iterator[str]:
        """Take a row."""
        facts: dict[str, Any] = {column.key: getattr(row, column.key) for column in COLUMNS}
        facts |= {"file": plain(file), "kind": str(row.kind), "looked_at": "; ".join(row.looked_at)}
        facts["unread"] = "; ".join(row.unread)
        facts["debug_share"] = None if row.debug_share is None else round(100 * row.debug_share, 1)
        facts["same_as"] = f"{SAME[row.same_by]} {row.same_as}" if row.same_as else ""
        for name in ("versions", "leaks", "findings"):
            facts[name] = _words(getattr(row, name))
        self._page.add(
            {key: plain(value) if isinstance(value, str) else value for key, value in facts.items()}
        )
        yield from ()

    def refuse(self, why: str) -> None:
        """Take a file that couldn't be read, and why."""
        self._page.refuse(why)

    @property
    def tail(self) -> str:
        """The page."""
        totals = self._totals
        others = [[str(kind), count] for kind, count in sorted(totals.others.items())]
        tables = [
            _sums("By kind", "Kind", totals.by_kind),
            _sums("By release", "Release", totals.by_release),
        ]
        if others:
            headings = [["Kind", "text"], ["Files", "number"]]
            tables.append({"title": "Other files", "columns": headings, "rows": others})
        return self._page.page(tables=tables, notes=remarks(totals)).decode()


def _words(counts: Mapping[str, object] | None) -> str:
    if counts is None:
        return ""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _sums(title: str, of: str, sums: Mapping[str, Sums]) -> dict[str, Any]:
    headings = [[column.title.capitalize(), column.holds] for column in SUMS]
    rows = [[plain(name), *numbers(one)] for name, one in largest(sums, MOST_GROUPS)]
    return {"title": title, "columns": [[of, "text"], *headings], "rows": rows}
