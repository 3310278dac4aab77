"""Annotations: lines by which a CI shows a finding beside the file that it is about.

GitHub's are workflow commands, ``::error file=model.ptl,title=over budget::debug: 3,017 bytes``. Its runner
undoes the escapes here (``ActionCommand.cs``), keeps ten annotations of a severity for a step, and 4,096
characters of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 10
"""Annotations of a severity that GitHub keeps for a step."""
_IN_MESSAGES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_MESSAGES, ":": "%3A", ",": "%2C"}

Severity = Literal["error", "warning"]


class Annotation(NamedTuple):
    """What is said beside a file.

    Attributes:
        severity: how it is shown.
        file: relative to the repository.
        title: its heading.
        message: its text, of one line or several.
    """

    severity: Severity
    file: str
    title: str
    message: str

    def github(self) -> str:
        """The annotation as a workflow command of GitHub, on one line."""
        properties = (
            f"file={_escaped(self.file, _IN_PROPERTIES)},title={_escaped(self.title, _IN_PROPERTIES)}"
        )
        return f"::{self.severity} {properties}::{_escaped(self.message, _IN_MESSAGES)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
