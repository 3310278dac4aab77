"""Replaces the ranges of a captured graph, which are in generated code, by those of the model's source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.backend.graph.graphs import Call, Operation
from archive.base.strings import StringView
from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.model import Source, SourceRange
from archive.effects.capture.proxies import list_functions
from archive.normalform.pool import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.backend.graph.graphs import Graph
    from archive.debuginfo.sites import CallStep, Site, Span

ASSIGNED = re.compile(rb"\s*(\w+)(?: : [^=]+)? = ")
"""Matches a line that assigns what its node makes."""
IN_PLACE = re.compile(rb";  (\w+)(?: : [^=]+)? = ")
"""Matches in a line that changes a value, as ``x[k] = y`` and ``x += y`` do, and then assigns the value."""


class Relocating:
    """Gives operations of a captured graph the source ranges and call stacks of the model.

    Args:
        sites: the model's site of each node of the captured graph, by the node's name.
    """

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = sites
        self._ranges: dict[Span, SourceRange] = {}
        self._stacks: dict[tuple[CallStep, ...], tuple[Call, ...]] = {}

    def effect(self, site: Site) -> Operation:
        """An operation that stands for an effect, so that the effect can have a debug handle."""
        made = Operation(site.op, [], [])
        self._put(made, site)
        return made

    def graph(self, graph: Graph) -> None:
        """Give all operations of a graph their sites in the model.

        A line of generated code that has no site, because it reads a parameter, takes the site of the next
        line that has one, or else of the last one.
        """
        operations = list(graph.operations())
        sites = [self._site(one.stack[0].range if one.stack else one.range) for one in operations]
        sites.reverse()
        sites = _filled(sites)  # with the next site
        sites.reverse()
        sites = _filled(sites)  # with the last one
        for operation, site in zip(operations, sites, strict=True):
            if site is not None:
                self._put(operation, site)

    def _site(self, span: SourceRange | None) -> Site | None:
        """The site of the node that a line of generated code assigns; None if it assigns none."""
        if span is None:
            return None
        text = bytes(span.source.text)
        start, end = text.rfind(b"\n", 0, span.start) + 1, text.find(b"\n", span.start)
        line = text[start : end if end >= 0 else None]
        found = ASSIGNED.match(line) or IN_PLACE.search(line)
        return self._sites.get(found[1].decode()) if found else None

    def _put(self, operation: Operation, site: Site) -> None:
        """Give an operation a site.

        An operation that was inlined from a function of PyTorch keeps its own range and the calls inside that
        function; the site becomes the call of the function. Functions that stand for builtins have no source.
        """
        if operation.stack and _is_builtin(operation.range):
            operation.stack = ()
        span = None if site.span is None else self._range(site.span)
        calls = self._calls(site.steps)
        if operation.stack:
            first, *others = operation.stack
            operation.stack = (*calls, replace(first, range=span), *others)
            return
        operation.range, operation.stack = span, calls
        operation.shown = "" if span is None else excerpt(span, b"").decode("utf-8", "backslashreplace")

    def _calls(self, steps: tuple[CallStep, ...]) -> tuple[Call, ...]:
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
        """A span as a source range of an archive."""
        if span not in self._ranges:
            strings = table_of([span.text, span.filename])
            source = Source(StringView(strings, 0), StringView(strings, 1), span.line)
            self._ranges[span] = SourceRange(source, span.start, span.end)
        return self._ranges[span]


def _is_builtin(span: SourceRange | None) -> bool:
    """Whether a range is in one of the functions that do what Python's builtins do."""
    return span is not None and str(span.source.filename or "") == list_functions.__file__


def _filled(sites: list[Site | None]) -> list[Site | None]:
    """Sites in which each None is replaced by the last site before it, if there is one."""
    filled: list[Site | None] = []
    last: Site | None = None
    for site in sites:
        last = site or last
        filled.append(last)
    return filled
