"""The table of a lowered module's debug handles, which the module carries until it is saved.

The table is JSON, in an attribute of the lowered module that is not part of its state::

    {"sources": [[text, filename, line], ...],
     "ranges": [[source, start, end], ...],
     "handles": [[handle, operator, range, [[function, type, instance, range], ...]], ...],
     "effects": record}

``source`` and ``range`` are row numbers; a range may be null, and so may type and instance of a call.
``record`` is the archive record of the module's effects, a character for each byte; "" for modules without.
Texts that are not UTF-8 keep their bytes as surrogate escapes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from archive.debuginfo.sites import Site, Span, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.backend.graph.graphs import Call, Operation
    from archive.debuginfo.model import SourceRange

KEEPING_BYTES = "surrogateescape"


def write_table(operations: Mapping[int, Operation], effects: bytes = b"") -> str:
    """The table as text.

    Args:
        operations: the operations by debug handle.
        effects: the record of the module's effects.
    """
    packing = _Packing()
    handles = [
        [handle, one.kind, packing.span(one.range), [packing.call(call) for call in one.stack]]
        for handle, one in operations.items()
    ]
    table = {
        "sources": packing.sources,
        "ranges": packing.ranges,
        "handles": handles,
        "effects": effects.decode("latin-1"),
    }
    return json.dumps(table, separators=(",", ":"))


class _Packing:
    """Numbers sources and ranges, equal ones once."""

    def __init__(self) -> None:
        self.sources: list[list[object]] = []
        self.ranges: list[list[int]] = []
        self._numbers: dict[object, int] = {}
        self._spans: dict[int, int | None] = {}
        self._texts: dict[int, tuple[str, str, int]] = {}

    def span(self, span: SourceRange | None) -> int | None:
        """The row number of a range; None for a range without text."""
        if id(span) not in self._spans:
            self._spans[id(span)] = self._packed(span)
        return self._spans[id(span)]

    def _packed(self, span: SourceRange | None) -> int | None:
        if span is None or not len(span.source.text):
            return None
        one = span.source
        if id(one) not in self._texts:
            text, filename = (
                bytes(part or b"").decode("utf-8", KEEPING_BYTES) for part in (one.text, one.filename)
            )
            self._texts[id(one)] = text, filename, one.starting_line
        source = self._numbered(self.sources, [*self._texts[id(one)]])
        return self._numbered(self.ranges, [source, span.start, span.end])

    def _numbered(self, rows: list[list[object]] | list[list[int]], row: list[object] | list[int]) -> int:
        key = id(rows), *row
        if key not in self._numbers:
            self._numbers[key] = len(rows)
            rows.append(row)  # type: ignore[arg-type]
        return self._numbers[key]

    def call(self, call: Call) -> list[object]:
        """A call of a call stack as a row."""
        return [call.function, call.type_name, call.instance, self.span(call.range)]


def read_table(text: str) -> tuple[dict[int, Site], bytes]:
    """The sites of a table by debug handle, and the record of effects."""
    read = json.loads(text)
    sources = [
        (body.encode("utf-8", KEEPING_BYTES), name.encode("utf-8", KEEPING_BYTES), line)
        for body, name, line in read["sources"]
    ]
    spans: list[Span] = []
    for source, start, end in read["ranges"]:
        body, name, line = sources[source]
        spans.append(Span(body, name, line, start, end))

    def at(number: int | None) -> Span | None:
        return None if number is None else spans[number]

    sites = {
        handle: Site(op, at(span), tuple(Step(name, kind, own, at(call)) for name, kind, own, call in calls))
        for handle, op, span, calls in read["handles"]
    }
    return sites, read["effects"].encode("latin-1")
