"""What is known of a companion in a store without opening it; entries ↔ JSON, as a server lists them.

The JSON of a server is a stranger's: each value is checked for its type and its bounds.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from archive.base.errors import ArchiveError, shown
from archive.base.quick_dataclass import dataclass
from archive.formats.archive_id import ID_TEXT, ID_WORDS
from archive.formats.release_label import LABEL_TEXT, LABEL_WORDS, MOST_LABELS, labels_in_words, release_names
from archive.formats.schema.json import JsonClass, ListOf, Matching, UpTo, checked
from archive.reader.facts import Facts, facts_of

if TYPE_CHECKING:
    from archive.reader.archive import Archive
    from archive.store.kept import KeptHeader, KeptNotes
    from archive.store.opened import Signature

    Outcome = Literal["added", "same", "labelled", "replaced"]

EntryT_co = TypeVar("EntryT_co", bound="CompanionEntry", covariant=True)

COMPANIONS, MOST_LISTED = "/v1/companions", 1_000
"""Where a server lists companions, and how many a page of its list has."""
LINES = "lines"
"""Below a companion: the digests of lines that are noted beside it, in base64 by code record."""
ID_SHOWN = 12
"""Digits of an archive id that are shown."""
ID, NUMBER = Matching(ID_TEXT, ID_WORDS), UpTo((1 << 63) - 1)
ENTRY = JsonClass(
    {
        "archive_id": ID,
        "redacted_id": Matching(re.compile(rf"(?:{ID_TEXT.pattern})?"), f"{ID_WORDS}, or none"),
        "prefix": NUMBER,
        "serialization_id": "str",
        "top": "str",
        "qualified_top": "str",
        "root": "str",
        "file": "str",
        "added": NUMBER,
        "size": NUMBER,
        "kept_size": NUMBER,
        "digest": ID,
        "handles": ListOf(ListOf(NUMBER)),
        "code": ListOf("str"),
    },
    {"labels": ListOf(Matching(LABEL_TEXT, LABEL_WORDS))},
    docs={
        "archive_id": "of its archive, in hex",
        "redacted_id": "that of the redacted archive that it fits, too; empty for none",
        "prefix": "of unique handles; 0 for none",
        "serialization_id": "of its archive",
        "top": "class of the top module",
        "qualified_top": "the same with its module",
        "root": "the folder of all records in the archive; empty where it is not known",
        "file": "the name of the file that was added",
        "added": "when, in seconds since 1970",
        "size": "bytes of the companion",
        "kept_size": "bytes of its file in the store",
        "digest": "of the companion",
        "handles": "ascending runs: the first and the last of each",
        "code": "the names of the code records",
        "labels": "of the releases that have it, in the order of adding",
    },
)
"""What ``store ls --json`` and a server say of a companion."""


@dataclass(frozen=True, slots=True)
class CompanionEntry:
    """A companion in a store; ``added`` in seconds since 1970.

    The serialization id in its facts is known where the archive itself was added.
    """

    facts: Facts
    root: str
    file: str
    added: int
    size: int
    digest: str
    labels: tuple[str, ...]

    @property
    def archive_id(self) -> str:
        """The archive id, in hexadecimal digits."""
        return self.facts.archive_id

    @property
    def key(self) -> str:
        """What its store knows it by."""
        return self.archive_id

    @property
    def prefix(self) -> int:
        """The prefix of its unique handles; 0 where there are none."""
        return self.facts.prefix

    @property
    def name(self) -> str:
        """Name and id: ``Ranker@3f9a1234abcd``."""
        return name_of_kept(self.file, self.archive_id)

    @property
    def full_name(self) -> str:
        """The same with the beginning of its digest, where a store has several of an archive id."""
        return f"{self.name}/{self.digest[:8]}"

    @property
    def titles(self) -> tuple[str, str]:
        """Both names with the labels of its releases: ``Ranker@3f9a1234abcd (1.4.2)``."""
        return labels_in_words(self.name, self.labels), labels_in_words(self.full_name, self.labels)

    @property
    def release_names(self) -> frozenset[str]:
        """What a person may call its releases: a label, by itself or after any name of the companion."""
        return release_names(self.facts.names(self.file), self.labels)

    def has_in_name(self, part: str) -> bool:
        """Whether its file's name, its top class or a label has a part, in whatever case."""
        wanted = part.casefold()
        return any(wanted in word.casefold() for word in (self.file, self.facts.top, *self.labels))


