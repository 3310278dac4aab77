"""The JSON that the server takes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST_HANDLES = 64
"""Handles of one failure."""
LONGEST_PATTERN = 1_000
"""Characters of a pattern."""

Handle = Annotated[int, Field(ge=0, lt=1 << 63)]
Pattern = Annotated[str, Field(max_length=LONGEST_PATTERN)]


class LogRequest(BaseModel):
    """A log to be explained.

    Attributes:
        log: the log.
        id: a pattern of what names a model in the log: an archive id, handle prefix or serialization id.
        model: the same for the name of a file, or of the top module's class.
        top: how many causes are told; all where it is left out.
    """

    model_config = ConfigDict(extra="forbid")

    log: str
    id: Pattern | None = None
    model: Pattern | None = None
    top: Annotated[int, Field(ge=1)] | None = None


class HandlesRequest(BaseModel):
    """Handles to be looked up.

    Attributes:
        handles: those of one failure, inner ones first; numbers, or strings of digits.
        archive: the archive id or its beginning, the handle prefix, or the serialization id; unique handles
            name their archive themselves.
    """

    model_config = ConfigDict(extra="forbid")

    handles: Annotated[list[Handle], Field(min_length=1, max_length=MOST_HANDLES)]
    archive: Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN)] | None = None
