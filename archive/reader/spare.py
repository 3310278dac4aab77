"""What the loaders of an archive's compiled models do not need."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.formats.record_kinds import COMPILED, EXPORTED_FORMAT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.container.record import Record
    from archive.formats.elf.cutting import Cut
    from archive.formats.record_kinds import SpareKind


class Spare:
    """Records that are debug information of compiled models, and shared objects that have some in them.

    Args:
        records: of an archive.

    Attributes:
        records: the kinds of those that no loader needs, by name.
    """

    def __init__(self, records: Mapping[str, Record]) -> None:
        self._all = records
        self._compiled = EXPORTED_FORMAT in records and any(name.startswith(COMPILED) for name in records)
        self.records = self._spare() if self._compiled else {}

    def _spare(self) -> dict[str, SpareKind]:
        from archive.formats.compiled.spare import spare_records  # noqa: PLC0415 (few archives have some)

        return spare_records(self._all)

    @cached_property
    def cuts(self) -> dict[str, Cut]:
        """The shared objects that have bytes which are never mapped, each in two parts, by name.

        Raises:
            ArchiveError: one cannot be inflated.
        """
        from archive.formats.compiled.spare import cut_of  # noqa: PLC0415 (few archives have some)

        found = {record.name: cut_of(record) for record in self._objects}
        return {name: one for name, one in found.items() if one is not None}

    @cached_property
    def whole(self) -> dict[str, str]:
        """Why shared objects stay whole that may have bytes which are never mapped, in words, by name.

        Raises:
            ArchiveError: one cannot be inflated.
        """
        from archive.formats.compiled.spare import why_whole  # noqa: PLC0415 (few archives have some)

        found = {record.name: why_whole(record.view()) for record in self._objects}
        return {name: why for name, why in found.items() if why}

    @cached_property
    def _objects(self) -> list[Record]:
        """The shared objects."""
        if not self._compiled:
            return []
        from archive.formats.compiled.spare import is_object  # noqa: PLC0415 (few archives have some)

        return [record for name, record in self._all.items() if is_object(name)]

    @property
    def kinds(self) -> set[SpareKind]:
        """The kinds that the archive has."""
        if not self._compiled:
            return set()
        from archive.formats.record_kinds import SpareKind  # noqa: PLC0415 (few archives have some)

        return {*self.records.values(), *({SpareKind.OBJECT} if self.cuts else ())}

    def left(self, kinds: Collection[str]) -> dict[str, bytes]:
        """What is left of shared objects, by name, unless they are kept.

        Args:
            kinds: those that are kept.
        """
        return {} if "object" in kinds else {name: one.left for name, one in self.cuts.items()}
