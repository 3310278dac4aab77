"""The proof: every byte of a redacted file is searched for every text that was to go.

A file is read as stored and as inflated, with all that records hold: zips, companions, compressed streams
and sections, base64 (the room ``pieces``). Texts are looked for in UTF-8 and UTF-16, as they are and escaped
as in JSON, once and twice; strings of JSON without their escapes, too. What cannot be read is named.

A name is found where it is a whole word: ``gate`` is not left in ``aggregate``. Short ones are not looked for
in tensors, whose bytes spell any word by chance. A line of one word, such as the argument ``training,``, is
not left in a sentence with that word.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from archive.base.errors import one_line
from archive.base.strings import decoded
from archive.container.names import encoded
from archive.formats.bytecode import BYTECODE
from archive.formats.record_kinds import RecordKind, is_code
from archive.pieces.walker import Walker
from archive.verbs.redact.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.base.limits import Allowance
    from archive.container.container import Container
    from archive.pieces.piece import Piece
    from archive.verbs.redact.rules import Removed

What = Literal["path", "folder", "line", "name", "root", "file"]
SHORTEST: dict[What, int] = {"path": 5, "folder": 5, "line": 8, "name": 5, "root": 5, "file": 16}
"""Bytes of the shortest texts that are looked for: shorter ones stand anywhere by chance."""
SHORTEST_IN_TENSORS = 8
"""Bytes of the shortest name that is looked for in tensors."""
BETWEEN = "between records"
"""The place of texts that are in no record."""
LETTER = re.compile(rb"\w")
ONE_WORD = re.compile(rb"\W*+\w++\W*+")
BEFORE, BEHIND = re.compile(rb"\w +\Z"), re.compile(rb" +\w")
"""Another word before a word, or behind."""
AROUND = 8
"""Bytes before a word and behind that are looked at."""
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
    """

    sought: dict[What, int] = field(default_factory=dict)
    unsought: list[tuple[What, bytes]] = field(default_factory=list)
    left: dict[tuple[What, bytes], str] = field(default_factory=dict)
    in_code: set[bytes] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    read: int = 0

    @property
    def unsought_texts(self) -> tuple[str, ...]:
        """The texts that were not looked for, as facts have them: ``path /a``."""
        return tuple(f"{what} {one_line(decoded(text))}" for what, text in self.unsought)


def prove(container: Container, removed: Removed, allowance: Allowance) -> Proof:
    """Search a file for all that was removed.

    Args:
        container: the file.
        removed: the texts.
        allowance: the memory that it may cost.

    Raises:
        ArchiveError: a record of the file cannot be read.
        LimitError: it costs more than allowed.
    """
    proof = Proof()
    paths = b"\n".join(removed.kept_paths)
    lines = b"\n".join([*removed.kept_lines, paths])
    texts: dict[What, set[bytes]] = {
        "path": removed.paths,
        "folder": removed.folders,
        "line": removed.lines - {b""},
        "name": removed.names,
        "root": {root + b"/" for root in removed.roots},
        "file": removed.files - {b""},
    }
    records = b"\n".join(map(encoded, container.records))
    staying: dict[What, bytes] = {"path": paths, "folder": paths, "line": lines}
    staying["root"] = b"\n".join([records, paths])
    staying["name"] = b"\n".join([paths, encoded(container.root)])
    forms: _Forms = {}
    for what, some in texts.items():
        long = [one for one in some if len(one) >= SHORTEST[what]]
        stays = {text for _, text in Search(long).found(memoryview(staying.get(what, b"")))}
        sought = [one for one in long if one not in stays]
        proof.sought[what] = len(sought)
        proof.unsought += ((what, one) for one in sorted(some.difference(sought)))
        for one in sought:
            forms |= dict.fromkeys(_forms(one), (what, one))
    _search(container, Search(forms), forms, proof, allowance)
    proof.in_code -= {text for what, text in proof.left if what == "line"}
    return proof


def _forms(text: bytes) -> set[bytes]:
    """The bytes that a text may stand as."""
    try:
        string = text.decode(errors="surrogatepass")
    except UnicodeDecodeError:  # no text that JSON or UTF-16 could have
        return {text}
    once = {json.dumps(string, ensure_ascii=pure)[1:-1] for pure in (True, False)}
    twice = {json.dumps(one)[1:-1] for one in once}
    codecs = ("utf-8", "utf-16-le", "utf-16-be")
    return {one.encode(codec, "surrogatepass") for one in {string} | once | twice for codec in codecs}


def _search(container: Container, search: Search, forms: _Forms, proof: Proof, allowance: Allowance) -> None:
    """Search all pieces of a file, and strings of JSON as they are without escapes."""
    walker = Walker(allowance, deep=True)
    for piece in walker.zip(container):
        tensor = piece.kind is RecordKind.TENSOR
        _take(piece, _found(search, piece.data, forms, tensor=tensor), forms, proof, int)
        if not tensor and not piece.is_packed and piece.strings.json is not None:
            lines = memoryview(piece.strings.data)
            _take(piece, _found(search, lines, forms, tensor=tensor), forms, proof, piece.strings.place)
    proof.read = walker.read + walker.stored
    proof.unread += walker.problems


def _found(search: Search, data: memoryview, forms: _Forms, *, tensor: bool) -> Iterator[tuple[int, bytes]]:
    """The texts that stand somewhere in some bytes, each with its place, but for those that are chance."""
    for at, form in search.found(data):
        what = forms[form][0]
        if what == "name" and not _is_word(data, at, form, tensor=tensor):
            continue
        if what == "line" and ONE_WORD.fullmatch(form) and _is_in_sentence(data, at, form):
            continue
        yield at, form


def _is_word(data: memoryview, at: int, form: bytes, *, tensor: bool) -> bool:
    """Whether a name that was found is a whole word, and no chance."""
    if tensor and len(form) < SHORTEST_IN_TENSORS:
        return False
    around = bytes(data[max(at - 1, 0) : at]), bytes(data[at + len(form) : at + len(form) + 1])
    return not any(map(LETTER.fullmatch, around))


def _is_in_sentence(data: memoryview, at: int, form: bytes) -> bool:
    """Whether other words stand before a word and behind it."""
    end = at + len(form)
    before, behind = bytes(data[max(at - AROUND, 0) : at]), bytes(data[end : end + AROUND])
    return BEFORE.search(before) is not None and BEHIND.match(behind) is not None


def _take(
    piece: Piece,
    found: Iterable[tuple[int, bytes]],
    forms: _Forms,
    proof: Proof,
    byte: Callable[[int], int],
) -> None:
    """Note what was found in a piece, but for lines of the model's code; ``byte`` tells where in the piece.

    Bytecode has the strings of code as constants, where lines of a text in quotes stand, too.
    """
    code = is_code(piece.record) or piece.record == BYTECODE
    for at, form in found:
        what, text = forms[form]
        if code and what == "line":
            proof.in_code.add(text)
        elif (what, text) not in proof.left:
            part = "" if piece.is_packed else piece.part(byte(at))
            proof.left[what, text] = ", ".join(filter(None, (piece.record or BETWEEN, part)))
