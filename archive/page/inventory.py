"""The page of an inventory: sums by kind and release, and a table of all files, which a click sorts."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from archive.base.tables import Column
from archive.describe.totals import MOST_GROUPS, SUMS, largest, numbers, remarks, same_words
from archive.page.folder import FILE, NONE, STATE, UNREAD, FolderPage, errors_in_words, title_of
from archive.page.summary import IN_PART
from archive.page.units import plain
from archive.reader.recognition.kinds import PARSED_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.describe.inventory import InventoryRow
    from archive.describe.totals import Sums, Totals

COLUMNS = (
    FILE,
    STATE,
    Column("kind", "Kind"),
    Column("size", "Size", "bytes"),
    Column("elements", "Elements", "number"),
    Column("weight_bytes", "Weights", "bytes"),
    Column("code_bytes", "Code", "bytes"),
    Column("debug_bytes", "Debug info", "bytes"),
    Column("debug_share", "% debug", "number"),
    Column("release", "Release"),
    Column("label", "Label"),
    Column("release_by", "Known by"),
    Column("versions", "Versions"),
    Column("same_as", "Same as"),
    Column("leaks", "Leaks"),
    Column("findings", "Findings of verify"),
    Column("texts", "What verify found"),
    Column("imports", "Imports of pickles"),
    Column("digest", "Digest"),
    Column("looked_at", "Looked at"),
    UNREAD,
)
NOT_CHECKED = "what is in the files was not checked: --verify does that"

WELL, NOTHING_FOUND = "verify: well", "verify: nothing found"
"""The states of sound files; the second of one that ``verify`` does not look into."""


class InventoryPage:
    """The form ``html`` of an inventory: nothing for each file, and the page at the end.

    Args:
        names: of the folders and files that were asked for, as given.
        verified: whether files were checked.
    """

    head = ""

    def __init__(self, names: Sequence[str], totals: Totals, *, verified: bool = False) -> None:
        self._totals, self._verified = totals, verified
        steps = zip(*(name.rstrip("/").split("/") for name in names), strict=False)
        shared = [one[0] for one in takewhile(lambda one: len(set(one)) == 1, steps)]
        self._folder = f"{'/'.join(shared)}/" if shared else ""
        self._rows: dict[str, int] = {}
        self._page = FolderPage(title_of(names), COLUMNS, where=", ".join(names))

    def lines(self, file: str, row: InventoryRow) -> Iterator[str]:
        """Take a row."""
        same_as = same_words(row, self._relative(row.same_as))
        state, grave = _state(row, same_as)
        given: dict[str, Any] = {"file": self._relative(file), "state": state, "grave": grave}
        facts = given | {
            column.key: getattr(row, column.key) for column in COLUMNS if column.key not in given
        }
        facts |= {"kind": str(row.kind), "looked_at": "; ".join(row.looked_at)}
        facts["unread"] = "; ".join(row.unread)
        facts["texts"] = "; ".join(row.texts)
        facts["imports"] = "" if row.imports is None else ", ".join(row.imports) or "none"
        facts["debug_share"] = None if row.debug_share is None else round(100 * row.debug_share, 1)
        if same_as:
            facts |= {"same_as": same_as, "first": self._rows.get(row.same_as)}
        facts["versions"] = _words(row.versions or None)
        facts |= {"leaks": _words(row.leaks), "findings": _words(row.findings)}
        self._add(
            file, {key: plain(value) if isinstance(value, str) else value for key, value in facts.items()}
        )
        yield from ()

    def refuse(self, file: str, why: str) -> None:
        """Take a file that couldn't be read, and why."""
        self._rows[file] = len(self._rows)
        self._page.refuse(self._relative(file), why)

    def _add(self, file: str, facts: Mapping[str, Any]) -> None:
        self._rows[file] = len(self._rows)
        self._page.add(facts)

    def _relative(self, file: str) -> str:
        """A file as the page names it: below the folder that has all that was asked for."""
        return file.removeprefix(self._folder) or file

    @property
    def tail(self) -> str:
        """The page."""
        totals = self._totals
        others = [[str(kind), count] for kind, count in sorted(totals.others.items())]
        tables = [
            _sums("By kind", "Kind", totals.by_kind),
            _sums("By writer", "Written by", totals.by_release),
        ]
        if others:
            headings = [["Kind", "text"], ["Files", "number"]]
            tables.append({"title": "Other files", "columns": headings, "rows": others})
        notes = [*remarks(totals), *([] if self._verified else [NOT_CHECKED])]
        return self._page.page(tables=tables, notes=notes).decode()


def _state(row: InventoryRow, same_as: str) -> tuple[str, str]:
    """What is to be known first of a file, and how grave that is: the gravest of what there is."""
    if errors := (row.findings or {}).get("error", 0):
        return errors_in_words(errors)
    if row.problems:
        return IN_PART, "warning"
    if same_as:
        return same_as, "note"
    if row.findings is None:
        return ("read for its digest" if row.digest else "not checked", "")
    return (WELL if row.kind in PARSED_KINDS else NOTHING_FOUND, "well")


def _words(counts: Mapping[str, object] | None) -> str:
    if counts is None:
        return ""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or NONE


def _sums(title: str, of: str, sums: Mapping[str, Sums]) -> dict[str, Any]:
    headings = [[column.title.capitalize(), column.holds] for column in SUMS]
    rows = [[plain(name), *numbers(one)] for name, one in largest(sums, MOST_GROUPS)]
    return {"title": title, "columns": [[of, "text"], *headings], "rows": rows}
