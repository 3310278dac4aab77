"""The listing of a zip that is no archive → text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from archive.report.texts import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from archive.verbs.listing import Listing


def listing_text(facts: Listing) -> Group:
    """A listing as text: the zip's kind, its tensors, and its files."""
    head = [
        f"{printable(facts.file)}: {facts.size:,} bytes, {printable(facts.what)}",
        printable(facts.advice),
        "",
    ]
    if facts.unread:
        head[2:2] = [f"its tensors are not known: {printable(facts.unread)}"]
    lines: list[RenderableType] = [*map(Text, head)]
    if facts.tensors:
        lines += [_tensors(facts), Text()]
    return Group(*lines, _files(facts))


def _tensors(facts: Listing) -> Table:
    table = _table("tensor", "dtype", "shape", "bytes", "storage")
    for path, tensor in facts.tensors.items():
        shape = " x ".join(map(str, tensor.shape)) or "scalar"
        size = "" if tensor.bytes is None else f"{tensor.bytes:,}"
        table.add_row(
            Text(printable(path) or "(the object)"), tensor.dtype, shape, size, printable(tensor.storage)
        )
    return table


def _files(facts: Listing) -> Table:
    table = _table("file", "bytes", "stored", "kind")
    for name, record in facts.records.items():
        table.add_row(Text(printable(name)), f"{record.size:,}", f"{record.stored_size:,}", record.kind)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        numbers = name in ("bytes", "stored")
        table.add_column(name, justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    return table
