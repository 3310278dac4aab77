"""Data that are too large for a page → less of them: detail goes, and is counted.

A page has at most ``MOST_BYTES`` of packed data. Tables lose their last rows; sources the last records, and
the files that only those use; sizes the smallest nodes, whose bytes go to their parents, so that all still
add up. Sections are cut one by one, the least important first.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.page.document import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_BYTES = 8 << 20
"""Bytes of packed data, at most."""
MARGIN, LEAST = 0.9, 0.01
"""Sections are cut to a little less than would fit; and wholly, if next to nothing would be left."""

Facts = dict[str, Any]


def fitted(facts: Facts, most: int = MOST_BYTES) -> tuple[Facts, bytes]:
    """Data that fit, and the same packed.

    Args:
        facts: as :func:`archive.page.facts.page_facts` gives them; they stay as they are.
    """
    data, aim = packed(facts), most
    less = facts
    while len(data) > most:
        less = _cut(facts, aim)
        data, aim = packed(less), int(aim * MARGIN)
        if aim < 1:
            break
    return less, data


def _cut(facts: Facts, most: int) -> Facts:
    """Data whose sections, packed one by one, take no more bytes, if cutting can achieve that."""
    less, left_out = dict(facts), list(facts["left_out"])
    sizes = {name: len(packed(section)) for name, section in facts.items()}
    for name, cut in CUTS.items():
        if sum(sizes.values()) <= most:
            break
        if name not in facts:
            continue
        room, share = most - sum(sizes.values()) + sizes[name], 1.0
        what_is_left_out = ""
        while sizes[name] > room and share:
            share = share * MARGIN * max(room, 0) / sizes[name]
            share = share if share > LEAST else 0.0
            less[name], what_is_left_out = cut(facts[name], share)
            sizes[name] = len(packed(less[name]))
        left_out += [what_is_left_out] if what_is_left_out else []
    return {**_relinked(less), "left_out": left_out}


def _relinked(facts: Facts) -> Facts:
    """Handles and tables with links only to what is left of the sources."""
    sources = facts.get("sources")
    if sources is None:
        return facts
    has_text = [bool(record["text"]) for record in sources["records"]]
    has_lines = [bool(file["text"]) for file in sources["files"]]
    if all(has_text) and all(has_lines):
        return facts
    less = dict(facts)
    if "handles" in facts:
        frames = [
            [frame if frame[0] >= 0 and has_text[frame[0]] else [-1, -1, frame[2]] for frame in stack]
            for stack in facts["handles"]["frames"]
        ]
        less["handles"] = {**facts["handles"], "frames": frames}
    if "values" in facts:
        links = [_linked(link, has_lines, has_text) for link in facts["values"]["links"]]
        less["values"] = {**facts["values"], "links": links}
    if "tables" in facts:
        less["tables"] = [
            {**table, "links": [_linked(link, has_lines, has_text) for link in table["links"]]}
            for table in facts["tables"]
        ]
    return less


def _linked(link: list[int] | None, has_lines: Sequence[bool], has_text: Sequence[bool]) -> list[int] | None:
    """What is left of a table's link: its place in a record, if that has text, or else in a file."""
    if not link:
        return None
    file, at, *place = link
    left = [file, at] if file >= 0 and has_lines[file] else []
    if place and has_text[place[0]]:
        return [*(left or [-1, 0]), *place]
    return left or None


def _cut_columns(name: str, columns: Facts, share: float) -> tuple[Facts, str]:
    rows = len(next(iter(columns.values())))
    left = int(rows * share)
    less = {key: column[:left] for key, column in columns.items()}
    return less, f"{name}: {rows - left:,} of {rows:,} rows"


def _cut_tables(tables: list[Facts], share: float) -> tuple[list[Facts], str]:
    less, out, rows = [], 0, 0
    for table in tables:
        count = len(table["links"])
        left = int(count * share)
        columns = [column[:left] for column in table["rows"]]
        less.append({**table, "rows": columns, "links": table["links"][:left]})
        rows, out = rows + count, out + count - left
    return less, f"tables: {out:,} of {rows:,} rows"


def _cut_sources(sources: Facts, share: float) -> tuple[Facts, str]:
    """The first records, and their files; the others are there without text and rows."""
    records = sources["records"]
    left = int(len(records) * share)
    used = {file for record in records[:left] for file in record["file"]}
    if not records:
        used = set(range(int(len(sources["files"]) * share)))
    empty: Facts = {"text": "", "at": [], "file": [], "from": [], "length": []}
    less = {
        "files": [
            file if number in used else {"name": file["name"], "text": "", "lines": []}
            for number, file in enumerate(sources["files"])
        ],
        "records": [
            record if number < left else {"name": record["name"], **empty}
            for number, record in enumerate(records)
        ],
    }
    gone = len(sources["files"]) - len(used - {-1})
    return less, f"sources: {len(records) - left:,} of {len(records):,} records, {gone:,} files"


def _cut_changes(changes: list[Facts], share: float) -> tuple[list[Facts], str]:
    left = int(len(changes) * share)
    return changes[:left], f"changes of source: {len(changes) - left:,} of {len(changes):,} files"


def _cut_sizes(sizes: Facts, share: float) -> tuple[Facts, str]:
    """The largest nodes; a smaller one's bytes and elements are its parent's own."""
    rows = len(sizes["name"])
    left = max(int(rows * share), 1)
    parent = np.array(sizes["parent"])
    whole = np.array(sizes["stored"])
    if "old" in sizes:
        whole = np.maximum(whole, np.array(sizes["old"]))
    for row in range(rows - 1, 0, -1):
        whole[parent[row]] += whole[row]
    whole[0] = whole.max() + 1
    stays = np.zeros(rows, np.bool_)
    stays[np.lexsort((np.arange(rows), -whole))[:left]] = True  # parents are before their parts
    nearest = np.arange(rows)
    for row in range(1, rows):
        if not (stays[row] and stays[parent[row]]):
            stays[row] = False
            nearest[row] = nearest[parent[row]]
    number = np.cumsum(stays) - 1
    less = {
        key: [value for value, stay in zip(column, stays.tolist(), strict=True) if stay]
        for key, column in sizes.items()
        if key != "kinds"
    }
    less["parent"] = [-1, *number[parent[stays][1:]].tolist()]
    for key in ("stored", "inflated", "elements", "old"):
        if key in sizes:
            sums = np.zeros(int(number[-1]) + 1, np.int64)
            np.add.at(sums, number[nearest], np.array(sizes[key]))
            less[key] = sums.tolist()
    less["kinds"] = sizes["kinds"]
    gone = rows - len(less["name"])
    return less, f"sizes: {gone:,} of {rows:,} nodes, the smallest, are part of what holds them"


CUTS: dict[str, Callable[[Any, float], tuple[Any, str]]] = {
    "tables": _cut_tables,
    "handles": partial(_cut_columns, "handles"),
    "findings": partial(_cut_columns, "findings"),
    "changes": _cut_changes,
    "sources": _cut_sources,
    "modules": partial(_cut_columns, "modules"),
    "sizes": _cut_sizes,
}
"""How each section is cut, in this order."""
