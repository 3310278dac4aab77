"""What a file says of its writer: one answer for inspections, inventories and report pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.formats.record_kinds import version_record

if TYPE_CHECKING:
    from archive.reader.archive import Archive


def version_text(archive: Archive) -> str | None:
    """The version of the archive format, as its record has it; None without that record."""
    name = version_record(archive.records)
    return None if name is None else decoded(archive.records[name].view()[:64]).strip()


def releases_named(archive: Archive) -> dict[str, str]:
    """The releases by which programs say they were exported, each with the name of its first program."""
    releases: dict[str, str] = {}
    for name, program in archive.programs.items():
        if program.release:
            releases.setdefault(program.release, name)
    return releases
