"""Rows as a page: what ``--format html`` prints, one HTML file without a script that needs nothing else.

It has the rows of ``--format csv`` in their order, under the same headings, and the files that could not be
read below them. A page is written a file at a time; nothing of it is kept. (:mod:`archive.render.html` has
the small tables that notebooks show.)
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from archive.base.errors import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.render.rows import FactsTable

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""A page may have its style, and nothing else: whatever a name would smuggle in doesn't run."""
STYLE = """\
:root{color-scheme:light dark}
body{margin:1.5rem;font:1rem/1.45 system-ui,sans-serif}
h1{font-size:1.3rem;margin:0 0 1rem}
h1,li,footer{overflow-wrap:anywhere}
.rows{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem;text-align:left;vertical-align:top;border-bottom:1px solid #8885}
thead th{border-bottom:2px solid #888;white-space:nowrap}
td{max-width:60ch;overflow-wrap:break-word;white-space:pre-wrap}
td.n,th.n{text-align:right;white-space:nowrap}
tbody tr:hover{background:#8882}
footer{margin-top:1rem;color:#767676}
@media (max-width:40rem){body{margin:.7rem}th,td{padding:.2rem .4rem}td{max-width:32ch}}
@media print{.rows{overflow:visible}thead{display:table-header-group}}
"""


class HtmlRows:
    """The rows of a command as a page.

    Args:
        table: makes them.
        title: of the page.
        writer: the program and its version.
    """

    def __init__(self, table: FactsTable, title: str, writer: str) -> None:
        self._table, self._title, self._writer = table, html.escape(one_line(title)), html.escape(writer)
        self._rows, self._files, self._unread = 0, 0, list[str]()

    @property
    def head(self) -> str:
        """The page up to its first row."""
        headings = "".join(
            f'<th scope="col">{html.escape(_heading(column))}</th>' for column in self._table.columns
        )
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{self._title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>{self._title}</h1>\n"
            f'<div class="rows" role="region" aria-label="{self._title}" tabindex="0">\n'
            f"<table>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n"
        )

    def lines(self, file: str, facts: object) -> Iterator[str]:
        """The rows of a file."""
        self._files += 1
        for row in self._table.rows(file, facts):
            self._rows += 1
            yield _row(row)

    def unread(self, file: str, why: str) -> str:  # noqa: ARG002 (the reason names it)
        """Note a file that could not be read: it has no row, and the page says so at its end."""
        self._unread.append(f"<li>{html.escape(one_line(why))}</li>\n")
        return ""

    @property
    def tail(self) -> str:
        """The page after its last row."""
        unread = ""
        if self._unread:
            unread = f"<h2>Not read</h2>\n<ul>\n{''.join(self._unread)}</ul>\n"
        seen = f"{counted(self._rows, 'row')} of {counted(self._files, 'file')}"
        return (
            f"</tbody>\n</table>\n</div>\n{unread}</main>\n"
            f"<footer>{seen}; {self._writer}</footer>\n</body>\n</html>\n"
        )


def _heading(column: str) -> str:
    return column.replace("_", " ")


def _row(cells: Sequence[str | float]) -> str:
    return f"<tr>{''.join(map(_cell, cells))}</tr>\n"


def _cell(cell: str | float) -> str:
    """A cell; whole numbers are easier to read with commas, and keep their value as they are."""
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    shown = f"{cell:,}" if isinstance(cell, int) else repr(cell)
    return f'<td class="n"><data value="{cell!r}">{shown}</data></td>'
