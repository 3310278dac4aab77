"""What a page says before its script has run, and without one: its head, and rows of what counts most."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.amounts import human_amount
from archive.base.errors import counted
from archive.page.markup import FIGURE, UNBROKEN, badge, bullets, facts_list, folded, notice, table, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Facts = Mapping[str, Any]

MOST_ROWS = 100
"""Rows of a page without its script."""
MOST_KINDS = 3
"""Kinds of findings that are named."""
MOST_OPEN = 5
"""Notes that are shown at once."""
SCRIPT = "More of this page is drawn by a script of its own, which needs no network and does not run here."
SOURCE = {
    "full": "This page may hold source text and paths of those who built the model.",
    "basename": "This page may hold source text of the model; of paths, the file names alone.",
}


class Summary(NamedTuple):
    """What a page says without its script.

    Attributes:
        title: as text.
        head: HTML below it.
        rows: HTML that only a page without a script has.
    """

    title: str
    head: str = ""
    rows: str = ""


def summary_of(facts: Facts) -> Summary:
    """The summary of the data of any page."""
    if "failures" in facts:
        return _of_failures(facts["failures"])
    if "folder" in facts:
        return _of_folder(facts["folder"])
    return _of_file(facts["head"], facts)


def percent(part: int, whole: int) -> str:
    """A part in percent, as the page's script writes it; "" of nothing."""
    if not whole:
        return ""
    value = 100 * part / whole
    return "< 0.1 %" if 0 < value < 0.1 else f"{value:.1f} %"  # noqa: PLR2004 (the smallest that is shown)


# --- a report


def _of_file(head: Facts, facts: Facts) -> Summary:
    listed = [
        ("Kind", text_of(head["kind"])),
        ("Top module", text_of(head["top"])),
        ("Written by", _release(head)),
        ("Label", text_of(head.get("label", ""))),
        ("Platform", text_of(head["platform"])),
        ("Size", f'<span title="{head["size"]:,} bytes">{human_amount(head["size"])}</span>'),
        ("Before", text_of(head.get("base", ""))),
        ("Debug information", _share(head["debug_bytes"], head["size"])),
        ("Archive id", head["archive_id"] and f"<code>{text_of(head['archive_id'])}</code>"),
        ("verify", _verdict(head["verify"])),
        ("leaks", _leaks(head["leaks"], head["not_counted"])),
    ]
    return Summary(
        head["file"],
        facts_list(listed) + notice(SOURCE.get(head["source"], "")),
        _groups(facts.get("sizes")) + _findings(facts.get("findings")),
    )


def _release(head: Facts) -> str:
    """The releases that may have written the file, which open as the signs of them."""
    words = text_of(head["release"])
    named = words if not words or "pytorch" in words.casefold() else f"PyTorch {words}"
    return folded(named, bullets(head["evidence"])) if words and head["evidence"] else named


def _share(part: int | None, whole: int) -> str:
    if part is None:
        return ""
    width = 100 * part / whole if whole else 0
    bar = f'<svg class="meter" aria-hidden="true"><rect width="{width:.2f}%" height="100%"/></svg>'
    return f"{human_amount(part)} · {percent(part, whole)} {bar}"


def _verdict(found: Mapping[str, int] | None) -> str:
    if found is None:
        return ""
    words = [badge(severity, counted(number, severity)) for severity, number in found.items() if number]
    return _to_findings("verify", "".join(words)) if words else badge("well", "well")


def _leaks(kinds: Sequence[tuple[str, int]] | None, others: Sequence[tuple[str, int]]) -> str:
    """What counts, and what does not, in the words of ``leaks``; both are among the findings."""
    if kinds is None:
        return ""
    counts = _to_findings("leaks", _numbered(kinds)) if kinds else badge("well", "nothing found")
    return counts + (f" · not counted: {_to_findings('leaks', _numbered(others))}" if others else "")


def _to_findings(command: str, words: str) -> str:
    return f'<a href="#section=findings&amp;finding={command}">{words}</a>'


