"""A file → what it reveals about its builders: paths, names, source text, keys, and where they are.

The room ``pieces`` gives the strings of a file, each line once. ``paths``, ``addresses``, ``entries`` and
``sources`` detect in them what ``vocabulary`` names; ``findings`` collects that, says what may be there, and
how the rest gets out.
"""

from __future__ import annotations

from contextlib import closing
from itertools import chain, repeat
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.patterns import pattern_of
from archive.container.serialization_id import RECORD_NAME
from archive.formats.compiled.spare import spare_records
from archive.formats.record_kinds import UNNAMED_ROOT, RecordKind
from archive.io.mapped import Mapped
from archive.privacy.leaks.addresses import addresses
from archive.privacy.leaks.entries import TELLING, entries, keys, variables
from archive.privacy.leaks.findings import Allowed, Collection, Finding, Leaks, Place, remedy
from archive.privacy.leaks.hosts import hosts
from archive.privacy.leaks.paths import parted, paths
from archive.privacy.leaks.people import signed
from archive.privacy.leaks.sources import known_lines, names, of_nodes, sources
from archive.privacy.leaks.vocabulary import LeakKind, homes_in_name, of_path
from archive.privacy.pieces.files import pieces_of
from archive.privacy.pieces.walker import Walker
from archive.reader.recognition import PACKAGE_KINDS, FileKind
from archive.reader.recognition.kinds import COMMAND_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.io.mapped import Source
    from archive.privacy.leaks.sources import SourceLines
    from archive.privacy.leaks.words import FoundWords
    from archive.privacy.pieces.piece import FilePiece, RecordEntry
    from archive.privacy.pieces.tensors_read import TensorsRead

__all__ = ["SCANNED_KINDS", "Finder", "Finding", "LeakKind", "Leaks", "Place", "leaks"]

SCANNED_KINDS = COMMAND_KINDS["leaks"]
"""The kinds of files in which every text is found. Texts in others, above all compressed ones, are missed."""
BY_RECORD = {
    RecordKind.INPUTS: LeakKind.INPUTS,
    RecordKind.EXTRA: LeakKind.EXTRA,
    RecordKind.COMPANION: LeakKind.COMPANION,
    RecordKind.ASIDE: LeakKind.COMPANION,
    RecordKind.CODE: LeakKind.GENERATED,
    RecordKind.CPP: LeakKind.GENERATED,
}
"""Records that are findings as a whole."""
OF_SOURCE = {LeakKind.SOURCE, LeakKind.COMMENT, LeakKind.USER}
"""Kinds of findings that PyTorch's own source has, too: its developers leave notes there."""
BY_PLACE = OF_SOURCE | {LeakKind.HOST}
"""Kinds of findings for which it matters where each one stands."""
SHORTEST_BY_CHANCE = dict.fromkeys(
    (LeakKind.DRIVE, LeakKind.EMAIL, LeakKind.URL, LeakKind.HOME, LeakKind.COMMENT, LeakKind.HOST), 10
) | {LeakKind.UNC: 16}
"""Bytes of findings in numbers, and in strings that may be numbers: shorter ones occur by chance."""
VERSION = pattern_of(rb"(?i:version|release|cuda|cudnn|driver|toolkit|[=<>~]=)[^\n]{0,24}\Z")
"""What stands before a version of four numbers, which looks like the address of a private network."""
BEFORE_VERSION = 40
MODULES = {RecordKind.CODE, RecordKind.RANGES}
"""Records whose folders are Python packages."""
COPIES = 4
"""Bytes of memory that each byte of a text takes while it is searched, besides its strings."""
NEW_YEAR = 0x21
"""The first of January in MS-DOS's dates, without the year."""
ROOTS = {"", UNNAMED_ROOT}
"""Root folders that reveal nothing."""


