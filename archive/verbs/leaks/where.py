"""Where in a record a finding stands: the path in JSON, the section of a shared object."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.formats.elf.parse import is_elf, parse_object
from archive.pieces.json_places import JsonPlaces
from archive.verbs.leaks.findings import Place

if TYPE_CHECKING:
    from archive.formats.elf.model import Stretch
    from archive.pieces.piece import Piece


class Where:
    """Places in a piece.

    Args:
        piece: the piece.
    """

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def line(self, position: int) -> Place:
        """The place of what stands at a position in the lines of the piece."""
        return self.byte(self._piece.strings.place(position))

    def byte(self, position: int) -> Place:
        """The place of a byte of the piece."""
        piece = self._piece
        if self._json is not None:
            within = self._json.path(position)
        else:
            within = self._section(position) if self._stretches else ""
        return Place(piece.record, piece.place(position), within)

    @cached_property
    def _json(self) -> JsonPlaces | None:
        json = self._piece.strings.json
        return None if json is None else JsonPlaces(json, self._piece.allowance)

    @cached_property
    def _stretches(self) -> list[Stretch]:
        """The sections, of a shared object whose headers agree."""
        if not is_elf(self._piece.data):
            return []
        try:
            return list(parse_object(self._piece.data).stretches())
        except LimitError:
            raise
        except ArchiveError:
            return []

    def _section(self, position: int) -> str:
        number = bisect_right(self._stretches, position, key=lambda one: one.start) - 1
        one = self._stretches[number]
        return f"{one.name or one.part}, {'mapped' if one.mapped else 'not mapped'}"
