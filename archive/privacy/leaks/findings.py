"""Findings of a file, each text once: how often it was found, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archive.formats.record_kinds import RecordKind
from archive.privacy.leaks.kinds import LeakKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from archive.reader.recognition import FileKind

MOST_TEXTS = 10_000
"""Texts of a kind that are kept apart; others are counted."""
MOST_PLACES = 3
"""Places of a text that are kept."""
MOST_CHARACTERS = 500
"""Characters of a text that are kept."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands.

    Attributes:
        record: its record; of a zip in a record both names, with ``!`` between; "" for none.
        byte: in the record's inflated bytes, or in the file; None for the record as a whole.
        within: what of the record that is: a path in JSON, a section of a shared object, and whether that is
            mapped; "" where it has no parts that are known.
        kind: of the record.
    """

    record: str
    byte: int | None = None
    within: str = ""
    kind: RecordKind = RecordKind.OTHER

    def __str__(self) -> str:
        at = "" if self.byte is None else f"byte {self.byte:,}"
        return ", ".join(part for part in (self.record, at, self.within) if part)


@dataclass(slots=True)
class Finding:
    """A text that gives something away.

    Attributes:
        kind: what it gives away.
        text: the text; a long one is cut.
        data: its bytes.
        count: how often it was found.
        places: the first places, one a record.
        allowed: whether a pattern of the user allows it.
        remedy: how it gets out of the file, in words.
    """

    kind: LeakKind
    text: str
    data: bytes = b""
    count: int = 0
    places: list[Place] = field(default_factory=list)
    allowed: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Leaks:
    """What a file gives away.

    Attributes:
        file: its name.
        kind: of the file.
        findings: by kind, the most frequent first.
        more: of each kind of which more texts were found than are kept, how many finds those are.
        read: inflated bytes that were read.
        passed_over: bytes of tensors that were not.
        problems: what could not be read as it should, or not be told apart.
    """

    file: str
    kind: FileKind
    findings: Sequence[Finding]
    more: dict[LeakKind, int]
    read: int
    passed_over: int
    problems: Sequence[str]

    def counted(self, kinds: Iterable[LeakKind] = ()) -> list[Finding]:
        """The findings that make the exit status 1: those of some kinds, or of all that count.

        Args:
            kinds: the kinds; none stands for all that count.
        """
        wanted = set(kinds)
        return [
            one
            for one in self.findings
            if not one.allowed and (one.kind in wanted if wanted else one.kind.counts)
        ]


class Collection:
    """Findings as they come."""

    def __init__(self) -> None:
        self._found: dict[tuple[LeakKind, bytes], Finding] = {}
        self._kept: dict[LeakKind, int] = {}
        self.more: dict[LeakKind, int] = {}

    def add(
        self, kind: LeakKind, text: bytes, record: str, place: Callable[[], Place], count: int = 1
    ) -> None:
        """Add a text that was found.

        Args:
            kind: what it gives away.
            text: the text.
            record: the record that it stands in.
            place: tells where it stands; asked for those places alone that are kept.
            count: how often it stands there.
        """
        key = kind, text[:MOST_CHARACTERS]
        found = self._found.get(key)
        if found is None:
            if self._kept.get(kind, 0) >= MOST_TEXTS:
                self.more[kind] = self.more.get(kind, 0) + count
                return
            self._kept[kind] = self._kept.get(kind, 0) + 1
            found = self._found[key] = Finding(kind, key[1].decode(errors="backslashreplace"), key[1])
        found.count += count
        if len(found.places) < MOST_PLACES and all(record != one.record for one in found.places):
            found.places.append(place())

    def findings(self) -> list[Finding]:
        """All, by kind, the most frequent first."""
        order = {kind: number for number, kind in enumerate(LeakKind)}
        return sorted(self._found.values(), key=lambda one: (order[one.kind], -one.count, one.text))
