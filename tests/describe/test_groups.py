"""The kind of a record, and what its bytes count as, are the same wherever they are shown."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.describe.inventory import inventoried
from archive.describe.sizes.account import GROUP_OF_LABEL, STRUCTURE
from archive.formats.record_kinds import (
    DEBUG_KINDS,
    MAPS_TO_SOURCE,
    Group,
    MetadataKind,
    RecordKind,
    SpareKind,
)
from archive.page.head import head
from archive.page.shown import Shown
from archive.page.sizes import SizeTree
from archive.reader.recognition import OPENED_KINDS, FileKind, kind_in, listed_kind
from archive.render.html import of_archive
from tests.support.commands import called, told
from tests.support.corpus import FIXTURES
from tests.support.documents import files_of
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("canaries", "companions", "compiled", "effects", "executorch", "exported", "frozen", "kinds")
FILES = [
    path
    for folder in (*FOLDERS, "oracles", "releases/torch-2.13.0", "saved", "zoo")
    for path in sorted((FIXTURES / folder).rglob("*"))
    if path.is_file() and listed_kind(str(path), mapped=True) in OPENED_KINDS | {FileKind.COMPANION}
]
OF_EACH_KIND = sampled(FILES, 12, [lambda path: listed_kind(str(path), mapped=True)])
ROW = re.compile(r"<tr><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>")
"""The first two cells of a row."""
COUNTED = {"weight_bytes": Group.WEIGHTS, "code_bytes": Group.CODE, "debug_bytes": Group.DEBUG}


@pytest.mark.parametrize("path", OF_EACH_KIND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_sums_of_groups_are_the_same_in_inspect_inventory_sizes_and_page(path: Path) -> None:
    try:
        account = archive.sizes(path)
    except ArchiveError:
        pytest.skip("none is made of what cannot be opened")
    sums = Counter[str]()
    for piece in account.pieces:
        sums[account.group_of(piece)] += piece.stored
    row = inventoried(path)
    assert row.debug_bytes is not None
    assert told("inspect", path)["debug_bytes"] == row.debug_bytes
    (inventory_row,) = files_of(called("inspect", path, "--inventory", "--json").stdout)
    assert inventory_row["debug_bytes"] == row.debug_bytes
    with archive.open(path) as opened:
        assert head(opened, account, "m", Shown.FULL)["debug_bytes"] == row.debug_bytes
    known = {name: getattr(row, name) for name in COUNTED if getattr(row, name) is not None}
    assert known == {name: sums[COUNTED[name]] for name in known}
    assert account.debug_bytes == sums[Group.DEBUG]
    assert of_page(SizeTree("m", account)) == {str(group): size for group, size in sums.items()}


def of_page(tree: SizeTree) -> dict[str, int]:
    """The bytes below each node of the first level."""
    facts = tree.facts()
    sums = list(facts["stored"])
    for row, parent in reversed([*enumerate(facts["parent"])][1:]):
        sums[parent] += sums[row]
    return {name: sums[row] for row, name in enumerate(facts["name"]) if facts["parent"][row] == 0}


@pytest.mark.parametrize("path", OF_EACH_KIND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_record_has_one_kind(path: Path) -> None:
    try:
        opened = archive.open(path)
    except ArchiveError:
        pytest.skip("it cannot be opened")
    with opened:
        if opened.tensor_file is not None:
            return  # its parts are no records of a zip
        kinds = {name: str(kind_in(opened.recognised.kind, name)) for name in opened.records}
        shown = {name: kind for name, kind in ROW.findall(of_archive(opened)) if kind}  # "[5 more]" has none
    assert shown
    assert {name: kinds[unescape(name)] for name in shown} == shown
    facts = told("inspect", path)
    inspected = facts["records"] if "records" in facts else facts["files"]
    assert isinstance(inspected, dict)
    assert {name: inspected[name]["kind"] for name in kinds} == kinds


def test_each_kind_of_bytes_counts_as_something() -> None:
    """Whoever adds a kind decides here what it counts as."""
    counted = {kind for kind in RecordKind if kind.group is not Group.OTHER}
    assert {*RecordKind} - counted == {
        RecordKind.OBJECT,
        RecordKind.WEIGHTS,
        RecordKind.INPUTS,
        RecordKind.EXTRA,
        RecordKind.FORMAT,
        RecordKind.HEADER,
        RecordKind.VALUES,
        RecordKind.INDEX,
        RecordKind.OTHER,
    }
    debug = {kind for kind, group in GROUP_OF_LABEL.items() if group is Group.DEBUG}
    assert debug == DEBUG_KINDS | MAPS_TO_SOURCE | {*MetadataKind, *SpareKind}
    assert {kind for kind, group in GROUP_OF_LABEL.items() if group is Group.CONTAINER} == {*STRUCTURE}
