"""Handles and positions → their source, looked up once for equal ones, all within the bounds of one log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.keys import text_key
from archive.base.limits import Steps
from archive.base.spending import Recent, Spending
from archive.debuginfo.excerpt import bounded_excerpt, cost_of

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import Style, Symbolication
    from archive.reader.archive import Archive

TEXT_KEPT = 1 << 22
"""Bytes of texts that are kept to be given again, together."""


class Position(NamedTuple):
    """A byte of a generated code record, and the source range that it comes from, if one is recorded."""

    record: str
    byte: int
    span: SourceRange | None
    limits: Limits

    def __bytes__(self) -> bytes:
        """The range's source as PyTorch shows it; empty without one."""
        if self.span is None:
            return b""
        return bounded_excerpt(self.span, b"", self.limits, Steps(self.limits.work))

    @property
    def steps(self) -> int:
        """The steps that its text takes: see ``Limits.work``."""
        return 0 if self.span is None else cost_of(self.span, b"").steps


class Lookups:
    """What is found for handles and positions: once for equal ones, however often they are given.

    Args:
        opened: the archive; ``work`` and ``output`` of its limits bound each answer, and by it all of them.
        style: the release whose words are used.
    """

    def __init__(self, opened: Archive, style: Style) -> None:
        self._opened = opened
        self._style = style
        self._spending = Spending(opened.limits)
        self._found: dict[str, Symbolication] = {}
        self._positions: dict[tuple[str, int], Position] = {}
        self._sizes: dict[int, int] = {}
        self._texts = Recent[int, bytes](TEXT_KEPT)

    def symbolication(self, handles: list[int]) -> Symbolication:
        """The source of handles; counted."""
        key = text_key(*handles)
        if key not in self._found:
            self._found[key] = self._opened.symbolicate(handles, self._style)
        self._count(self._found[key])
        return self._found[key]

    def position(self, record: str, byte: int) -> Position:
        """The source of a byte of generated code; counted, and bounded like :meth:`symbolication`."""
        key = record, byte
        if key not in self._positions:
            span = self._opened.locate(record, byte)
            self._positions[key] = Position(record, byte, span, self._opened.limits)
        self._count(self._positions[key])
        return self._positions[key]

    def text(self, answer: Symbolication | Position) -> bytes:
        """The text of an answer."""
        key = id(answer)  # of an answer that lives as long as this object
        text = self._texts.get(key)
        if text is None:
            text = bytes(answer)
            self._texts.keep(key, text, len(text))
        return text

    def _count(self, answer: Symbolication | Position) -> None:
        """Count an answer's bytes, and its steps the first time."""
        if id(answer) not in self._sizes:
            self._spending.count(answer.steps, 0)
            self._sizes[id(answer)] = len(self.text(answer))
        self._spending.count(0, self._sizes[id(answer)])
