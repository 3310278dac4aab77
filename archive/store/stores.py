"""What a store offers, wherever it lies: in a folder, in a bucket, or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from archive.store.entries import CompanionEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from archive.base.diagnostics import Diagnostic
    from archive.base.limits import Limits
    from archive.io.mapped import Source
    from archive.reader.archive import Archive
    from archive.store.adding import MadeCompanion
    from archive.store.entries import Addition
    from archive.store.finding import StoreContents
    from archive.store.kept import Given
    from archive.store.upkeep import Cleaned

EntryT = TypeVar("EntryT", bound=CompanionEntry)


class AnyStore(Protocol[EntryT]):
    """A store in a folder, in a bucket, or on a server."""

    @property
    def file(self) -> str:
        """Its path, URL or address, for messages."""

    @property
    def unread(self) -> Mapping[str, str]:
        """The companions that cannot be read, each with the reason."""

    @property
    def damaged(self) -> Mapping[str, EntryT]:
        """What is known of those among them that were readable once."""

    def entries(self) -> Sequence[EntryT]:
        """All companions, in the order of their ids."""

    def opened_of(self, entry: EntryT) -> Archive:
        """A companion, opened for reading."""

    def add(
        self, source: Source, *, name: str = "", replace: bool = False, label: str = ""
    ) -> Addition[EntryT]:
        """Add a companion, or the companion of an archive.

        Args:
            name: of the file; by default its path.
            replace: remove others of its archive id.
            label: what a release of it is called. One that is there already gets one more.

        Raises:
            NoDebugInfoError: it is an archive without debug info.
            TakenError: its archive id or prefix is another one's.
        """


class OwnStore(AnyStore[EntryT], Protocol[EntryT]):
    """A store that this process reads and changes itself: in a folder, or in a bucket."""

    @property
    def limits(self) -> Limits:
        """The limits of each companion."""

    def add(
        self, source: Source | MadeCompanion, *, name: str = "", replace: bool = False, label: str = ""
    ) -> Addition[EntryT]:
        """The same, also of what :func:`~archive.store.adding.made_of` made of a file."""

    def find(self, word: str) -> Sequence[EntryT]:
        """The companions that a word may mean: see :func:`~archive.store.finding.meant_by`."""

    def one(self, word: str) -> EntryT:
        """The only companion that a word means."""

    def listing(self) -> StoreContents[EntryT]:
        """All companions, and all foreign names."""

    def given_of(self, entry: EntryT) -> Given:
        """A companion file, as it was added."""

    def lines_of(self, entry: EntryT) -> Mapping[str, bytes]:
        """The digests of lines that are noted beside a companion, concatenated, by code record."""

    def remove(self, key: str, /) -> None:
        """Remove the companion of an entry's ``key``."""

    def gc(self) -> Cleaned:
        """Remove leftovers."""

    def check(self) -> Iterator[Diagnostic]:
        """Look for what is wrong; the ``record`` of each diagnostic is a file or an object of the store."""

    def close(self) -> None:
        """Write what is not written yet."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
