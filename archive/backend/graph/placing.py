"""Gives operations the source ranges and the call stacks of sites in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.backend.graph.graphs import StackCall
from archive.backend.pytorch import shown
from archive.base.columns import table_of
from archive.base.strings import StringView
from archive.debuginfo.model import Source, SourceRange

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Operation
    from archive.debuginfo.sites import CallStep, Site, Span


class Placing:
    """Gives operations their sites; equal spans become one range, and equal steps one stack."""

    def __init__(self) -> None:
        self._ranges: dict[Span, SourceRange] = {}
        self._shown: dict[int, str] = {}
        self._stacks: dict[tuple[CallStep, ...], tuple[StackCall, ...]] = {}

    def put(self, operation: Operation, site: Site) -> None:
        """Give an operation the range and the calls of a site."""
        operation.range = None if site.span is None else self.range_of(site.span)
        operation.stack = self.stack_of(site.steps)
        if id(operation.range) not in self._shown:
            self._shown[id(operation.range)] = shown(operation.range)
        operation.shown = self._shown[id(operation.range)]

    def stack_of(self, steps: tuple[CallStep, ...]) -> tuple[StackCall, ...]:
        """Calls with ranges in place of spans."""
        if steps not in self._stacks:
            self._stacks[steps] = tuple(
                StackCall(
                    step.function,
                    step.type_name,
                    step.instance,
                    None if step.span is None else self.range_of(step.span),
                )
                for step in steps
            )
        return self._stacks[steps]

    def range_of(self, span: Span) -> SourceRange:
        """A span as a source range of an archive."""
        if span not in self._ranges:
            strings = table_of([span.text, span.filename])
            source = Source(StringView(strings, 0), StringView(strings, 1), span.line)
            self._ranges[span] = SourceRange(source, span.start, span.end)
        return self._ranges[span]
