"""Facts → what notebooks show of them: small tables of HTML, without scripts, links, classes and colours.

So a table has the colours of the notebook, dark or light. All text is a stranger's: ``& < > " '`` get HTML's
references, and characters that hide, move or turn text get the escapes that a terminal gets. Rows and cells
are bounded. In place of what cannot be read of a broken file, a line says why.
"""

from __future__ import annotations

import html
from functools import partial, wraps
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, counted, one_line
from archive.describe.sizes.account import View
from archive.reader.recognition import kind_in
from archive.render.diff import SIGNS, TITLES, verdict
from archive.render.fitted_table import TOTAL, FittedTable, text_of
from archive.render.leaks import leaks_line, leaks_table
from archive.render.profile import micros
from archive.render.sizes import sizes_text
from archive.render.symbolicate import symbolication_facts
from archive.render.values import observed_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from archive.backend.values.running import Run
    from archive.base.tables import Holds
    from archive.compare.changes import Diff
    from archive.debuginfo.profiles.profile import Profile
    from archive.debuginfo.profiles.timeline import ProfileRow
    from archive.debuginfo.symbolicate import Symbolication
    from archive.describe.sizes.account import Account
    from archive.privacy.leaks.findings import Leaks
    from archive.reader.archive import Archive
    from archive.render.fitted_table import Printed

ROWS = 20
"""Rows of a table; the others are counted in one more."""
LONGEST = 200
"""Characters of a cell or a line."""
EXAMPLES = 2
"""Texts of a kind of leak."""
CELL = "text-align:{};vertical-align:top;padding:0 .8em"
ALIGNED: dict[Holds, str] = {
    "name": "left",
    "place": "left",
    "code": "left",
    "text": "left",
    "number": "right",
    "bytes": "right",
}


def _shown(parts: Callable[..., Printed]) -> Callable[..., str]:
    """The HTML of lines and tables; of an error, where they cannot be made."""

    @wraps(parts)
    def shown(facts: object) -> str:
        try:
            made = [*bounded(parts)(facts)]
        except ArchiveError as error:
            made = [str(error)]
        return "".join(
            f"<div>{_text(part)}</div>" if isinstance(part, str) else _table(part)
            for part in made
            if part != ""
        )

    return shown


@_shown
def of_archive(archive: Archive) -> Printed:
    """The file, and its largest records; nothing in them is read."""
    try:
        whole = f"{archive.file}: {archive.size:,} bytes, {archive.recognised.what}"
    except ValueError:  # its memory is released
        return [f"{archive.file}: closed"]
    kind = partial(kind_in, archive.recognised.kind)
    records = sorted(archive.records.items(), key=lambda item: -item[1].stored_size or -item[1].size)
    table = FittedTable([("record", "name"), ("kind", "text"), ("stored", "number"), ("inflated", "number")])
    for name, record in records:
        table.add(name, kind(name), record.stored_size, record.size)
    return [f"{whole}, {counted(len(records), 'record')}", table]


@_shown
def of_account(account: Account) -> Printed:
    """Where the bytes of a file go, by kind."""
    table = sizes_text(account.size, account.by(View.KIND), View.KIND, ROWS - 2)
    share = f"{account.debug_bytes / account.size:.1%}" if account.size else "none"
    return [f"{account.file}: {account.size:,} bytes, {share} of them debug info", table]


@_shown
def of_symbolication(symbolication: Symbolication) -> Printed:
    """The frames of the traceback, the innermost last."""
    if symbolication.missing:
        return [str(symbolication)]
    frames = symbolication_facts(symbolication)["frames"]
    left = max(len(frames) - ROWS, 0)
    table = FittedTable([("file", "name"), ("line", "number"), ("function", "name"), ("source", "name")])
    if left:
        table.add(f"[{left:,} outer frames]", "", "", "")
    for frame in frames[left:]:
        line = "" if frame["line"] is None else str(frame["line"])
        table.add(
            frame["file"] or "", line, frame["function"] or "", " ".join((frame["source"] or "").split())
        )
    return [symbolication.module_hierarchy, table]


@_shown
def of_profile(profile: Profile) -> Printed:
    """Where a run spent its time, by its first two views: the modules and the lines, if these are known."""
    whole = f"{counted(len(profile.events), 'operation')}, {micros(profile.total_ns)}"
    return [whole, *(_times(view, profile.rows_by(view)) for view in profile.views[:2])]


@_shown
def of_run(run: Run) -> Printed:
    """What each operation of a run computed."""
    return observed_text(run.observed, "operation", ROWS)


@_shown
def of_diff(diff: Diff) -> Printed:
    """What differs, the model first, and what may be concluded."""
    table = FittedTable(
        [("level", "text"), ("", "text"), ("what", "text"), ("name", "name"), ("difference", "name")]
    )
    for change in diff.changes:
        table.add(TITLES[change.level], SIGNS[change.status], change.what, change.name, change.in_words)
    head = [f"{diff.old}: {diff.old_kind}", f"{diff.new}: {diff.new_kind}"]
    return [*head, *([table] if diff.changes else []), *verdict(diff).split("\n")]


@_shown
def of_leaks(leaks: Leaks) -> Printed:
    """What a file gives away, with some texts of each kind."""
    head = f"{leaks.file}: {leaks.kind}, {leaks_line(leaks.findings)}"
    return [
        head,
        *([leaks_table(leaks.findings, EXAMPLES)] if leaks.findings else []),
        *leaks.problems[:ROWS],
    ]


def _times(view: str, rows: Sequence[ProfileRow]) -> FittedTable:
    """The rows of a profile, those with most time first."""
    table = FittedTable(
        [(view, "name"), ("", "name"), ("self", "number"), ("share", "number"), ("calls", "number")]
    )
    for row in sorted(rows, key=lambda row: -row.self_ns):
        table.add(row.name, row.text, micros(row.self_ns), f"{row.share:.1%}", row.calls)
    return table


def _table(table: FittedTable) -> str:
    """A table as HTML: its first rows, the number of the others, and the total, if it has one."""
    rows = [cells for cells, _ in table.rows]
    total = rows[-1:] if rows and rows[-1][0] == TOTAL else []
    rest = rows[: len(rows) - len(total)]
    if len(rest) > ROWS + 1:
        rest = [*rest[:ROWS], [f"[{len(rest) - ROWS:,} more]", *[""] * (len(table.columns) - 1)]]
    holds = [holds for _, holds in table.columns]
    heads = "".join(_cell("th", heading, kind) for (heading, kind) in table.columns)
    lines = "".join(f"<tr>{_cells(row, holds)}</tr>" for row in [*rest, *total])
    return (
        '<table style="border-collapse:collapse">'
        f'<thead><tr style="border-bottom:1px solid">{heads}</tr></thead><tbody>{lines}</tbody></table>'
    )


def _cells(row: Iterable[str | int | None], columns: Iterable[Holds]) -> str:
    texts = (cell if isinstance(cell, str) else text_of(cell) for cell in row)
    return "".join(_cell("td", text, holds) for text, holds in zip(texts, columns, strict=True))


def _cell(tag: str, text: str, holds: Holds) -> str:
    return f'<{tag} style="{CELL.format(ALIGNED[holds])}">{_text(text)}</{tag}>'


def _text(text: str) -> str:
    """A stranger's text on one line, no longer than is read."""
    cut = one_line(text[:LONGEST])
    return html.escape(cut if len(text) <= LONGEST else f"{cut}…")
