"""The proof: every byte of a redacted file is searched for every text that was to go.

A file is read as stored and as inflated, with all that records hold: zips, companions, compressed streams
and sections, base64 (the room ``pieces``). Texts are looked for in UTF-8, UTF-16 and UTF-32, as they are and
escaped as in JSON, once and twice; also in the strings of records without their escapes, and in the letters
of base64 and the like. What cannot be read is named. ``leaks`` reads the same pieces.

What ``leaks`` found in the original, and paths, are looked for in either case and with either slash. A name
is found where it is a whole word: ``gate`` is not left in ``aggregate``; a name of a user or host also as a
part of a name, ``AnnNet``. Short names are not looked for in tensors: their bytes spell any word by chance. A
line of one word, such as the argument ``training,``, is not left in a sentence with that word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, get_args

from archive.base import memory
from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.container.container import Container
from archive.container.names import as_bytes
from archive.formats.record_kinds import BYTECODE, is_code
from archive.privacy.leaks import Finder
from archive.privacy.leaks.sources import NO_LINES, SourceLines
from archive.privacy.leaks.vocabulary import SHORTEST_NAME
from archive.privacy.pieces.walker import BETWEEN, Walker
from archive.privacy.redact.promises import SOUGHT, What
from archive.privacy.redact.search import Search, forms_of, name_around, spellings_of
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.privacy.pieces.piece import FilePiece
    from archive.privacy.pieces.tensors_read import TensorsRead
    from archive.privacy.redact.removed import Removed
    from archive.privacy.review.listing import Listing
    from archive.reader.archive import Archive

OF_PEOPLE: tuple[What, ...] = ("user name", "host name")
"""What is found as a part of names, too."""
SHORTEST: dict[What, int] = dict.fromkeys(get_args(What), 5)
SHORTEST |= dict.fromkeys(OF_PEOPLE, SHORTEST_NAME) | {"line": 8, "file": 16, "URL": 8, "key": 6}
"""Bytes of the shortest texts that are looked for: shorter ones stand anywhere by chance."""
IN_ANY_CASE: tuple[What, ...] = ("path", "folder", *OF_PEOPLE, "address", "URL", "key")
"""What is found in either case."""
SHORTEST_IN_TENSORS = 8
"""Bytes of the shortest name that is looked for in tensors."""
LONGEST_CARRIER = 80
"""Most bytes of a name that carries that of a person."""
MOST_CARRIERS = 20
LETTER = re.compile(rb"\w")
ONE_WORD = re.compile(rb"\W*+\w++\W*+")
WORD_BEFORE, WORD_AFTER = re.compile(rb"\w +\Z"), re.compile(rb" +\w")
"""Another word before a word, or after it."""
OF_PYTHON = {b"module", b"lambda", b"genexpr", b"listcomp", b"dictcomp", b"setcomp", b"string", b"stdin"}
"""What Python calls code without a name, in angle brackets: ``<module>`` isn't a function ``module``."""
AROUND = 8
"""Bytes before and after a word that are looked at."""


class Sought(NamedTuple):
    """A text that is looked for: what it is, the text, and the spelling that its bytes stand for."""

    what: What
    text: bytes
    spelling: bytes


Forms = dict[bytes, Sought]
"""The texts that are looked for, by the bytes that they may stand as."""


@dataclass(slots=True)
class Proof:
    """What a search for texts has found.

    Attributes:
        sought: how many texts were looked for, by what they are.
        not_sought: texts that were not, with what they are: too short, common words, or part of what stays.
        left: each text that was found, where it must not be: what it is, itself, and its first place.
        in_code: lines that were found only in generated code or bytecode, which are the model.
        unread: records that could not be searched, and why.
        read: bytes that were searched, inflated ones besides those as stored.
        carriers: names of classes, files and records that carry the name of a user or host.
        finder: has read the same pieces for `leaks`.
        listing: has their texts that are not vocabulary, if these are listed.
    """

    finder: Finder
    listing: Listing | None = None
    sought: dict[What, int] = field(default_factory=dict)
    not_sought: list[tuple[What, bytes]] = field(default_factory=list)
    left: dict[tuple[What, bytes], str] = field(default_factory=dict)
    in_code: set[bytes] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    read: int = 0
    carriers: dict[str, None] = field(default_factory=dict)


