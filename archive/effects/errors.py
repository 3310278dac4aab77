"""Errors of capturing, and of a state."""

from __future__ import annotations

import linecache

from archive.base.errors import LoweringError

ITEM_CHANGED = "a tensor in a list, which the graph takes as a whole, is changed in place"
OUTSIDE = ": what it does outside the model would be lost"


class CaptureError(LoweringError):
    """A model cannot be lowered because it cannot be captured.

    Attributes:
        message: the reason.
        filename: of the model's source; "" if no line of it is the reason.
        line: in that file, from 1; 0 without a filename.
    """

    def __init__(self, message: str, filename: str = "", line: int = 0) -> None:
        super().__init__(message, filename, line)
        self.message = message
        self.filename = filename
        self.line = line

    def __str__(self) -> str:
        if not self.filename:
            return self.message
        text = linecache.getline(self.filename, self.line).strip()
        place = f'  File "{self.filename}", line {self.line}'
        return "\n".join([self.message, place, f"    {text}"] if text else [self.message, place])


class ModelFailedError(CaptureError):
    """The model itself fails in a captured call, as it would outside a capture."""


class ValueRefusedError(Exception):
    """A table of effects cannot hold a value."""


class StateError(LookupError):
    """The state has no such place, or does not give access to it."""
