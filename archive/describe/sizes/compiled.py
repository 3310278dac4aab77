"""The bytes of compiled models: what the loader needs of them, and what is debug information.

Of a shared object, bytes behind all that the loader maps are debug information. ``split`` takes just these,
where it can cut the object. Bytes that were appended to it are not: they may be weights.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.describe.sizes.account import Part
from archive.describe.sizes.contents import Cell
from archive.formats.compiled.spare import spare_records
from archive.formats.elf.model import ObjectPart
from archive.formats.elf.parse import is_elf, other_object, parse_object
from archive.formats.record_kinds import RecordKind, SpareKind, kind_in_exported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.describe.sizes.contents import Contents
    from archive.reader.archive import Archive


def compiled_contents(archive: Archive) -> Contents:
    """The cells of records of compiled models that are debug information, or have some inside, by name."""
    records = archive.records
    found = {
        name: [Cell(None, None, records[name].size, kind)] for name, kind in spare_records(records).items()
    }
    for name, record in records.items():
        if kind_in_exported(name) is RecordKind.SHARED_OBJECT:
            try:
                found[name] = list(_object_cells(record.view()))
            except ArchiveError:
                found[name] = [Cell(Part.UNREADABLE, None, record.size)]
    return found


def _object_cells(data: memoryview) -> Iterator[Cell]:
    """The cells of a shared object; one of another format than ELF is one cell, called by its format.

    Raises:
        ArchiveError: its headers contradict one another.
    """
    if not is_elf(data):
        yield Cell(other_object(data) or None, None, len(data))
        return
    made = parse_object(data)
    sums: Counter[Cell] = Counter()
    for one in made.stretches():
        spare = one.start >= made.needed and one.part is not ObjectPart.APPENDED
        kind = SpareKind.OBJECT if spare else None
        sums[Cell(f"ELF {one.part}", None, 0, kind)] += one.end - one.start
    yield from (cell._replace(size=size) for cell, size in sums.items())
