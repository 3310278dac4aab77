"""The listing of a zip that is no archive → text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from archive.base.errors import one_line
from archive.reader.recognition import FileKind
from archive.report.compiled_text import compiled_table
from archive.report.fitted_table import FittedTable
from archive.report.programs_text import methods_table, programs_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from archive.describe.listing import Listing


HELD = {
    FileKind.EXPORTED: "programs",
    FileKind.LEGACY_EXPORTED: "programs",
    FileKind.AOTI: "models",
    FileKind.ETRECORD: "programs or methods",
}
"""What ``unread`` is of."""


def listing_text(facts: Listing) -> Group:
    """A listing as text: the zip's kind, its tensors, and its files."""
    head = [
        f"{facts.file}: {facts.size:,} bytes, {facts.what}",
        facts.advice,
        "",
    ]
    if facts.unread:
        held = HELD.get(facts.kind, "tensors")
        head[2:2] = [f"its {held} are not known: {facts.unread}"]
    lines: list[RenderableType] = [Text(one_line(line)) for line in head]
    if facts.tensors:
        lines += [_tensors(facts), Text()]
    if facts.programs:
        lines += [programs_table(facts.programs), Text()]
    if facts.compiled:
        lines += [compiled_table(facts.compiled), Text()]
    if facts.methods:
        lines += [methods_table(facts.methods), Text()]
    return Group(*lines, _files(facts))


def _tensors(facts: Listing) -> FittedTable:
    table = FittedTable(
        [("tensor", "name"), ("dtype", "text"), ("shape", "text"), ("bytes", "number"), ("storage", "text")]
    )
    for path, tensor in facts.tensors.items():
        shape = " x ".join(map(str, tensor.shape)) or "scalar"
        size = "" if tensor.bytes is None else f"{tensor.bytes:,}"
        table.add(one_line(path) or "(the object)", tensor.dtype, shape, size, one_line(tensor.storage))
    return table


def _files(facts: Listing) -> FittedTable:
    table = FittedTable([("file", "name"), ("bytes", "number"), ("stored", "number"), ("kind", "text")])
    for name, record in facts.records.items():
        table.add(one_line(name), f"{record.size:,}", f"{record.stored_size:,}", record.kind)
    return table
