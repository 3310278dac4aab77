"""The results of rules: differences and gaps of one rule, findings and notes of all rules, a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Differs(NamedTuple):
    """Something is not as it should be."""

    expected: str
    found: str


class Unseen(NamedTuple):
    """Something that a rule could not check, and why."""

    text: str


Said: TypeAlias = Iterator[Differs | Unseen]
"""The results of one rule."""

MAX_ERROR_LENGTH = 240
"""Most characters of an error's text."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a backend breaks."""

    rule: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.rule}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a rule could not check."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all rules for a backend."""

    backend: str
    findings: tuple[BrokenRule, ...]
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        count = len(self.findings)
        verdict = f"{count} finding{'' if count == 1 else 's'}" if count else "conforms"
        lines = [f"backend {self.backend}: {verdict}", *(f"  {finding}" for finding in self.findings)]
        return "\n".join([*lines, *(f"  not seen by {note}" for note in self.notes)])


def of_error(error: BaseException | None) -> str:
    """An error's class and message on one line; "no error" for None."""
    if error is None:
        return "no error"
    text = " ".join(str(error).split())
    shown = text if len(text) <= MAX_ERROR_LENGTH else f"{text[:MAX_ERROR_LENGTH]}…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__
