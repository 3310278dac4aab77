"""The redacted archive and its companion, from what rewriters made."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.quick_dataclass import dataclass
from archive.companion.build import build_companion
from archive.container.names import as_bytes
from archive.container.serialization_id import RECORD_NAME
from archive.container.write import alignment_of, member_from, new_member, write_archive
from archive.formats.archive_id import archive_id, counted_names
from archive.formats.record_kinds import EMBEDDED, EMBEDDED_IN_EXPORTED, MIGRATED, divided_programs
from archive.reader.collect import collect
from archive.reader.halves.joined import check_gives, with_digest
from archive.reader.halves.slim import with_new_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from archive.companion.contents import Contents
    from archive.container.write import Member
    from archive.reader.archive import Archive

ORIGINALS = {MIGRATED, EMBEDDED, EMBEDDED_IN_EXPORTED}
"""Records that hold debug information as it was: no redacted archive has them."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a redaction does to an archive.

    Attributes:
        records: replacements of records, by name; None where one goes.
        renamed: records that get other names, and these; ``records`` has the old names.
        salt: the key of the hashes that stand for names, if some do.
        root: the folder of all records.
        times: whether records keep their dates.
        asked: the choices that were made, as options of the command.
    """

    records: Mapping[str, bytes | None]
    renamed: Mapping[str, str] = field(default_factory=dict)
    salt: bytes = b""
    root: str = ""
    times: bool = False
    asked: str = ""

    @property
    def gone(self) -> set[str]:
        """The records that go, where there are any."""
        return {name for name, data in self.records.items() if data is None} | ORIGINALS


def write_redacted(file: BinaryIO, opened: Archive, changes: Changes) -> None:
    """Write the redacted archive, with a serialization id of its own."""
    records = opened.container.records
    members = with_new_id(_members(opened, changes), records)
    write_archive(file, changes.root, members, alignment=alignment_of(records))


def _members(opened: Archive, changes: Changes) -> Iterator[Member]:
    gone = {RECORD_NAME, *changes.gone}
    for name, record in opened.container.records.items():
        if name in gone:
            continue
        data = changes.records.get(name)
        member = member_from(record)
        if data is not None and data != record.view():
            member = replace(new_member(name, data, compress=record.entry.deflated), modified=member.modified)
        if name in changes.renamed:
            member = replace(member, name=changes.renamed[name])
        yield member if changes.times else replace(member, modified=0)


def companion_contents(opened: Archive, after: Archive, changes: Changes) -> tuple[Contents, bytes]:
    """The companion: all that the archive was and the redacted one isn't; and the bytes of its file."""
    # the records of the model that the redacted archive does not have as they were
    before = opened.container.records
    # A join would put metadata that an embedded companion has into the program, where it never was.
    others = {*changes.renamed, *(opened.programs.records.values() if opened.is_embedded else ())}
    raw = [
        name
        for name in counted_names(before)
        if name in others or (name in changes.records and not _is_kept(name, opened, after))
    ]
    contents = collect(opened, raw)
    if opened.is_embedded and (prefix := opened.handle_form.prefix):
        contents = contents.with_columns({**contents.columns, "file.prefix": np.array([prefix])})
    redacted_id = after.archive_id
    facts: dict[str, list[bytes]] = {}
    if redacted_id != contents.archive_id:
        facts["file.redacted"] = [redacted_id.hex().encode()]
    if changes.root != opened.root:
        facts["file.root"] = [as_bytes(opened.root)]
    if changes.salt:
        facts["file.salt"] = [changes.salt.hex().encode()]
    if changes.renamed:
        facts["replaced.name"] = list(map(as_bytes, changes.renamed))
        facts["replaced.by"] = list(map(as_bytes, changes.renamed.values()))
    contents = contents.with_strings(facts) if facts else contents
    here = after.container.records
    contents = with_digest(contents, opened, here)
    companion = build_companion(contents)
    together = redacted_id
    if redacted_id != contents.archive_id:
        left = {name: data for name, data in after.programs.left.items() if name not in raw}
        left |= {name: data for name, data in opened.programs.left.items() if name in raw}
        # the records that a join takes from the redacted archive, and those that the companion has whole
        new_names = set(changes.renamed.values())
        taken_over = {name: record for name, record in here.items() if name not in new_names}
        together = archive_id(ChainMap({name: before[name] for name in raw}, taken_over), left)
    check_gives(contents, memoryview(companion), together)
    return contents, companion


def _is_kept(name: str, opened: Archive, after: Archive) -> bool:
    """Whether a record differs only in the debug information inside it."""
    if name not in after.container.records:
        return False
    before, here = opened.container.records[name].view(), after.container.records[name].view()
    if name in opened.programs.left and name in divided_programs(opened.container.records):
        return opened.programs.left[name] == after.programs.left.get(name)
    if name in opened.spare.cuts:
        return opened.spare.cuts[name].left == here[: opened.spare.cuts[name].size]
    return before == here
