"""PyTorch as the judge of excerpts: an archive whose nodes' source ranges are replaced, loaded, and asked."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

import archive
from archive.container.container import member_from, new_member, write_archive
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from tests.support.strategies import Range, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive import Archive

pytest.importorskip("torch", exc_type=ImportError)

import torch


def replaced(opened: Archive, records: Mapping[str, bytes]) -> bytes:
    """The archive with other records, or more."""
    members = [
        member_from(record) for name, record in opened.container.records.items() if name not in records
    ]
    members += [new_member(name, data) for name, data in records.items()]
    out = io.BytesIO()
    write_archive(out, opened.root, members)
    return out.getvalue()


class Bench:
    """A model of many nodes: it takes a range for each, and tells how PyTorch prints it."""

    def __init__(self, size: int) -> None:
        made = torch.jit.script(type("Many", (torch.nn.Module,), {})())  # a class of its own: methods stay
        made.define("def forward(self, x):\n" + "    x = torch.neg(x)\n" * size + "    return x\n")
        out = io.BytesIO()
        torch.jit.save(made, out)
        self.opened = archive.open(out.getvalue())
        (self.name,) = self.opened.range_table.names
        self.offsets = [row.offset for row in self.opened.ranges(self.name)]
        numbers = [Range(b"%d" % row, 0, len(b"%d" % row)) for row in range(len(self.offsets))]
        said = self._printed(self._archive(numbers, RangeLayout.INLINE))
        self.nodes = {int(text.partition("Serialized ")[0]): node for node, text in enumerate(said) if text}
        self.suffixes = {row: said[node].removeprefix(f"{row}") for row, node in self.nodes.items()}
        self.rows = sorted(self.nodes)

    def _archive(self, ranges: Sequence[Range], layout: RangeLayout) -> bytes:
        return replaced(
            self.opened, {self.name: build_source_ranges(table_of(self.offsets, ranges, layout), 0)}
        )

    def _printed(self, data: bytes) -> list[str]:
        loaded = torch.jit.load(io.BytesIO(data))
        return [node.sourceRange() for node in loaded.graph.nodes()]

    def show(self, ranges: Sequence[Range], layout: RangeLayout) -> tuple[list[str], Archive]:
        """What PyTorch prints for up to ``len(rows)`` ranges, and the archive that it read them from."""
        placed = [Range(b"", 0, 0)] * len(self.offsets)
        for row, one in zip(self.rows, ranges, strict=False):
            placed[row] = one
        data = self._archive(placed, layout)
        printed = self._printed(data)
        used = self.rows[: len(ranges)]
        for row in used:
            assert printed[self.nodes[row]].endswith(self.suffixes[row])
        said = [printed[self.nodes[row]].removesuffix(self.suffixes[row]) for row in used]
        return said, archive.open(data)


def nodes(block: torch._C.Block) -> Iterator[torch._C.Node]:
    """The nodes of a block, and of the blocks in them."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes(inner)


def printed(data: bytes) -> list[str]:
    """The source range of every node of every method, as PyTorch prints it after loading."""
    loaded = torch.jit.load(io.BytesIO(data))
    graphs = [
        module._c._get_method(name).graph for module in loaded.modules() for name in module._c._method_names()
    ]
    return [text for graph in graphs for node in nodes(graph) if (text := node.sourceRange())]
