"""A text that a redaction finds in its result, or has not looked for."""

from __future__ import annotations

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RedactionText:
    """A text that a redaction was to remove, or keeps.

    Attributes:
        what: it is: a word of ``sought``, or a kind of finding of :func:`archive.leaks`.
        text: itself.
        place: the first one in the result; "" if it was not searched for.
    """

    _json_ = ("what", "text", "place?")

    what: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.what} {one_line(self.text)}{f' in {self.place}' if self.place else ''}"
