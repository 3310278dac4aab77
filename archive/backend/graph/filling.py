"""Gives ranges to operations for which PyTorch records none in the model's source.

An attribute of a tensor, as ``x.mT``, is looked for in the text of its function. Other operations take the
range of another operation of the same call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.model import SourceRange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from archive.backend.graph.graphs import Block, Graph, Operation
    from archive.debuginfo.model import Source

PLACELESS = ("prim::SetAttr", "prim::Enter", "prim::Exit", "prim::ListUnpack", "prim::TupleUnpack")
"""Operations without a range in PyTorch; they belong to the operation that makes their input.

The operation that follows may stand lines below: where unpacking a list fails, its line would be wrong.
"""
BUILTIN_FILE = "<string>"
"""PyTorch's name for the source of its builtin functions."""
BUILTIN = re.compile(rb"def (\w+)\([^\n]*\n[^\n]*\Z")
"""The builtin function that an operation is in, given the text up to there."""


def fill_ranges(graph: Graph) -> None:
    """Give a range to the operations of a graph that have none."""
    unknown = _take_ranges_of_attributes(graph)
    _take_ranges_of_makers(graph)
    _take_ranges_of_neighbours(graph.body, {}, unknown)


def _take_ranges_of_attributes(graph: Graph) -> set[Operation]:
    """Give operations that are attributes of tensors the range of the attribute in the function's text.

    PyTorch records no range for some attributes (``x.mT``); that of others (``x.shape``) is in the text of a
    builtin function, without a call that leads there.

    Returns:
        The operations of which nobody knows the line: several lines of the text have the attribute.
    """
    unknown: set[Operation] = set()
    sources = _functions(graph)
    for one in graph.operations():
        name = _attribute(one)
        source = sources.get(id(one.stack))
        places = [] if name is None or source is None else _places(name, bytes(source.text))
        if source is None or not places:
            continue
        start, end = places[0].start(), places[-1].end()
        if b"\n" not in bytes(source.text)[start:end]:
            one.range = SourceRange(source, start, end)
            one.shown = excerpt(one.range, b"").decode("utf-8", "backslashreplace")
        else:
            unknown.add(one)
    return unknown


def _functions(graph: Graph) -> dict[int, Source | None]:
    """For each call stack, by id, the text of the function that is called; None if there are several."""
    found: dict[int, Source | None] = {}
    for one in graph.operations():
        if one.range is None or _is_builtin(one.range) or not len(one.range.source.text):
            continue
        source = one.range.source
        known = found.setdefault(id(one.stack), source)
        if known is not source and (known is None or bytes(known.text) != bytes(source.text)):
            found[id(one.stack)] = None
    return found


def _attribute(operation: Operation) -> bytes | None:
    """The name of the attribute that an operation may be; None if it has a range in the model's source."""
    if not operation.shown:
        return operation.kind.partition("::")[2].encode()
    span = operation.range
    if span is None or not _is_builtin(span):
        return None
    found = BUILTIN.search(bytes(span.source.text)[: span.start])
    return found and found[1]


def _is_builtin(span: SourceRange) -> bool:
    return str(span.source.filename or "") == BUILTIN_FILE


def _places(name: bytes, text: bytes) -> list[re.Match[bytes]]:
    """The places in a text that read an attribute of this name."""
    return list(re.finditer(rb"[\w.]*\.%b\b(?!\s*\()" % re.escape(name), text))


def _take_ranges_of_makers(graph: Graph) -> None:
    """Give ``PLACELESS`` operations without a range that of the operation that makes their last input."""
    makers = {value: one for one in graph.operations() for value in one.outputs}
    for one in graph.operations():
        maker = makers.get(one.inputs[-1]) if one.kind in PLACELESS and not one.shown else None
        if maker is not None and maker.stack is one.stack:
            one.shown, one.range = maker.shown, maker.range


def _take_ranges_of_neighbours(
    block: Block, before: dict[int, Operation], unknown: Collection[Operation]
) -> None:
    """Give operations without a range that of the next operation in the same call, or else the last one.

    PyTorch records no range for nodes that it adds: dict literals, casts, some attributes of tensors. The
    next operation takes what they make.

    Args:
        block: the block; its inner blocks follow.
        before: for each call stack, by id, the last operation with a range before the block.
        unknown: operations that stay without a range.
    """
    known = [one for one in block.operations if one not in unknown]
    _fill_ranges(reversed(known), {})
    _fill_ranges(known, dict(before))
    for one in block.operations:
        if one.shown:
            before[id(one.stack)] = one
        for inner in one.blocks:
            _take_ranges_of_neighbours(inner, dict(before), unknown)


def _fill_ranges(operations: Iterable[Operation], neighbours: dict[int, Operation]) -> None:
    """Give operations without a range that of the operation of the same call that came last."""
    for one in operations:
        if one.shown:
            neighbours[id(one.stack)] = one
        elif id(one.stack) in neighbours:
            neighbour = neighbours[id(one.stack)]
            one.shown, one.range = neighbour.shown, neighbour.range