@bounded
def leaks(
    source: Source, *, deep: bool = False, allow: Iterable[str] = (), limits: Limits = DEFAULT_LIMITS
) -> Leaks:
    """List what a file gives away: paths, names of users and hosts, source text, keys, and more.

    >>> found = leaks("fixtures/exported/shop.pt2")
    >>> sorted({str(one.kind) for one in found.counted()})
    ['sample inputs', 'site-packages path', 'source text']

    Args:
        source: a path, a bytes-like object, or a binary file: an archive, a companion, a file of tensors, or
            another zip.
        deep: read the bytes of tensors, too.
        allow: patterns of texts that may be there, ``*`` for any characters: ``/opt/*``; with a kind before
            the pattern, only findings of that kind: ``URL=https://example.com/*``.
        limits: what a hostile file may take.

    Returns:
        The findings, each text once, with the first of its places.

    Raises:
        ArchiveError: the file is of a kind that is not read, contradicts itself, or takes more than allowed;
            or the patterns are too many or too long.
        OSError: it cannot be read.
    """
    allowed = Allowed(list(allow))
    with closing(Mapped(source)) as mapped:
        return leaks_in(mapped, allowed, limits, deep=deep)


def leaks_in(
    mapped: Mapped,
    allowed: Allowed,
    limits: Limits,
    *,
    deep: bool,
    known: SourceLines | None = None,
    tensors: TensorsRead | None = None,
) -> Leaks:
    """What a file gives away that is open already: see :func:`leaks`.

    Args:
        known: the lines of its source text, if they have been read.
        tensors: takes what is found in tensors.
    """
    with memory.charged(limits.allowance(mapped.weight)):
        walker = Walker(deep=deep, tensors=tensors)
        recognised, pieces = pieces_of(mapped, walker)
        if recognised.kind not in SCANNED_KINDS:
            raise recognised.refusal(mapped.name)
        known = known or known_lines(mapped, recognised.kind, limits)
        finder = Finder(mapped.name, recognised.kind, walker, known)
        for piece in pieces:
            finder.take(piece)
        return finder.found(allowed)


