"""What a store knows of a companion without opening it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.reader.facts import Facts
    from archive.store.kept import KeptHeader, Notes
    from archive.store.opened import Signature

ID_SHOWN = 12
"""Digits of an archive id that are shown."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A companion in a store.

    Attributes:
        facts: archive id, prefix, serialization id, classes, handles and code records. The serialization id
            is known where the archive itself was added.
        root: the folder of all records in the archive; "" where it is not known.
        file: the name of the file that was added, without folder.
        added: when, in seconds since 1970.
        size: bytes of the companion.
        digest: blake2b of the companion, 16 bytes in hex.
        body: digest of what it gives its kin as a base, in hex.
        base: digest of the base that its own file needs, in hex; "" where it needs none.
        depth: how many bases lie below.
        signature: the state of its file in the store.
    """

    facts: Facts
    root: str
    file: str
    added: int
    size: int
    digest: str
    body: str
    base: str
    depth: int
    signature: Signature

    @classmethod
    def of(cls, facts: Facts, notes: Notes, header: KeptHeader, signature: Signature) -> Entry:
        """The entry of a companion that was read."""
        return cls(
            replace(facts, serialization_id=notes.serialization_id),
            notes.root,
            notes.file,
            notes.added,
            header.size,
            header.digest.hex(),
            header.body.hex(),
            header.base_name,
            header.depth,
            signature,
        )

    @property
    def archive_id(self) -> str:
        """The archive id, in hexadecimal digits."""
        return self.facts.archive_id

    @property
    def prefix(self) -> int:
        """The prefix of its unique handles; 0 where there are none."""
        return self.facts.prefix

    @property
    def kept_size(self) -> int:
        """Bytes of its file in the store, without its base."""
        return self.signature.size

    @property
    def label(self) -> str:
        """Name and id: ``Ranker@3f9a1234abcd``."""
        return label_of(self.file, self.archive_id)


def label_of(file: str, archive_id: str) -> str:
    """The name of a file and the beginning of an archive id: ``Ranker@3f9a1234abcd``."""
    return f"{PurePath(file).stem}@{archive_id[:ID_SHOWN]}"
