"""What both demos are made of: steps that have been done, and claims, checked before they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.failures.printed import HANDLES_NOT_FOUND
from archive.render.fitted_table import lines_of

if TYPE_CHECKING:
    from archive.render.fitted_table import Printed

TEXT_WIDTH = 100
"""Columns of a step's tables, wherever they are printed."""


class ClaimError(Exception):
    """A claim of the demo does not hold."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    """A step that has been done.

    Attributes:
        name: the key of its facts in the demo's JSON.
        title: one line above its text.
        text: its result, for people.
        facts: its result, for programs.
    """

    name: str
    title: str
    text: str
    facts: dict[str, object]


def check(holds: object, claim: str) -> None:
    """Check a claim.

    Raises:
        ClaimError: it does not hold.
    """
    if not holds:
        raise ClaimError(f"this does not hold: {claim}")


def handles_in(text: str) -> list[int]:
    """The debug handle that the lite interpreter names when it has no debug info, if it names one."""
    printed = HANDLES_NOT_FOUND.search(text.encode())
    return [int(printed["joined"] or printed["single"])] if printed else []


def table(printed: Printed) -> str:
    """The text of tables and lines."""
    lines = ("".join(text for text, _ in line).rstrip() for line in lines_of(printed, TEXT_WIDTH))
    return "\n".join(lines)
