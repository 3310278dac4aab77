"""Lines of a log that name a model: by an id or a name that a pattern finds, or by an archive id as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.base.strings import decoded
from archive.verbs.logs.beginnings import has_failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.fleet.models import Model, Models

ARCHIVE_ID = re.compile(rb"(?<![0-9a-fA-F])[0-9a-f]{32}(?![0-9a-fA-F])")
NEAR = 5
"""Lines above a failure in which an archive id names its model, without any pattern."""
MAX_SEARCHED = 1 << 14
"""Bytes of a line in which names are sought."""


class Named(NamedTuple):
    """A line that names models.

    Attributes:
        models: those that it may mean; none where no model has that id or name.
        text: the id or name.
        line: the line's number.
    """

    models: Sequence[Model]
    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line} names {shown(self.text)}"


class Naming:
    """Takes note of the lines that name a model. What a pattern finds holds until it finds something else.

    Args:
        models: the models.
        ids: a pattern whose first group, or whole match, is an archive id, prefix or serialization id. A
            line in which that is empty names none.
        names: the same for the name of a file or of the top module's class.

    Raises:
        ArchiveError: a pattern is no regular expression.
    """

    def __init__(self, models: Models, *, ids: str | None = None, names: str | None = None) -> None:
        self._models = models
        self._patterns = [
            (compiled(pattern), known)
            for pattern, known in ((ids, "by_id"), (names, "by_name"))
            if pattern is not None
        ]
        self._found: Named | None = None
        self._near: Named | None = None
        self._had_failure = False
        self._number = 0

    @property
    def named(self) -> Named | None:
        """The line that names the model of a failure in the line seen last; None where none does."""
        if self._found is not None:
            return self._found
        return self._near if self._is_near() else None

    def _is_near(self) -> bool:
        return self._near is not None and self._number - self._near.line <= NEAR

    def saw(self, line: bytes, number: int) -> None:
        """Take note of a line.

        Args:
            line: the line.
            number: its number.
        """
        self._number = number
        if len(line) > MAX_SEARCHED:
            self._found = None  # it may name another model further on
        line = line[:MAX_SEARCHED]
        for pattern, known in self._patterns:
            found = pattern.search(line)
            name = found and found[1 if pattern.groups else 0]
            if name:
                text = decoded(name)
                by: Mapping[str, Sequence[Model]] = getattr(self._models, known)
                self._found = Named(by.get(text, ()), text, number)
                return
        self._saw_ids(line, number)
        self._had_failure |= has_failure(line)

    def _saw_ids(self, line: bytes, number: int) -> None:
        """Take note of the archive ids in a line.

        Lines of several models may stand between one another: a failure may be of each that is named near it,
        but of none that is named above an earlier failure.
        """
        found = [decoded(one[0]) for one in ARCHIVE_ID.finditer(line)]
        ids = [one for one in found if one in self._models.by_id]
        if not ids:
            return
        models = [model for one in ids for model in self._models.by_id[one]]
        if self._near and self._is_near() and not self._had_failure:
            models = [*self._near.models, *models]
        self._near = Named(list(dict.fromkeys(models)), ids[-1], number)
        self._had_failure = False


def compiled(pattern: str) -> re.Pattern[bytes]:
    """A pattern that a user gave, for lines of a log.

    Raises:
        ArchiveError: it is no regular expression.
    """
    try:
        return re.compile(pattern.encode("utf-8", "surrogateescape"))
    except (re.error, ValueError, OverflowError) as error:
        raise ArchiveError(f"{shown(pattern)} is no regular expression: {error}") from None
