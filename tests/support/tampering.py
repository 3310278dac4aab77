"""Real archives with something changed in them, and what verification says of those."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import archive
from archive.check.verify import verify
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.container.write import member_from, new_member, write_archive
from archive.formats.callstack_map import build_callstack_map, generation
from archive.formats.method_handles import build_methods
from archive.formats.source_ranges import build_source_ranges
from tests.support.corpus import CALLSTACKS, HANDLES, ORACLES, PATHS, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from archive.container.write import Member
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.tables import RangeTable, SourceTable

    Change = bytes | Callable[[bytes], bytes] | None
    Cells = Mapping[int, int]

T = TypeVar("T", "HandleTable", "MethodTable", "RangeTable", "SourceTable")

REFUSED = re.compile(r"(; )?PyTorch 2\.13('s [\w. ]+)? refuses it: .*")
OF_PYTORCH = re.compile(f"{REFUSED.pattern}|PyTorch loads it where others have registered")
STACK = ORACLES / "plain_stack.ptl"
LOWERED = ORACLES / "lowered_two.ptl"
UNICODE = RELEASES / "torch-2.13.0" / "unicode.ptl"
NESTED_1_2 = RELEASES / "torch-1.2.0" / "nested.pt"
NESTED_1_8 = RELEASES / "torch-1.8.0" / "nested.ptl"
NESTED_1_9 = RELEASES / "torch-1.9.0" / "nested.ptl"
TORCH = "code/__torch__/torch/nn"
PLAIN = "code/__torch__/plain.py"
LINEAR = f"{TORCH}/modules/linear.py"
MODELS = "code/__torch__/models.py"


def tampered(path: Path | bytes, changes: Mapping[str, Change], *, renewed: bool = True) -> bytes:
    """An archive with records replaced, added, or, where the change is None, taken out.

    Its serialization id is put right, unless ``renewed`` is false or it is changed itself.
    """
    with archive.open(path) as opened:
        changed = {
            name: change(bytes(opened.records[name].view())) if callable(change) else change
            for name, change in changes.items()
        }
        members = [
            member_from(record) for name, record in opened.container.records.items() if name not in changed
        ]
        members += [new_member(name, data) for name, data in changed.items() if data is not None]
        order = list(dict.fromkeys([*opened.records, *changed]))
        members.sort(key=lambda member: order.index(member.name))
        if renewed and RECORD_NAME in opened.records and RECORD_NAME not in changed:
            members = [member for member in members if member.name != RECORD_NAME]
            members.append(new_member(RECORD_NAME, serialization_id(members).encode()))
        return packed(members, opened.root)


def packed(members: Iterable[Member], root: str = "m") -> bytes:
    out = io.BytesIO()
    write_archive(out, root, members)
    return out.getvalue()


def without(path: Path, unwanted: Callable[[str], bool]) -> bytes:
    """An archive without some of its records."""
    with archive.open(path) as opened:
        names = list(opened.records)
    return tampered(path, {name: None for name in names if unwanted(name)})


def ranges(path: Path | bytes, record: str, **cells: Cells) -> dict[str, Change]:
    """A record of source ranges with other numbers in some rows; a negative one counts from the end."""
    with archive.open(path) as opened:
        table = opened.range_table
        number = table.numbers[record]
        rows = table.rows(number)
        moved = {name: {rows[row]: value for row, value in values.items()} for name, values in cells.items()}
        return {record: build_source_ranges(edited(table, **moved), number)}


def handles(path: Path | bytes, change: Callable[[HandleTable], HandleTable]) -> dict[str, Change]:
    """The call-stack debug map, changed."""
    with archive.open(path) as opened:
        table = opened.handle_table
        assert table is not None
        return {CALLSTACKS: build_callstack_map(change(table), generation(table))}


def methods(path: Path | bytes, change: Callable[[MethodTable], MethodTable]) -> dict[str, Change]:
    """The methods' handles, or module paths, changed."""
    with archive.open(path) as opened:
        if opened.method_table is not None:
            return {HANDLES: build_methods(change(opened.method_table))}
        assert opened.path_table is not None
        return {PATHS: build_methods(change(opened.path_table))}


def edited(table: T, **cells: Cells) -> T:
    """A table with other numbers in some cells of its columns."""
    columns = {}
    for name, values in cells.items():
        columns[name] = getattr(table, name).copy()
        for row, value in values.items():
            columns[name][row] = value
    return replace(table, **columns)


def said(source: bytes | Path) -> list[str]:
    """What verification says, one line a finding, without what PyTorch says or needs."""
    lines = [f"{finding.severity}: {finding}" for finding in verify(source)]
    kept = [line for line in lines if not (line.startswith("note") and OF_PYTORCH.search(line))]
    cut = [REFUSED.sub("", line) for line in kept]
    return [line for line in cut if not line.endswith(": ")]
