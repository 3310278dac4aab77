"""A column of a table that is shown: declared once, and written to terminals, CSV, notebooks and pages."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Holds: TypeAlias = Literal["name", "place", "code", "text", "number", "bytes"]
"""What a column has: only names, places and code may be shortened; numbers and bytes stay whole."""


class Column(NamedTuple):
    """A column: the attribute of a row that it shows, its heading, and what its cells are."""

    key: str
    title: str
    holds: Holds = "text"
