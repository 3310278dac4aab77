"""The exported programs of an archive, each parsed when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.formats.record_kinds import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.exported.program import Program
    from archive.reader.records import Records


class Programs(Mapping[str, "Program"]):
    """The exported programs by name; ``torch.export.save`` calls the only one ``model``.

    Looking one up raises :class:`~archive.ArchiveError`, with the JSON path, where its record is no program.

    Args:
        source: the archive's records.
    """

    def __init__(self, source: Records) -> None:
        folder, ending = PROGRAMS
        self._source = source
        self._records = {
            name.removeprefix(folder).removesuffix(ending): name
            for name in source.records
            if name.startswith(folder) and name.endswith(ending)
        }
        self._parsed: dict[str, Program] = {}

    def __getitem__(self, name: str) -> Program:
        record = self._records[name]
        if name not in self._parsed:
            from archive.formats.exported.json_text import read_json  # noqa: PLC0415 (few archives have programs)
            from archive.formats.exported.program import Program  # noqa: PLC0415 (the same)

            try:
                tree = read_json(self._source.records[record].view(), self._source.allowance)
                self._parsed[name] = Program(name, tree)
            except ArchiveError as error:
                raise error.within(file=self._source.file, record=record) from error.__cause__
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)
