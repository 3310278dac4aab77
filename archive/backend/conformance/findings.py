"""What a rule says: what differs, what it could not see, and all of it in a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Differs(NamedTuple):
    """Something that is not as it should be."""

    expected: str
    found: str


class Unseen(NamedTuple):
    """Something that a rule could not see, and why."""

    text: str


Said: TypeAlias = Iterator[Differs | Unseen]
"""What a rule says of a backend."""

MAX_ERROR_LENGTH = 240
"""Characters of an error's text."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a backend does not keep.

    Attributes:
        rule: its name.
        expected: what it asks for.
        found: what there is instead.
    """

    rule: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.rule}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Note:
    """What a rule could not see.

    Attributes:
        rule: its name.
        text: what, and why.
    """

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Report:
    """What all rules said of a backend.

    Attributes:
        backend: its name.
        findings: the rules that it does not keep; none if it conforms.
        notes: what could not be seen.
    """

    backend: str
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        count = len(self.findings)
        kept = f"{count} finding{'' if count == 1 else 's'}" if count else "conforms"
        lines = [f"backend {self.backend}: {kept}", *(f"  {one}" for one in self.findings)]
        return "\n".join([*lines, *(f"  not seen by {one}" for one in self.notes)])


def of_error(error: BaseException | None) -> str:
    """An error in a line; "no error" if there is none."""
    if error is None:
        return "no error"
    text = " ".join(str(error).split())
    shown = text if len(text) <= MAX_ERROR_LENGTH else f"{text[:MAX_ERROR_LENGTH]}…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__
