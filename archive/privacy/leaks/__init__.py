"""A file → what it tells strangers about its builders: paths, names, source text, keys, and where they stand.

The room ``pieces`` gives the strings of a file, each line once; ``paths``, ``addresses``, ``keys`` and
``sources`` find in them, ``parted`` in lists of them, ``entries`` in the bytes; ``findings`` collects.
``kinds`` names what is found; ``allowed`` tells what may be there.

The lines of source text that source ranges refer to: PyTorch's own, and the model's.
"""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.container.end import has_end
from archive.formats.record_kinds import RecordKind
from archive.privacy.leaks.addresses import addresses
from archive.privacy.leaks.allowed import Allowed
from archive.privacy.leaks.entries import entries, variables
from archive.privacy.leaks.findings import Collection, Finding, Leaks, Place
from archive.privacy.leaks.keys import keys
from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.leaks.parted import parted
from archive.privacy.leaks.paths import paths
from archive.privacy.leaks.remedies import remedy
from archive.privacy.leaks.sources import OWN, names, of_nodes, sources
from archive.privacy.pieces.walker import Walker
from archive.reader.opening import open as open_archive
from archive.reader.recognition import (
    ARCHIVE_KINDS,
    READ_KINDS,
    SAVED_KINDS,
    FileKind,
    recognise,
    recognise_zip,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.base.limits import Allowance, Limits
    from archive.base.mapped import Source
    from archive.privacy.pieces.piece import Member, Piece
    from archive.reader.recognition import Recognised

# --- known

HAVE_RANGES = ARCHIVE_KINDS | {FileKind.COMPANION}
"""Kinds of files that have source ranges."""
CALL = re.compile(rb"[^\n]+\(\d+\): [^\n]*")
"""A line of a traced operation's text, which is its Python stack: ``/home/ann/net.py(12): forward``."""
NO_FILE = {b"", b"<string>"}
"""Names of the files of text that is from none."""
WRITTEN = re.compile(
    rb"\s*def __len__\(self\):\s+return \d+\s*\Z"
    rb"|.*\bself\.__(?:backend|processed_module|method_compile_spec|create_backend|loweredModule__)",
    re.DOTALL,
)
"""Methods that PyTorch writes itself, for containers of modules and for lowered ones:
``torch/jit/_recursive.py``, ``torch/csrc/jit/backends/backend_detail.cpp``."""
BUILT_IN = re.compile(
    rb"\ndef (?:"
    rb"(?:mul|lt)\(a : \w+, b : Tensor\) -> Tensor:\n  return b "
    rb"|_\w+\(x: BroadcastingList\d\[\w+\]\) -> List\[\w+\]:\n  return x\n\Z"
    rb"|floordiv\(self : Tensor, other : \w+\) -> Tensor:\n  return torch\.floor_divide\(self, other\)\n\Z"
    rb"|_assert_int_or_pair\(vals: List\[int\], name: str, message: str\):\n  pass\n"
    rb"|_assert\(condition : Tensor, message : str\):\n  assert bool\(condition\), message\n"
    rb"|ndim\(a : Tensor\) -> int:\n  return a\.dim\(\)\n"
    rb"|(?:div|full|linspace|logspace|gelu)\w*_0_\d\()"
)
"""What texts begin with that PyTorch has in TorchScript: ``torch/csrc/jit/frontend/builtin_functions.cpp``,
``torch/csrc/jit/operator_upgraders/upgraders_entry.cpp``."""
WORD = re.compile(rb"[^\W\d]\w")


class Known(NamedTuple):
    """Lines of source text, without blanks at either end.

    Attributes:
        own: those that PyTorch's own modules have alone.
        model: those of others; None where source ranges are not read: lines are told by their looks then.
        problem: why they are not, though the file should have them; "" else.
    """

    own: frozenset[bytes]
    model: frozenset[bytes] | None
    problem: str = ""


BY_LOOKS = "so lines are source text by their looks, PyTorch's own, too"


def known_lines(mapped: Mapped, kind: FileKind, limits: Limits) -> Known:
    """The lines of source text in a file.

    Args:
        mapped: the file.
        kind: its kind.
        limits: what it may cost; of texts, no more than ``compared_bytes`` are read.
    """
    if kind not in HAVE_RANGES:
        return Known(frozenset(), None)
    try:
        with open_archive(mapped.data, limits=limits, name=mapped.name) as archive:
            table = archive.range_table.sources
            size, most = int(table.lengths.sum()), min(limits.compared_bytes, archive.allowance.memory // 4)
            if size > most:
                why = (
                    f"{size:,} bytes of source text are not compared with PyTorch's own, at most {most:,} are"
                )
                return Known(frozenset(), None, f"{why}, {BY_LOOKS}")
            own: set[bytes] = set()
            model: set[bytes] = set()
            for source in (table[number] for number in range(len(table))):
                name = str(source.filename or "").encode(errors="surrogateescape")
                text = str(source.text).encode(errors="surrogateescape")
                is_own = OWN.search(name) or (
                    name in NO_FILE and (WRITTEN.match(text) or BUILT_IN.match(text))
                )
                (own if is_own else model).update(map(bytes.strip, text.split(b"\n")))
            told = {line for line in model if WORD.search(line) and not CALL.fullmatch(line)}
            return Known(frozenset(own - model), frozenset(told))
    except ArchiveError as problem:
        return Known(frozenset(), None, f"source ranges cannot be read, {BY_LOOKS}: {problem}")


# --- leaks

__all__ = ["SCANNED_KINDS", "Finder", "Finding", "LeakKind", "Leaks", "Place", "leaks"]

SCANNED_KINDS = {*READ_KINDS, *SAVED_KINDS, FileKind.COMPANION, FileKind.PYTHON_PACKAGE, FileKind.ZIP}
"""The kinds of files whose every text is found. What is in others, compressed ones above all, is not seen."""
BY_RECORD = {
    RecordKind.INPUTS: LeakKind.INPUTS,
    RecordKind.EXTRA: LeakKind.EXTRA,
    RecordKind.COMPANION: LeakKind.COMPANION,
    RecordKind.ASIDE: LeakKind.COMPANION,
    RecordKind.CODE: LeakKind.GENERATED,
    RecordKind.CPP: LeakKind.GENERATED,
}
"""Records that are findings as a whole."""
OF_SOURCE = {LeakKind.SOURCE, LeakKind.COMMENT}
"""Kinds of findings that PyTorch's own source makes, too."""
SHORTEST_BY_CHANCE = dict.fromkeys((LeakKind.DRIVE, LeakKind.EMAIL, LeakKind.URL, LeakKind.HOME), 10)
"""Bytes of findings in the bytes of tensors; random numbers have shorter ones by chance."""
VERSION = re.compile(rb"(?i:version|release|cuda|cudnn|driver|toolkit|[=<>~]=)[^\n]{0,24}\Z")
"""What stands before a version of four numbers, which looks like the address of a private network."""
BEFORE_VERSION = 40
IN_HOME = re.compile(r"(?:^|(?<=[/!]))(?:home\d?|Users)/[^/]+/.+")
"""A record that is called like a path in somebody's home."""
NEW_YEAR = 0x21
"""The first of January in MS-DOS's dates, without the year."""
SERIALIZATION_ID = ".data/serialization_id"
ROOTS = {"", "archive"}
"""Root folders that tell nothing: none, and PyTorch's where a file has no name."""


@bounded
def leaks(
    source: Source, *, deep: bool = False, allow: Iterable[str] = (), limits: Limits = DEFAULT_LIMITS
) -> Leaks:
    """List what a file gives away: paths, names of users and hosts, source text, keys, and more.

    >>> found = leaks("fixtures/exported/shop.pt2")
    >>> sorted({str(one.kind) for one in found.counted()})
    ['sample inputs', 'site-packages path', 'source text']

    Args:
        source: a path, a bytes-like object, or a binary file: an archive, a companion, or another zip.
        deep: read the bytes of tensors, too.
        allow: patterns of texts that may be there, ``*`` for any characters: ``/opt/*``; with a kind before
            the pattern, of findings of that kind alone: ``URL=https://example.com/*``.
        limits: what a hostile file may cost.

    Returns:
        The findings, each text once, with the first of its places.

    Raises:
        ArchiveError: the file is of a kind that is not read, contradicts itself, or costs more than allowed;
            or the patterns are too many or too long.
        OSError: it cannot be read.
    """
    allowed = Allowed(list(allow))
    with closing(Mapped(source)) as mapped:
        return leaks_in(mapped, allowed, limits, deep=deep)


def leaks_in(mapped: Mapped, allowed: Allowed, limits: Limits, *, deep: bool) -> Leaks:
    """What a file gives away that is open already: see :func:`leaks`.

    Raises:
        ArchiveError: as there.
    """
    allowance = limits.allowance(mapped.weight)
    walker = Walker(allowance, deep=deep)
    recognised, pieces = _recognised(mapped, allowance, walker)
    if recognised.kind not in SCANNED_KINDS:
        raise recognised.refusal(mapped.name)
    finder = Finder(mapped, recognised.kind, walker, limits)
    for piece in pieces:
        finder.take(piece)
    return finder.found(allowed)


class Finder:
    """Finds what a file gives away in its pieces, one after the other.

    Args:
        mapped: the file.
        kind: its kind.
        walker: that gives the pieces.
        limits: what the file may cost.
    """

    def __init__(self, mapped: Mapped, kind: FileKind, walker: Walker, limits: Limits) -> None:
        self._name, self._kind, self._walker = mapped.name, kind, walker
        self._known = known_lines(mapped, kind, limits)
        self._found = Collection()

    def take(self, piece: Piece) -> None:
        """Look at a piece; what is packed comes again."""
        if not piece.is_packed:
            _find_in(piece, self._known, self._found)

    def found(self, allowed: Allowed) -> Leaks:
        """What was found in all pieces, and records; patterns tell what may be there."""
        walker = self._walker
        _find_records(walker, self._found)
        findings = self._found.findings()
        for finding in findings:
            finding.remedy = remedy(finding.kind, self._kind, finding.places[0])
            finding.allowed = allowed.allows(finding)
        return Leaks(
            self._name,
            self._kind,
            findings,
            self._found.more,
            walker.read,
            walker.passed_over,
            (*walker.problems, *filter(None, [self._known.problem])),
        )


def _recognised(mapped: Mapped, allowance: Allowance, walker: Walker) -> tuple[Recognised, Iterator[Piece]]:
    """The kind of a file, and its pieces; the directory of a zip is read once for both."""
    if is_companion(mapped.data) or not has_end(mapped.data):
        return recognise(mapped.data, limits=allowance.limits), walker.file(mapped)
    container = Container(mapped, allowance, rooted=False)
    return recognise_zip(container), walker.zip(container)


def _find_records(walker: Walker, found: Collection) -> None:
    """Collect what records give away as a whole, and the folders that they are in."""
    for member in walker.members:
        place = partial(Place, member.record, kind=member.kind)
        for kind, text in _of_record(member):
            found.add(kind, text.encode(errors="surrogateescape"), member.record, place)
        for path in IN_HOME.findall(member.record):
            for one in paths(b"/" + path.encode(errors="surrogateescape")):
                found.add(one.kind, one.text, member.record, place)
    for root in walker.roots - ROOTS:
        found.add(LeakKind.ROOT, root.encode(errors="surrogateescape"), "", partial(Place, ""))


def _find_in(piece: Piece, known: Known, found: Collection) -> None:
    """Collect what the strings of a piece give away, but for PyTorch's own lines of source."""
    strings = piece.strings
    data, kind = strings.data, piece.kind
    text = sources(kind, data, known.model)
    for one in chain(paths(data), keys(data), addresses(data), variables(data), text, names(kind, data)):
        if piece.in_numbers and len(one.text) < SHORTEST_BY_CHANCE.get(one.kind, 0):
            continue
        if one.kind not in OF_SOURCE or strings.line(one.at).strip() not in known.own:
            if one.kind is LeakKind.HOST and one.text[:1].isdigit() and _is_version(piece, one.at):
                continue
            place = partial(_place_of_line, piece, one.at)
            found.add(one.kind, one.text, piece.record, place, strings.times(one.at))
    for one in chain(entries(piece.bytes, data), parted(strings)):
        found.add(one.kind, one.text, piece.record, partial(_place, piece, one.at))
    if kind is RecordKind.PROGRAM and strings.json is not None:
        for one, times in of_nodes(strings.json):
            found.add(one.kind, one.text, piece.record, partial(_place, piece, one.at), times)


def _is_version(piece: Piece, position: int) -> bool:
    """Whether four numbers are a version, by what stands before them."""
    byte = piece.strings.place(position)
    return VERSION.search(piece.bytes[max(byte - BEFORE_VERSION, 0) : byte]) is not None


def _place_of_line(piece: Piece, position: int) -> Place:
    return _place(piece, piece.strings.place(position))


def _place(piece: Piece, byte: int) -> Place:
    return Place(piece.record, piece.place(byte), piece.part(byte), piece.kind)


def _of_record(member: Member) -> Iterator[tuple[LeakKind, str]]:
    """What a record tells by its mere being there."""
    if member.kind in BY_RECORD and member.size:
        yield BY_RECORD[member.kind], member.record
    if member.record.endswith(SERIALIZATION_ID):
        yield LeakKind.ID, member.record
    if member.modified & 0x1FFFFFF != NEW_YEAR << 16 and member.modified:  # made up: midnight of a new year
        yield LeakKind.TIME, _time(member.modified)


def _time(modified: int) -> str:
    """A time of MS-DOS, which counts years from 1980 and seconds by twos."""
    time, date = modified & 0xFFFF, modified >> 16
    day = f"{1980 + (date >> 9)}-{date >> 5 & 15:02}-{date & 31:02}"
    return f"{day} {time >> 11:02}:{time >> 5 & 63:02}:{2 * (time & 31):02}"
