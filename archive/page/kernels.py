"""C++ code of compiled models as records of the page: which lines call a kernel, and which belong to one."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.errors import in_file
from archive.formats.record_kinds import label_in
from archive.page.units import Units, differences, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.page.traced import Link, Span
    from archive.reader.archive import Archive
    from archive.reader.compiled import CompiledModel

LINE_BYTES = 200
"""Bytes of memory that a line takes besides its text."""


class Call(NamedTuple):
    """Where a kernel is called: the record of C++ code, the name of its file, and the 1-based line."""

    record: str
    file: str
    line: int


def calls_of_kernels(opened: Archive) -> dict[str, Call]:
    """Where each kernel is called, by its label; only those whose C++ code is there."""
    calls = {}
    for model in opened.compiled.values():
        for file in model.sources:
            with in_file(opened.file, model.records[file]):
                for key, line in model.code(file).called.items():
                    calls[label_in(model.name, key)] = Call(model.records[file], file, line)
    return calls


class CompiledCode:
    """The C++ code of compiled models, each line that calls or is part of a kernel with the model's own line.

    Args:
        spans: the line that each kernel leads to, by its label; None where it isn't shown.

    Attributes:
        records: as the page has them: see :mod:`archive.page.facts`.
    """

    def __init__(self, opened: Archive, spans: Mapping[str, Span | None]) -> None:
        self.records: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._starts: list[list[int]] = []
        self._opened, self._spans = opened, spans
        self._calls = calls_of_kernels(opened)
        for model in opened.compiled.values():
            for file in model.sources:
                with in_file(opened.file, model.records[file]):
                    self._add(model, file)

    def link(self, kernel: str, to_source: Link | None) -> Link | None:
        """What a kernel's row leads to: the line that calls it, besides its line of the model.

        Args:
            kernel: its label.
            to_source: its line of the model.
        """
        call = self._calls.get(kernel)
        if call is None:
            return to_source
        number = self._numbers[call.record]
        return [*(to_source or [-1, 0]), number, self._starts[number][call.line - 1]]

    def _add(self, model: CompiledModel, file: str) -> None:
        data = bytes(model.view(file))
        cost = 2 * len(data) + LINE_BYTES * (data.count(b"\n") + 1)
        memory.take(cost, "lines of C++ code")
        shown, lines = Units(data), data.split(b"\n")
        ends = np.array([*accumulate(len(line) + 1 for line in lines)], np.int64)
        starts: list[int] = [0, *shown.at(ends).tolist()]
        rows = self._rows(model, file, starts)
        at = [position for position, _ in rows]
        spans = [span for _, span in rows]
        self._numbers[model.records[file]] = len(self.records)
        self._starts.append(starts)
        self.records.append(
            {
                "name": plain(model.records[file]),
                "text": shown.text,
                "at": differences(np.array(at, np.int64)),
                "file": [-1 if span is None else span.file for span in spans],
                "from": differences(np.array([span.start if span else 0 for span in spans], np.int64)),
                "length": [span.length if span else 0 for span in spans],
            }
        )

    def _rows(self, model: CompiledModel, file: str, starts: list[int]) -> list[tuple[int, Span | None]]:
        """Where each stretch of the code begins, and the line that it comes from."""
        code = model.code(file)
        stretches = [(line, line, {self._span(model, key)}) for key, line in code.called.items()]
        for name, (first, last) in code.functions.items():
            spans = {self._span(model, kernel.key) for kernel in model.named.get(name, ())}
            stretches.append((first, last, spans))
        rows: list[tuple[int, Span | None]] = []
        for first, last, spans in sorted(stretches, key=lambda stretch: stretch[:2]):
            span = spans.pop() if len(spans) == 1 else None  # several places of the model share a kernel
            rows += [(starts[first - 1], span), (starts[last], None)]
        return sorted(rows, key=lambda row: row[0])

    def _span(self, model: CompiledModel, key: str) -> Span | None:
        return self._spans.get(label_in(model.name, key))
