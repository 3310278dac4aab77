"""What lies in a store, and what a person means by a word: an id, a prefix, a name."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from archive.base.errors import ArchiveError, several
from archive.store.entries import CompanionEntry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EntryT = TypeVar("EntryT", bound=CompanionEntry)

BEGINNING = re.compile(r"[0-9a-f]{4,32}")
"""The beginning of an archive id."""
TOO_SHORT = re.compile(r"[0-9a-f]{1,3}")
"""Too short for the beginning of an archive id."""


class StoreContents(NamedTuple, Generic[EntryT]):
    """What lies in a store.

    Attributes:
        unread: those that cannot be read, by archive id or the name of their object, each with the reason.
        foreign: names that aren't the store's files. Those that begin with a dot are left out.
        bases: bytes of what removed companions have left.
    """

    entries: Sequence[EntryT]
    unread: Mapping[str, str]
    foreign: Sequence[PurePath]
    bases: int


def meant_by(entries: Sequence[EntryT], word: str) -> Sequence[EntryT]:
    """The companions that a word may mean.

    Args:
        word: an archive id or the beginning of one (four digits or more), a prefix of unique handles, a
            serialization id, the name of the file that was added, with or without ending, the class of the
            top module, a label of a release, by itself or after any of these names (``Ranker@1.4.2``), or a
            name and an id as `store ls` has them: ``Ranker@3f9a1234abcd``, with the beginning of a digest,
            ``…/827950d1``, where a bucket has several of an archive id.
    """
    meant = [
        entry
        for entry in entries
        if word in {*entry.facts.ids, entry.name, entry.full_name, *entry.titles}
        or word in entry.facts.names(entry.file) | entry.release_names
    ]
    name, _, beginning = word.rpartition("@")
    digits = beginning.lower()
    if not meant and BEGINNING.fullmatch(digits):
        meant = [
            entry
            for entry in entries
            if entry.archive_id.startswith(digits) or entry.facts.redacted_id.startswith(digits)
            if not name or name in entry.facts.names(entry.file)
        ]
    return meant


def one_of(entries: Sequence[EntryT], word: str, store: str) -> EntryT:
    """The only companion that a word means."""
    meant = meant_by(entries, word)
    if len(meant) == 1:
        return meant[0]
    if not meant:
        short = "; of an id, give four digits or more" if TOO_SHORT.fullmatch(word.lower()) else ""
        known = short or _labels_known(entries, word.rpartition("@")[0])
        raise ArchiveError(f"no companion has the id, prefix, name or label {word!r}{known}", file=store)
    is_id_enough = len({entry.archive_id for entry in meant}) > 1
    names = several([entry.titles[not is_id_enough] for entry in meant])
    wanted = "the id" if is_id_enough else "one of these names"
    labelled = (f"{name}@{one}" for entry in meant for one in entry.labels for name in _files(entry))
    offered = next((word for word in labelled if len(meant_by(entries, word)) == 1), "")
    if offered:
        wanted += f", or a label like {offered}"
    raise ArchiveError(f"{word!r} may be {names}; give {wanted}", file=store)


def _files(entry: CompanionEntry) -> tuple[str, str]:
    """The name of the file that was added, without ending and with it."""
    return PurePath(entry.file).stem, PurePath(entry.file).name


def _labels_known(entries: Sequence[EntryT], name: str) -> str:
    """The labels of companions that have a name, in words; "" where there are none."""
    labels = dict.fromkeys(
        label for entry in entries if name in entry.facts.names(entry.file) for label in entry.labels
    )
    return f"; {name} has the labels {several([*labels])}" if labels else ""
