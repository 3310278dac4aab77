"""A model that failures are asked about, and what their kinds have made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.reader.archive import Archive

T = TypeVar("T")


class OneModel:
    """An archive, or a companion, that may have failed."""

    def __init__(self, archive: Archive, style: Style, spending: Spending) -> None:
        self.archive, self.style, self.spending = archive, style, spending
        self._made: dict[object, Any] = {}

    def made(self, make: Callable[[OneModel], T]) -> T:
        """What a kind of failures makes of the model, once."""
        if make not in self._made:
            self._made[make] = make(self)
        known: T = self._made[make]
        return known
