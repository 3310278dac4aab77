"""What is kept of a file that is added: the companion itself, or the one that ``split`` would make of it."""

from __future__ import annotations

import os
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.mapped import Mapped, in_memory
from archive.companion.magic import is_companion
from archive.formats.exported.kinds import MetadataKind
from archive.formats.record_kinds import KINDS_TO_SOURCE, kind_of, place_of_companion
from archive.reader import opening
from archive.reader.collect import line_digests_of
from archive.reader.facts import facts_of
from archive.reader.line_digests import packed_digests
from archive.reader.recognition import SHRUNK_KINDS
from archive.rewrite.split import companion_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.limits import Limits
    from archive.base.mapped import Source
    from archive.reader.archive import Archive


class NoDebugInfoError(ArchiveError):
    """An archive from which no companion can be made."""


class Made(NamedTuple):
    """A companion, and the facts about its archive that it does not hold itself.

    Attributes:
        companion: the companion file.
        file: the name of the file that it was made of, without folder.
        root: the folder of all records in the archive; "" where it is not known.
        serialization_id: of the archive; "" where it is not known.
        lines: digests of the lines of each code record, one behind the other; none where it has no code.
    """

    companion: bytes
    file: str
    root: str
    serialization_id: str
    lines: Mapping[str, bytes] = MappingProxyType({})


def made_of(source: Source, name: str, limits: Limits) -> Made:
    """The companion of a companion, or of an archive with debug info.

    Args:
        source: the file.
        name: how it is called; by default by its path.
        limits: what it may cost.

    Raises:
        NoDebugInfoError: it is an archive without debug info.
        ArchiveError: it is of another kind, or contradicts itself.
        OSError: it cannot be read.
    """
    file = Mapped(in_memory(source), name or None)
    label = one_line(PurePath(os.fspath(name) or file.name).name)
    data = bytes(file.data) if is_companion(file.data) else b""
    allowance = limits.allowance(len(file.data))
    with opening.opened(file, allowance, SHRUNK_KINDS) as opened, in_file(opened.file):
        if data:
            _ = opened.records  # all of it is read and checked
            return Made(data, label, "", "")
        made = _companion_of(opened)
        lines = {name: packed_digests(digests) for name, digests in line_digests_of(opened).items()}
        return Made(made, label, one_line(opened.root), facts_of(opened).serialization_id, lines)


def _companion_of(opened: Archive) -> bytes:
    """The companion in an archive, or the one that ``split`` would make of it.

    Raises:
        NoDebugInfoError: there is none.
    """
    if opened.companion is not None:
        records = opened.container.records
        return bytes(records[place_of_companion(records)].view())
    kinds = {kind_of(name) for name in opened.container.records}
    traced = MetadataKind.TRACES in opened.programs.kinds or bool(opened.spare.records)
    if not kinds & KINDS_TO_SOURCE and not traced:  # handles that a split archive keeps lead nowhere
        raise NoDebugInfoError("no debug info in it", file=opened.file)
    return companion_of(opened)