def prove(  # noqa: PLR0917 (what a proof is of)
    file: Container | Archive,
    removed: Removed,
    kind: FileKind = FileKind.ZIP,
    known: SourceLines = NO_LINES,
    listing: Listing | None = None,
    tensors: TensorsRead | None = None,
) -> Proof:
    """Search a file of a kind for all that was removed, and look at it as `leaks` does.

    Args:
        file: a zip, or an opened file of tensors that isn't one.
        known: the lines of its source text.
        listing: takes the same pieces, if texts that are not vocabulary are asked for.
        tensors: has what was found in tensors of the original.
    """
    walker = Walker(deep=True, tensors=tensors)
    proof = Proof(Finder(file.file, kind, walker, known), listing)
    paths = b"\n".join(removed.kept_paths)
    lines = b"\n".join([*removed.kept_lines, paths])
    texts: dict[What, set[bytes]] = {
        "path": set(removed.paths),
        "folder": removed.folders,
        "line": removed.lines - {b""},
        "name": removed.names,
        "root": {root + b"/" for root in removed.roots},
        "file": removed.files - {b""},
    }
    if removed.texts:
        texts["text"] = removed.texts
    revealing: dict[What, set[bytes]] = defaultdict(set)
    for kind_found, found_texts in removed.revealing.by_kind.items():
        revealing[SOUGHT[kind_found]] |= found_texts
    texts |= {what: texts.get(what, set()) | found_texts for what, found_texts in revealing.items()}
    records = b"\n".join(map(as_bytes, file.records))
    staying: dict[What, bytes] = {"path": paths, "folder": paths, "line": lines}
    staying["root"] = b"\n".join([records, paths])
    staying["name"] = b"\n".join([paths, as_bytes(file.root)])
    forms: Forms = {}
    for what, every in texts.items():
        long = [text for text in every if len(text) >= SHORTEST[what]]
        stays = {text for _, text in Search(long).found(memoryview(staying.get(what, b"")))}
        sought = [text for text in long if text not in stays]
        proof.sought[what] = len(sought)
        proof.not_sought += ((what, text) for text in sorted(every.difference(sought)))
        for text in sought:
            in_letters = what == "text" or text in revealing.get(what, ())
            for spelling in spellings_of(text) if what in IN_ANY_CASE else {text}:
                written = forms_of(spelling, in_letters=in_letters, either_slash=what == "path")
                forms |= dict.fromkeys(written, Sought(what, text, spelling))
    for kind_of_word, words in removed.words.items():
        proof.not_sought += ((SOUGHT[kind_of_word], word) for word in sorted(words))
    with memory.lent(2 * memory.ROW * len(forms) + sum(map(len, forms)), "texts that must be gone"):
        pieces = walker.zip(file) if isinstance(file, Container) else walker.tensor_file(file)
        _search(pieces, forms, proof, walker)
    proof.in_code -= {text for what, text in proof.left if what == "line"}
    return proof


def _search(pieces: Iterable[FilePiece], forms: Forms, proof: Proof, walker: Walker) -> None:
    """Search all pieces of a file, and the strings in them without escapes."""
    folded: Forms = {form.lower(): sought for form, sought in forms.items() if sought.what in IN_ANY_CASE}
    exact: Forms = {form: sought for form, sought in forms.items() if sought.what not in IN_ANY_CASE}
    in_numbers = Search(form for form, sought in forms.items() if not _is_by_chance(form, sought))
    small, large = Search(exact), Search(folded)

    def take(piece: FilePiece, data: memoryview, byte: Callable[[int], int], *, as_stored: bool) -> None:
        if piece.in_numbers:
            _note(piece, _hits(in_numbers.found(data, piece.ascii_words), data, forms), proof, byte)
            return
        _note(piece, _hits(small.found(data), data, exact), proof, byte, as_stored=as_stored)
        if folded:
            with memory.lent(len(data), "bytes in lower case"):
                lowered = memoryview(bytes(data).lower())
                _note(piece, _hits(large.found(lowered), data, folded), proof, byte, as_stored=as_stored)

    for piece in pieces:
        take(piece, piece.data, int, as_stored=True)
        if not piece.is_packed:
            take(piece, memoryview(piece.strings.data), piece.strings.place, as_stored=False)
        proof.finder.take(piece)
        if proof.listing is not None:
            proof.listing.take(piece)
    proof.read = walker.read + walker.stored
    proof.unread += walker.problems


def _is_by_chance(form: bytes, sought: Sought) -> bool:
    """Whether a name is so short that numbers spell it."""
    if sought.what == "name":
        return len(form) < SHORTEST_IN_TENSORS
    return sought.what in OF_PEOPLE and len(sought.text) < SHORTEST_IN_TENSORS


class _Hit(NamedTuple):
    """A text that stands in some bytes, and not by chance."""

    at: int
    what: What
    text: bytes
    around: bytes
    """The longer name of which it is a part, where it names a person or a machine; else b""."""


def _hits(places: Iterable[tuple[int, bytes]], data: memoryview, forms: Forms) -> Iterator[_Hit]:
    """The texts that were found in some bytes, without those that stand there by chance."""
    for at, form in places:
        what, text, spelling = forms[form]
        end = at + len(form)
        if what == "name":
            beside = bytes(data[max(at - 1, 0) : at]), bytes(data[end : end + 1])
            is_no_name = beside == (b"<", b">") and form in OF_PYTHON
            if is_no_name or any(map(LETTER.fullmatch, beside)):
                continue
        if what == "line" and ONE_WORD.fullmatch(form):
            before, after = bytes(data[max(at - AROUND, 0) : at]), bytes(data[end : end + AROUND])
            if WORD_BEFORE.search(before) and WORD_AFTER.match(after):  # a word of a sentence
                continue
        around = b""
        if what in OF_PEOPLE and form.lower() == spelling.lower():
            low = max(at - LONGEST_CARRIER, 0)
            around = name_around(bytes(data[low : end + LONGEST_CARRIER]), at - low, len(form))
            if not around:
                continue
            if around.lower() == spelling.lower():
                around = b""
        yield _Hit(at, what, text, around)


def _note(
    piece: FilePiece,
    hits: Iterable[_Hit],
    proof: Proof,
    byte: Callable[[int], int],
    *,
    as_stored: bool = False,
) -> None:
    """Note what was found in a piece, except lines of the model's code; ``byte`` says where in the piece.

    Bytecode has the strings of code as constants, among them lines of a text in quotes. In bytes as
    stored a name ends where its string does, which only the strings say: letters after it may be opcodes.
    """
    is_model = is_code(piece.record) or piece.record == BYTECODE
    for at, what, text, around in hits:
        if around and not as_stored and len(proof.carriers) < MOST_CARRIERS:
            proof.carriers[f"{one_line(decoded(around))} ({one_line(decoded(text))})"] = None
        if is_model and what == "line":
            proof.in_code.add(text)
        elif (what, text) not in proof.left:
            part = "" if piece.is_packed else piece.part(byte(at))
            proof.left[what, text] = ", ".join(filter(None, (piece.record or BETWEEN, part)))
