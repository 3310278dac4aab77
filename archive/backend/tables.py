"""Where the operations of a lowered module come from: a table that it carries until it is saved.

The table is JSON, held by the lowered module in an attribute that is not part of its state::

    {"sources": [[text, filename, line], ...],
     "ranges": [[source, start, end], ...],
     "methods": {"forward": [[line, range, [[function, type, instance, range], ...]], ...]}}

``line`` is that of the operation's statement in the method's generated source, from 1; type, instance and
range of a call may be null. Texts that are not UTF-8 are kept by their escapes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from archive.attaching import Span, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.backend.graphs import Call, Operation
    from archive.model import SourceRange

ERRORS = "surrogateescape"


def table(methods: Mapping[str, Iterable[tuple[int, Operation]]]) -> str:
    """The table of some methods: of each, the lines of statements and the operations that they run."""
    packing = _Packing()
    listed = {
        name: [
            [line, packing.span(operation.range), [packing.call(call) for call in operation.stack]]
            for line, operation in operations
            if operation.range is not None
        ]
        for name, operations in methods.items()
    }
    return json.dumps(
        {"sources": packing.sources, "ranges": packing.ranges, "methods": listed}, separators=(",", ":")
    )


class _Packing:
    """Sources and ranges, each once."""

    def __init__(self) -> None:
        self.sources: list[list[object]] = []
        self.ranges: list[list[int]] = []
        self._numbers: dict[object, int] = {}

    def span(self, span: SourceRange | None) -> int | None:
        """The number of a range."""
        if span is None:
            return None
        text = bytes(span.source.text).decode("utf-8", ERRORS)
        filename = bytes(span.source.filename or b"").decode("utf-8", ERRORS)
        source = self._numbered(self.sources, [text, filename, span.source.starting_line])
        return self._numbered(self.ranges, [source, span.start, span.end])

    def _numbered(self, rows: list[list[object]] | list[list[int]], row: list[object] | list[int]) -> int:
        key = id(rows), *row
        if key not in self._numbers:
            self._numbers[key] = len(rows)
            rows.append(row)  # type: ignore[arg-type]
        return self._numbers[key]

    def call(self, call: Call) -> list[object]:
        """A call of a call stack."""
        return [call.function, call.type_name, call.instance, self.span(call.range)]


def read_table(text: str) -> dict[str, dict[int, tuple[Span, list[Step]]]]:
    """For each method its operations by the line of their statement."""
    read = json.loads(text)
    sources = [
        (body.encode("utf-8", ERRORS), name.encode("utf-8", ERRORS), line)
        for body, name, line in read["sources"]
    ]
    spans = []
    for source, start, end in read["ranges"]:
        body, name, line = sources[source]
        spans.append(Span(body, name, line, start, end))

    def steps(calls: list[tuple[str, str | None, str | None, int | None]]) -> list[Step]:
        return [
            Step(function, kind, instance, None if span is None else spans[span])
            for function, kind, instance, span in calls
        ]

    return {
        name: {line: (spans[span], steps(calls)) for line, span, calls in rows}
        for name, rows in read["methods"].items()
    }
