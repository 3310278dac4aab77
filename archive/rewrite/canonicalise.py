"""``canonicalise`` writes an exported program so that two exports of one model are the same bytes.

Ids in the metadata of nodes, which differ from run to run, are numbered by their first use. The root folder,
which PyTorch names after the file, becomes ``archive``, as in what it saves to a buffer. The serialization id
is computed again. All else stays: the archive id is the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.json_text import is_exact, read_json
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.container.serialization_id import RECORD_NAME
from archive.container.write import member_from, new_member, write_archive
from archive.formats.archive_id import check_same_id
from archive.formats.exported.canonical import IdNumbering
from archive.formats.exported.program import with_metadata
from archive.formats.record_kinds import UNNAMED_ROOT
from archive.reader.halves.slim import with_new_id
from archive.reader.recognition import SHRUNK_KINDS, FileKind
from archive.reader.rewriting import check_archive, rewriting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.container.record import Record
    from archive.container.write import Member
    from archive.formats.exported.program import Program
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.archive import Archive


@dataclass(frozen=True, slots=True)
class Canonical:
    """The result; sizes in bytes.

    Attributes:
        size: of the archive before.
        out_size: of the archive after.
        ids: how many different ids were numbered, by their kind.
        kept: the records of programs that ``json.dumps`` did not write, and that stay as they are.
        archive_id: in hex; the same before and after.
    """

    size: int
    out_size: int
    ids: Mapping[str, int]
    kept: tuple[str, ...]
    archive_id: str


@bounded
def canonicalise(
    source: Source, out: Sink, *, force: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Canonical:
    """Write an exported program so that another export of the same model gives the same bytes.

    Args:
        source: the archive.
        out: where to write the other one: a path, or a binary file.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the archive isn't an exported program, is broken or changed meanwhile, or the target
            exists or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    with rewriting(source, out, force=force, limits=limits, kinds=SHRUNK_KINDS) as work:
        opened = work.archive
        if opened.recognised.kind is not FileKind.EXPORTED:
            expected = "an exported program"
            raise ArchiveError(expected=expected, found=opened.recognised.what, file=opened.file)
        check_archive(opened)
        numbering, unchanged = IdNumbering(), list[str]()
        members = list(_members(opened, numbering, unchanged))
        size = write_archive(work.drafts[0], UNNAMED_ROOT, with_new_id(members, opened.container.records))
        with work.reopened("the result") as after:
            check_same_id(opened.archive_id, after.archive_id, opened.file)
        return Canonical(opened.size, size, numbering.counts, tuple(unchanged), opened.archive_id.hex())


def _members(opened: Archive, numbering: IdNumbering, unchanged: list[str]) -> Iterator[Member]:
    """The records but the serialization id, without dates; ``unchanged`` gets programs that do not change."""
    programs = {record: opened.programs[name] for name, record in opened.programs.records.items()}
    for name, record in opened.container.records.items():
        if name == RECORD_NAME:
            continue
        data = _program(record, programs[name], numbering) if name in programs else None
        if data is not None:
            yield new_member(name, data, compress=record.entry.deflated)
        else:
            unchanged += [name] if name in programs else []
            yield replace(member_from(record), modified=0)


def _program(record: Record, program: Program, numbering: IdNumbering) -> bytes | None:
    """The record of a program with its ids numbered; None if ``json.dumps`` did not write it."""
    data = record.view()
    with memory.part():
        tree = read_json(data)
        if not is_exact(tree, data):
            return None
        return with_metadata(tree, [numbering.numbered(site.metadata) for site in program.sites.values()])