def _numbered(kinds: Sequence[tuple[str, int]]) -> str:
    words = ", ".join(f"{text_of(kind)} {number:,}" for kind, number in kinds[:MOST_KINDS])
    more = len(kinds) - MOST_KINDS
    return f"{words} and {counted(more, 'further kind')}" if more > 0 else words


def _groups(sizes: Facts | None) -> str:
    """The first level of the tree of sizes."""
    if sizes is None:
        return ""
    totals = [*sizes["stored"]]
    for row in range(len(totals) - 1, 0, -1):
        totals[sizes["parent"][row]] += totals[row]
    groups = [row for row, parent in enumerate(sizes["parent"]) if not parent]
    rows = [
        (text_of(sizes["name"][row]), f"{totals[row]:,}", percent(totals[row], totals[0]))
        for row in sorted(groups, key=totals.__getitem__, reverse=True)
    ]
    return table(("Part", "Stored bytes", "Share"), rows, ("", FIGURE, FIGURE))


def _findings(findings: Facts | None) -> str:
    """Errors and warnings."""
    names = ("from", "severity", "what", "record", "message")
    rows = [] if findings is None else zip(*(map(text_of, findings[name]) for name in names), strict=True)
    grave = [*islice((row for row in rows if row[1] != "note"), MOST_ROWS)]
    kinds = (UNBROKEN, UNBROKEN, "", "", "")
    return table([name.capitalize() for name in names], grave, kinds) if grave else ""


# --- a folder


def _of_folder(folder: Facts) -> Summary:
    where = folder.get("where", "")
    listed = [("Folder", text_of(where) if where != folder["name"] else "")]
    for what, number in folder["totals"]:
        words = human_amount(number) if "bytes" in what else f"{number:,}"
        place = PLACES.get(what) if number else None
        listed.append((text_of(what.capitalize()), f'<a href="{place}">{words}</a>' if place else words))
    files, kept = folder["files"], ("file", "state", "kind", "unread")
    rows = zip(*(map(text_of, files[name]) for name in kept), strict=True)
    notes = folder.get("notes")
    return Summary(
        folder["name"],
        facts_list(listed) + (bullets(notes) if notes else ""),
        table(("File", "State", "Kind", "Not read"), islice(rows, MOST_ROWS)),
    )


NOT_READ, IN_ERROR, IN_PART = "not read", "with errors", "not all read"
PLACES = {
    NOT_READ: "#section=refused",
    IN_ERROR: "#section=files&amp;find=error",
    IN_PART: f"#section=files&amp;find={IN_PART.replace(' ', '+')}",
}
"""What a list of files counts of those that are not well, and where they are listed."""


# --- failures


def _of_failures(failures: Facts) -> Summary:
    causes, unexplained, notes = failures["causes"], failures["unexplained"], failures["notes"]
    models = failures["models"]
    listed = [
        ("Explained", counted(sum(causes["count"]), "failure")),
        ("Causes", f"{len(causes['count']):,}"),
        ("Not explained", badge("warning", counted(unexplained, "failure")) if unexplained else "none"),
        ("Models with failures", text_of(models[0]) if len(models) == 1 else f"{len(models):,}"),
    ]
    several = folded(counted(len(notes), "note"), bullets(notes), is_open=len(notes) <= MOST_OPEN)
    head = [
        facts_list(listed),
        notice(text_of(failures["caveat"])),
        notice(SOURCE.get(failures["source"], "")),
        f'<div class="notice">{several}</div>' if notes else "",
    ]
    lines = zip(causes["file"], causes["line"], strict=True)
    places = (f"{file}:{line}" if file else "" for file, line in lines)
    named = (" or ".join(models[number] for number in numbers) for numbers in causes["models"])
    rows = zip(
        map("{:,}".format, causes["count"]),
        *(map(text_of, column) for column in (causes["proven"], causes["message"], places, named)),
        strict=True,
    )
    titles = ("Failures", "Proven", "Message", "Place", "Models")
    return Summary(
        f"Failures in {failures['log']}",
        "".join(head),
        table(titles, islice(rows, MOST_ROWS), (FIGURE, "", "", "", "")),
    )