class Finder:
    """Finds what a file gives away, piece by piece.

    Args:
        name: of the file.
        kind: of the file.
        walker: goes through it.
        known: the lines of its source text.
    """

    def __init__(self, name: str, kind: FileKind, walker: Walker, known: SourceLines) -> None:
        self._name, self.kind, self._walker = name, kind, walker
        self._known = known
        self._collection = Collection()

    def take(self, piece: FilePiece) -> None:
        """Collect what the strings of a piece give away, except for PyTorch's own lines of source.

        Packed bytes come as pieces of their own.
        """
        if piece.is_packed:
            return
        lines = piece.strings.data
        with memory.lent(COPIES * max(len(lines), len(piece.data)), "texts that are searched"):
            words = TELLING.among(lines)
            if lines:
                self._take_lines(piece, words)
            self._take_bytes(piece, words)

    def _take_lines(self, piece: FilePiece, words: FoundWords) -> None:
        """Collect what the lines of a piece give away."""
        strings, kind = piece.strings, piece.kind
        data = strings.data
        detectors = (
            paths(data, words),
            keys(data, words),
            addresses(data, words),
            hosts(data, words),
            signed(data, words),
            variables(data, words),
            sources(kind, data, self._known.model),
            names(kind, data),
        )
        again: dict[tuple[LeakKind, bytes], list[int]] = {}
        for kind_found, at, text in chain(*detectors):
            places = again.get((kind_found, text))
            if places is not None:
                places.append(at)
                continue
            by_chance = len(text) < SHORTEST_BY_CHANCE.get(kind_found, 0)
            if by_chance and (piece.in_numbers or strings.may_be_numbers(at)):
                continue
            if kind_found is LeakKind.PATH and piece.in_id(strings.place(at)):
                continue
            if kind_found in OF_SOURCE and strings.line(at).strip() in self._known.own:
                continue
            if kind_found is LeakKind.HOST and text[:1].isdigit() and _is_version(piece, at):
                continue
            finding = self._collection.add(kind_found, text, piece.record, strings.times(at))
            if finding is not None:
                finding.places.append(_place(piece, strings.place(at)))
            if not by_chance and kind_found not in BY_PLACE:
                again[kind_found, text] = []
        for (kind_found, text), places in again.items():
            if places:
                self._collection.add(kind_found, text, piece.record, strings.times_of_all(places))

    def _take_bytes(self, piece: FilePiece, words: FoundWords) -> None:
        """Collect what the bytes of a piece give away, as stored."""
        json = piece.strings.json
        nodes = of_nodes(json) if piece.kind is RecordKind.PROGRAM and json is not None else ()
        data = piece.bytes if not piece.in_numbers or any(words) else b""  # a copy that is seldom needed
        in_bytes = chain(entries(data, words, piece.strings), parted(piece.strings))
        for (kind_found, byte, text), times in chain(zip(in_bytes, repeat(1)), nodes):
            finding = self._collection.add(kind_found, text, piece.record, times)
            if finding is not None:
                finding.places.append(_place(piece, byte))

    def found(self, allowed: Allowed) -> Leaks:
        """What was found in all pieces, and in records; patterns say what may be there."""
        walker, collection = self._walker, self._collection
        for entry in walker.entries:
            is_module = self.kind in PACKAGE_KINDS or entry.kind in MODULES
            for kind, text in _of_record(entry, is_module=is_module):
                finding = collection.add(kind, text, entry.record)
                if finding is not None:
                    finding.places.append(Place(entry.record, kind=entry.kind))
        for root in walker.roots - ROOTS:
            finding = collection.add(LeakKind.ROOT, root.encode(errors="surrogateescape"), "")
            if finding is not None:
                finding.places.append(Place(""))
        findings = collection.findings()
        spare = spare_records(entry.record for entry in walker.entries)
        for finding in findings:
            finding.remedy = remedy(finding, self.kind, findings, spare)
            finding.allowed = allowed.allows(finding)
            finding.counted = finding.kind.counts and not finding.allowed
        return Leaks(
            self._name,
            self.kind,
            findings,
            self._collection.more,
            walker.read,
            walker.passed_over,
            (*walker.problems, *filter(None, [self._known.problem])),
        )


def _is_version(piece: FilePiece, position: int) -> bool:
    """Whether four numbers are a version, by what stands before them."""
    byte = piece.strings.place(position)
    return VERSION.search(piece.bytes[max(byte - BEFORE_VERSION, 0) : byte]) is not None


def _place(piece: FilePiece, byte: int) -> Place:
    return Place(piece.record, piece.place(byte), piece.part(byte), piece.kind)


def _of_record(entry: RecordEntry, *, is_module: bool) -> Iterator[tuple[LeakKind, bytes]]:
    """What the mere presence of a record reveals, and its name."""
    name = entry.record.encode(errors="surrogateescape")
    if entry.kind in BY_RECORD and entry.size:
        yield BY_RECORD[entry.kind], name
    if entry.record.endswith(RECORD_NAME):
        yield LeakKind.ID, name
    if entry.modified & 0x1FFFFFF != NEW_YEAR << 16 and entry.modified:  # made up: midnight of a new year
        # MS-DOS counts years from 1980 and seconds by twos
        time, date = entry.modified & 0xFFFF, entry.modified >> 16
        day = f"{1980 + (date >> 9)}-{date >> 5 & 15:02}-{date & 31:02}"
        clock = f"{time >> 11:02}:{time >> 5 & 63:02}:{2 * (time & 31):02}"
        yield LeakKind.TIME, f"{day} {clock}".encode()
    for path in homes_in_name(name, is_module=is_module):
        for detection in of_path(0, path, LeakKind.PATH):
            yield detection.kind, detection.text
