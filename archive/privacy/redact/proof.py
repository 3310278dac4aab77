"""The proof: every byte of a redacted file is searched for every text that was to go.

A file is read as stored and as inflated, with all that records hold: zips, companions, compressed streams
and sections, base64 (the room ``pieces``). Texts are looked for in UTF-8, UTF-16 and UTF-32, as they are and
escaped as in JSON, once and twice; in the strings of records without their escapes, too, and in the letters
that base64 and the like have for them. What cannot be read is named. ``leaks`` reads the same pieces.

What ``leaks`` found in the original, and paths, are looked for in either case and with either slash. A name
is found where it is a whole word: ``gate`` is not left in ``aggregate``; that of a user or host also as a
part of a name, ``AnnNet``. Short ones are not looked for in tensors, whose bytes spell any word by chance. A
line of one word, such as the argument ``training,``, is not left in a sentence with that word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from archive.base.errors import one_line
from archive.base.mapped import Mapped
from archive.base.strings import decoded
from archive.container.names import encoded
from archive.formats.record_kinds import BYTECODE, is_code
from archive.privacy.leaks import Finder, LeakKind
from archive.privacy.pieces.walker import Walker
from archive.privacy.redact.forms import forms_of, name_around
from archive.privacy.redact.promises import PATHS
from archive.privacy.redact.search import Search
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.base.limits import Allowance
    from archive.container.container import Container
    from archive.privacy.pieces.piece import Piece
    from archive.privacy.redact.rules import Removed

What = Literal[
    "path", "folder", "line", "name", "root", "file", "user name", "host name", "address", "URL", "key"
]
SHORTEST: dict[What, int] = dict.fromkeys(get_args(What), 5)
SHORTEST |= {"line": 8, "file": 16, "user name": 3, "host name": 3, "URL": 8, "key": 6}
"""Bytes of the shortest texts that are looked for: shorter ones stand anywhere by chance."""
BY_KIND: dict[LeakKind, What] = dict.fromkeys(PATHS, "path")
BY_KIND[LeakKind.USER], BY_KIND[LeakKind.HOST], BY_KIND[LeakKind.EMAIL] = "user name", "host name", "address"
BY_KIND[LeakKind.URL], BY_KIND[LeakKind.KEY] = "URL", "key"
"""What the findings of `leaks` are that must not stand anywhere."""
OF_PEOPLE: tuple[What, ...] = ("user name", "host name")
"""What is found as a part of names, too."""
IN_ANY_CASE: tuple[What, ...] = ("path", "folder", *OF_PEOPLE, "address", "URL", "key")
"""What is found in either case."""
SHORTEST_IN_TENSORS = 8
"""Bytes of the shortest name that is looked for in tensors."""
LONGEST_CARRIER = 80
"""Bytes of a name that carries that of a person, at most."""
MOST_CARRIERS = 20
BETWEEN = "between records"
"""The place of texts that are in no record."""
LETTER = re.compile(rb"\w")
ONE_WORD = re.compile(rb"\W*+\w++\W*+")
BEFORE, BEHIND = re.compile(rb"\w +\Z"), re.compile(rb" +\w")
"""Another word before a word, or behind."""
OF_PYTHON = {b"module", b"lambda", b"genexpr", b"listcomp", b"dictcomp", b"setcomp", b"string", b"stdin"}
"""What Python calls code that has no name, in angle brackets: ``<module>`` is no function ``module``."""
AROUND = 8
"""Bytes before a word and behind that are looked at."""
FORM_BYTES, COPIES = 900, 1
"""Bytes of memory that a search takes for each form of a text, and copies of it."""
_Forms = dict[bytes, tuple[What, bytes]]
"""The texts that are looked for, by the bytes that they may stand as."""


@dataclass(slots=True)
class Proof:
    """What a search for texts has found.

    Attributes:
        sought: how many texts were looked for, by what they are.
        unsought: texts that were not, with what they are: too short, or part of a path or line that stays.
        left: each text that was found, where it must not be: what it is, itself, and its first place.
        in_code: lines that were found in generated code or bytecode alone, which is the model.
        unread: records that could not be searched, and why.
        read: bytes that were searched, inflated ones besides those as stored.
        carriers: names of classes, files and records that carry the name of a user or host.
        finder: what has read the same pieces for `leaks`.
    """

    finder: Finder = field(init=False)

    sought: dict[What, int] = field(default_factory=dict)
    unsought: list[tuple[What, bytes]] = field(default_factory=list)
    left: dict[tuple[What, bytes], str] = field(default_factory=dict)
    in_code: set[bytes] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    read: int = 0
    carriers: dict[str, None] = field(default_factory=dict)

    @property
    def unsought_texts(self) -> tuple[str, ...]:
        """The texts that were not looked for, as facts have them: ``path /a``."""
        return tuple(f"{what} {one_line(decoded(text))}" for what, text in self.unsought)


def prove(
    container: Container, removed: Removed, allowance: Allowance, kind: FileKind = FileKind.ZIP
) -> Proof:
    """Search a file for all that was removed, and look at it as `leaks` does.

    Args:
        container: the file.
        removed: the texts.
        allowance: the memory that it may cost.
        kind: of the file.

    Raises:
        ArchiveError: a record of the file cannot be read.
        LimitError: it costs more than allowed.
    """
    proof = Proof()
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
    telling: dict[What, set[bytes]] = defaultdict(set)
    for found_kind, some in removed.telling.by_kind.items():
        telling[BY_KIND[found_kind]] |= some
    texts |= {what: texts.get(what, set()) | some for what, some in telling.items()}
    records = b"\n".join(map(encoded, container.records))
    staying: dict[What, bytes] = {"path": paths, "folder": paths, "line": lines}
    staying["root"] = b"\n".join([records, paths])
    staying["name"] = b"\n".join([paths, encoded(container.root)])
    forms: _Forms = {}
    for what, every in texts.items():
        long = [one for one in every if len(one) >= SHORTEST[what]]
        stays = {text for _, text in Search(long).found(memoryview(staying.get(what, b"")))}
        sought = [one for one in long if one not in stays]
        proof.sought[what] = len(sought)
        proof.unsought += ((what, one) for one in sorted(every.difference(sought)))
        for one in sought:
            made = forms_of(one, in_letters=one in telling.get(what, ()), either_slash=what == "path")
            forms |= dict.fromkeys(made, (what, one))
    with allowance.lent(FORM_BYTES * len(forms) + COPIES * sum(map(len, forms)), "texts that must be gone"):
        _search(container, forms, proof, allowance, kind)
    proof.in_code -= {text for what, text in proof.left if what == "line"}
    return proof


def _search(container: Container, forms: _Forms, proof: Proof, allowance: Allowance, kind: FileKind) -> None:
    """Search all pieces of a file, and the strings in them, as they are without escapes."""
    walker = Walker(allowance, deep=True)
    mapped = Mapped(container.data, container.file)
    proof.finder = finder = Finder(mapped, kind, walker, allowance.limits)
    folded: _Forms = {form.lower(): one for form, one in forms.items() if one[0] in IN_ANY_CASE}
    exact: _Forms = {form: one for form, one in forms.items() if one[0] not in IN_ANY_CASE}
    whole, small, large = Search(forms), Search(exact), Search(folded)

    def take(piece: Piece, data: memoryview, byte: Callable[[int], int]) -> None:
        if piece.in_numbers:
            _take(piece, _found(whole.found(data), data, forms, tensor=True), proof, byte)
            return
        _take(piece, _found(small.found(data), data, exact), proof, byte)
        if folded:
            with allowance.lent(len(data), "bytes in lower case"):
                lowered = memoryview(bytes(data).lower())
                _take(piece, _found(large.found(lowered), data, folded), proof, byte)

    for piece in walker.zip(container):
        take(piece, piece.data, int)
        if not piece.is_packed:
            take(piece, memoryview(piece.strings.data), piece.strings.place)
        finder.take(piece)
    proof.read = walker.read + walker.stored
    proof.unread += walker.problems


def _found(
    places: Iterable[tuple[int, bytes]], data: memoryview, forms: _Forms, *, tensor: bool = False
) -> Iterator[tuple[int, What, bytes, bytes]]:
    """The texts that were found in some bytes, but for chance: place, what, text, name around."""
    for at, form in places:
        what, text = forms[form]
        if what == "name" and not _is_word(data, at, form, tensor=tensor):
            continue
        if what == "line" and ONE_WORD.fullmatch(form) and _is_in_sentence(data, at, form):
            continue
        around = b""
        if what in OF_PEOPLE:
            if tensor and len(text) < SHORTEST_IN_TENSORS:
                continue
            if len(form) == len(text):
                low = max(at - LONGEST_CARRIER, 0)
                around = name_around(bytes(data[low : at + len(form) + LONGEST_CARRIER]), at - low, len(form))
                if not around:
                    continue
        yield at, what, text, around


def _is_word(data: memoryview, at: int, form: bytes, *, tensor: bool) -> bool:
    """Whether a name that was found is a whole word, and no chance."""
    if tensor and len(form) < SHORTEST_IN_TENSORS:
        return False
    around = bytes(data[max(at - 1, 0) : at]), bytes(data[at + len(form) : at + len(form) + 1])
    if around == (b"<", b">") and form in OF_PYTHON:
        return False
    return not any(map(LETTER.fullmatch, around))


def _is_in_sentence(data: memoryview, at: int, form: bytes) -> bool:
    """Whether other words stand before a word and behind it."""
    end = at + len(form)
    before, behind = bytes(data[max(at - AROUND, 0) : at]), bytes(data[end : end + AROUND])
    return BEFORE.search(before) is not None and BEHIND.match(behind) is not None


def _take(
    piece: Piece,
    found: Iterable[tuple[int, What, bytes, bytes]],
    proof: Proof,
    byte: Callable[[int], int],
) -> None:
    """Note what was found in a piece, but for lines of the model's code; ``byte`` tells where in the piece.

    Bytecode has the strings of code as constants, where lines of a text in quotes stand, too.
    """
    code = is_code(piece.record) or piece.record == BYTECODE
    for at, what, text, around in found:
        if around.lower() != text.lower() and around and len(proof.carriers) < MOST_CARRIERS:
            proof.carriers[f"{one_line(decoded(around))} ({one_line(decoded(text))})"] = None
        if code and what == "line":
            proof.in_code.add(text)
        elif (what, text) not in proof.left:
            part = "" if piece.is_packed else piece.part(byte(at))
            proof.left[what, text] = ", ".join(filter(None, (piece.record or BETWEEN, part)))
