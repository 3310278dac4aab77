"""A captured graph at the model's source: generated code gives way to the statements that it comes from."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.backend.graph.graphs import Call, Operation
from archive.base.strings import StringView
from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.model import Source, SourceRange
from archive.normalform.pool import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.backend.graph.graphs import Graph
    from archive.debuginfo.sites import Site, Span, Step

ASSIGNED = re.compile(rb"\s*(\w+)(?: : [^=]+)? = ")


class Relocating:
    """Leads operations to the model.

    Args:
        sites: where the nodes of a captured graph come from, by their names.
    """

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = sites
        self._ranges: dict[Span, SourceRange] = {}
        self._stacks: dict[tuple[Step, ...], tuple[Call, ...]] = {}

    def effect(self, site: Site) -> Operation:
        """What an effect does, as an operation."""
        made = Operation(site.op, [], [])
        self._put(made, site)
        return made

    def graph(self, graph: Graph) -> None:
        """Lead all operations of a graph to the model.

        A line that comes from no statement, as it reads a parameter, is at that of the next line that does,
        or else of the last one.
        """
        operations = list(graph.operations())
        sites = [self._site(one.stack[0].range if one.stack else one.range) for one in operations]
        for order in (range(len(sites) - 1, -1, -1), range(len(sites))):
            known: Site | None = None
            for number in order:
                known = sites[number] = sites[number] or known
        for operation, site in zip(operations, sites, strict=True):
            if site is not None:
                self._put(operation, site)

    def _site(self, span: SourceRange | None) -> Site | None:
        """Where a line of generated code comes from."""
        if span is None:
            return None
        text = bytes(span.source.text)
        found = ASSIGNED.match(text, text.rfind(b"\n", 0, span.start) + 1)
        return self._sites.get(found[1].decode()) if found else None

    def _put(self, operation: Operation, site: Site) -> None:
        """Lead an operation to a place; what a function of PyTorch's calls stays behind that function."""
        span = None if site.span is None else self._range(site.span)
        calls = self._calls(site.steps)
        if operation.stack:
            first, *others = operation.stack
            operation.stack = (*calls, replace(first, range=span), *others)
            return
        operation.range, operation.stack = span, calls
        operation.shown = "" if span is None else excerpt(span, b"").decode("utf-8", "backslashreplace")

    def _calls(self, steps: tuple[Step, ...]) -> tuple[Call, ...]:
        if steps not in self._stacks:
            self._stacks[steps] = tuple(
                Call(
                    one.function,
                    one.type_name,
                    one.instance,
                    None if one.span is None else self._range(one.span),
                )
                for one in steps
            )
        return self._stacks[steps]

    def _range(self, span: Span) -> SourceRange:
        """A range as archives have it."""
        if span not in self._ranges:
            strings = table_of([span.text, span.filename])
            source = Source(StringView(strings, 0), StringView(strings, 1), span.line)
            self._ranges[span] = SourceRange(source, span.start, span.end)
        return self._ranges[span]