@dataclass(frozen=True, slots=True)
class StoreEntry(CompanionEntry):
    """A companion in a store's folder.

    Attributes:
        body: digest of what it gives its kin as a base, in hex.
        base: digest of the base that its own file needs, in hex; "" where it needs none.
        depth: how many bases lie below.
    """

    body: str
    base: str
    depth: int
    signature: Signature

    @classmethod
    def of(cls, facts: Facts, notes: KeptNotes, header: KeptHeader, signature: Signature) -> StoreEntry:
        """The entry of a companion that was read."""
        from archive.store.kept import base_name  # noqa: PLC0415 (the entries of a server do without)

        own = header.body.hex(), base_name(header), header.depth, signature
        return cls(*read_values(facts, notes, header), *own)

    @property
    def kept_size(self) -> int:
        """Bytes of its file in the store, without its base."""
        return self.signature.size


@dataclass(frozen=True, slots=True)
class ServerEntry(CompanionEntry):
    """A companion in the store of a server, as the server lists it."""

    kept_size: int


class Addition(NamedTuple, Generic[EntryT_co]):
    """The result of adding a file to a store."""

    entry: EntryT_co
    outcome: Outcome


AnyEntry: TypeAlias = StoreEntry | ServerEntry


def read_values(
    facts: Facts, notes: KeptNotes, header: KeptHeader
) -> tuple[Facts, str, str, int, int, str, tuple[str, ...]]:
    """What every entry has of a companion that was read: the values of a :class:`CompanionEntry`."""
    known = replace(facts, serialization_id=notes.serialization_id)
    return known, notes.root, notes.file, notes.added, header.size, header.digest.hex(), notes.labels


def as_listed(archive: Archive, entry: CompanionEntry, where: str) -> Archive:
    """A companion that was opened, if it is what its entry says; ``where`` names the entry's origin."""
    # Only the archive itself has the serialization id.
    facts = replace(facts_of(archive), serialization_id=entry.facts.serialization_id)
    for field in fields(facts):
        if getattr(facts, field.name) != getattr(entry.facts, field.name):
            archive.close()
            raise ArchiveError(f"contradicts {where}: {field.name}", file=archive.file)
    return archive


def name_of_kept(file: str, archive_id: str) -> str:
    """The name of a file and the beginning of an archive id: ``Ranker@3f9a1234abcd``."""
    return f"{PurePath(file).stem}@{archive_id[:ID_SHOWN]}"


def entry_json(entry: AnyEntry, *, complete: bool) -> dict[str, Any]:
    """What a server says of a companion; if ``complete``, with handles and code records."""
    facts = entry.facts
    values: dict[str, Any] = {
        "archive_id": facts.archive_id,
        "redacted_id": facts.redacted_id,
        "prefix": facts.prefix,
        "serialization_id": facts.serialization_id,
        "top": facts.top,
        "qualified_top": facts.qualified_top,
        "root": entry.root,
        "file": entry.file,
        "added": entry.added,
        "size": entry.size,
        "kept_size": entry.kept_size,
        "digest": entry.digest,
        "labels": list(entry.labels),
    }
    if complete:
        values["handles"] = [[run.start, run.stop - 1] for run in facts.handles]
        values["code"] = sorted(facts.code)
    return values


def parsed_entry(values: object) -> ServerEntry:
    """An entry of what a server says of a companion, all of it."""
    given: dict[str, Any] = checked(values, ENTRY)
    labels = tuple(given.get("labels", []))  # a server of before there were some lists none
    if len(labels) > MOST_LABELS:
        raise ArchiveError(place="labels", expected=f"{MOST_LABELS} at most", found=f"{len(labels):,}")
    known = given | {
        "handles": _runs(given["handles"]),
        "code": frozenset(given["code"]),
        "labels": labels,
    }
    facts = Facts(**{field.name: known[field.name] for field in fields(Facts)})
    own = {field.name: known[field.name] for field in fields(ServerEntry) if field.name in known}
    return ServerEntry(facts, **own)


def _runs(values: list[list[int]]) -> tuple[range, ...]:
    """Ascending runs of handles."""
    runs: list[range] = []
    end = -1
    for run in values:
        match run:
            case [first, last] if end < first <= last:
                runs.append(range(first, last + 1))
                end = last
            case _:
                raise ArchiveError(place="handles", expected="ascending runs", found=shown(run))
    return tuple(runs)
