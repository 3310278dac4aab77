"""The proof: every byte of a redacted file is searched for every text that was to go.

A file is read as stored and as inflated, with zips and companions inside of records. Texts are looked for in
UTF-8 and UTF-16, as they are and escaped as in JSON, once and twice. What is compressed otherwise cannot be
searched, and is named.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from archive.base.errors import ArchiveError, LimitError, one_line
from archive.base.mapped import Mapped
from archive.companion.magic import is_companion
from archive.companion.parse import parse_companion
from archive.container.container import Container
from archive.container.end import has_end
from archive.container.names import encoded
from archive.formats.record_kinds import is_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance
    from archive.verbs.redact.rules import Removed

What = Literal["path", "folder", "line", "name", "root", "file"]
SHORTEST: dict[What, int] = {"path": 5, "folder": 5, "line": 8, "name": 5, "root": 5, "file": 16}
"""Bytes of the shortest texts that are looked for: shorter ones stand anywhere by chance."""
HEAD = 8
"""Bytes by which long texts are found."""
BITS = 20
MIX = np.uint64(0x9E3779B97F4A7C15)
WINDOW = 1 << 22
"""Bytes that are searched at once."""
DEEPEST = 4
"""Zips within zips so deep are opened."""
INSIDE = "!"
"""Stands between the record that a zip is in and the zip's own record."""
PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf": "7z",
}
"""The first bytes of files that are compressed."""


@dataclass(slots=True)
class Proof:
    """What a search for texts has found.

    Attributes:
        sought: how many texts were looked for, by what they are.
        unsought: how many were not: too short, or part of a path or line that stays.
        left: each text that was found, where it must not be: what it is, itself, and its first place.
        in_code: lines that were found in generated code alone, which is the model.
        unread: records that could not be searched, and why.
        read: bytes that were searched, inflated ones besides those as stored.
    """

    sought: dict[What, int] = field(default_factory=dict)
    unsought: int = 0
    left: dict[tuple[What, bytes], str] = field(default_factory=dict)
    in_code: set[bytes] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    read: int = 0


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
    staying: dict[What, bytes] = {"path": paths, "folder": paths, "line": lines, "root": records}
    forms: dict[bytes, tuple[What, bytes]] = {}
    for what, some in texts.items():
        sought = [one for one in some if len(one) >= SHORTEST[what] and one not in staying.get(what, b"")]
        proof.sought[what] = len(sought)
        proof.unsought += len(some) - len(sought)
        for one in sought:
            forms |= dict.fromkeys(_forms(one), (what, one))
    _Search(proof, forms, allowance).zip(container, "", 0)
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


class _Search:
    """Searches bytes for texts.

    Args:
        proof: takes what is found.
        forms: the texts, by the bytes that they may stand as.
        allowance: the memory that the search may cost.
    """

    def __init__(self, proof: Proof, forms: dict[bytes, tuple[What, bytes]], allowance: Allowance) -> None:
        self._proof = proof
        self._forms = forms
        self._allowance = allowance
        self._short = [form for form in forms if len(form) < HEAD]
        self._lengths: dict[bytes, set[int]] = defaultdict(set)
        for form in forms:
            if len(form) >= HEAD:
                self._lengths[form[:HEAD]].add(len(form))
        heads = np.frombuffer(b"".join(self._lengths), np.uint64)
        self._may_be = np.zeros(1 << BITS, np.bool_)
        self._may_be[_mixed(heads)] = True

    def zip(self, container: Container, inside: str, depth: int) -> None:
        """Search the records of a zip, and what stands between them."""
        whole, end = container.data, 0
        places = sorted((one.place.data, one.stored_size) for one in container.records.values())
        for start, size in [*places, (len(whole), 0)]:
            if start > end:
                self._bytes(whole[end:start], f"{inside}between records", code=False)
            end = max(end, start + size)
        for name, record in container.records.items():
            code = is_code(name) and not inside
            if record.entry.deflated:
                self._bytes(record.raw(), inside + name, code=code)
            self._content(record.view(), inside + name, depth, code=code)

    def _content(self, data: memoryview, name: str, depth: int, *, code: bool) -> None:
        """Search a record, and what is compressed in it."""
        self._bytes(data, name, code=code)
        packed = next((how for head, how in PACKED.items() if data[: len(head)] == head), None)
        if packed is not None:
            self._proof.unread.append(f"{one_line(name)}: compressed by {packed}")
        try:
            if is_companion(data):
                self._companion(data, name)
            elif has_end(data):
                if depth == DEEPEST:
                    self._proof.unread.append(f"{one_line(name)}: zips in zips, too deep")
                    return
                with Container(Mapped(data, name), self._allowance, rooted=False) as container:
                    self.zip(container, name + INSIDE, depth + 1)
        except LimitError:
            raise
        except ArchiveError as problem:
            self._proof.unread.append(one_line(f"{name}: {problem}"))

    def _companion(self, data: memoryview, name: str) -> None:
        """Search the strings of a companion, its raw records, and what stood behind shared objects."""
        contents = parse_companion(data, self._allowance)
        strings = b"\n".join(contents.strings.copies())
        for one in (strings, *contents.records.raw.values(), contents.behind):
            self._bytes(memoryview(one), name, code=False)

    def _bytes(self, data: memoryview, name: str, *, code: bool) -> None:
        self._proof.read += len(data)
        for form in self._found(data):
            what, text = self._forms[form]
            if code and what == "line":
                self._proof.in_code.add(text)
            else:
                self._proof.left.setdefault((what, text), name)

    def _found(self, data: memoryview) -> Iterator[bytes]:
        """The forms of texts that stand somewhere in some bytes."""
        overlap = HEAD - 1
        for low in range(0, len(data), WINDOW):
            window = data[low : low + WINDOW + overlap]
            held = bytes(window) if self._short else b""
            yield from (form for form in self._short if form in held)
            for shift in range(HEAD):
                if len(window) < shift + HEAD:
                    break
                heads = np.frombuffer(window, np.uint64, (len(window) - shift) // HEAD, shift)
                for at in np.flatnonzero(self._may_be[_mixed(heads)]).tolist():
                    yield from self._at(data, low + shift + HEAD * at)

    def _at(self, data: memoryview, at: int) -> Iterator[bytes]:
        """The forms that begin at a byte."""
        for length in self._lengths.get(bytes(data[at : at + HEAD]), ()):
            form = bytes(data[at : at + length])
            if form in self._forms:
                yield form


def _mixed(heads: np.ndarray) -> np.ndarray:
    """A number of few bits for each head."""
    return (heads * MIX) >> np.uint64(64 - BITS)
