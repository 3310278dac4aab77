"""The table of a lowered module's debug handles: see :mod:`archive.backend.lower.carried`.

The table is one line of JSON::

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
from typing import TYPE_CHECKING, TypeVar

from archive.debuginfo.sites import CallStep, Site, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.backend.graph.graphs import Operation
    from archive.debuginfo.model import SourceRange

T = TypeVar("T")
KEEPING_BYTES = "surrogateescape"


def write_table(operations: Mapping[int, Operation], effects: bytes = b"") -> str:
    """The table as text.

    Args:
        operations: the operations by debug handle.
        effects: the record of the module's effects.
    """
    spans = _Spans()
    return write_sites({handle: spans.site(one) for handle, one in operations.items()}, effects)


class _Spans:
    """Turns the source ranges of operations into spans, each once."""

    def __init__(self) -> None:
        self._spans: dict[int, Span | None] = {}
        self._texts: dict[int, tuple[bytes, bytes]] = {}
        self._calls: dict[int, tuple[CallStep, ...]] = {}

    def site(self, one: Operation) -> Site:
        """The site of an operation."""
        if id(one.stack) not in self._calls:
            self._calls[id(one.stack)] = tuple(
                CallStep(call.function, call.type_name, call.instance, self._span(call.range))
                for call in one.stack
            )
        return Site(one.kind, self._span(one.range), self._calls[id(one.stack)])

    def _span(self, span: SourceRange | None) -> Span | None:
        """A range; None for one without text."""
        if id(span) not in self._spans:
            self._spans[id(span)] = self._made(span)
        return self._spans[id(span)]

    def _made(self, span: SourceRange | None) -> Span | None:
        if span is None or not len(span.source.text):
            return None
        one = span.source
        if id(one) not in self._texts:
            self._texts[id(one)] = bytes(one.text), bytes(one.filename or b"")
        return Span(*self._texts[id(one)], one.starting_line, span.start, span.end)


def write_sites(sites: Mapping[int, Site], effects: bytes = b"") -> str:
    """The same of sites by debug handle."""
    packing = _Packing()
    handles = [
        [
            handle,
            site.op,
            packing.span(site.span),
            [[one.function, one.type_name, one.instance, packing.span(one.span)] for one in site.steps],
        ]
        for handle, site in sites.items()
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

    def span(self, span: Span | None) -> int | None:
        """The row number of a range."""
        if span is None:
            return None
        key = span.text, span.filename, span.line
        source = self._numbered(self.sources, key, lambda: [*_texts(span), span.line])
        row = source, span.start, span.end
        return self._numbered(self.ranges, row, lambda: [*row])

    def _numbered(self, rows: list[T], key: object, make: Callable[[], T]) -> int:
        if (id(rows), key) not in self._numbers:
            self._numbers[id(rows), key] = len(rows)
            rows.append(make())
        return self._numbers[id(rows), key]


def _texts(span: Span) -> tuple[str, str]:
    """Text and filename of a span's source."""
    return span.text.decode("utf-8", KEEPING_BYTES), span.filename.decode("utf-8", KEEPING_BYTES)


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
        handle: Site(
            op, at(span), tuple(CallStep(name, kind, own, at(call)) for name, kind, own, call in calls)
        )
        for handle, op, span, calls in read["handles"]
    }
    return sites, read["effects"].encode("latin-1")
