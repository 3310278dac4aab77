r"""Absolute paths in texts, and paths that stand in parts: in lists, tuples, and pickles of ``pathlib``.

A path begins where no name, URL or other path goes on: ``torch/nn`` and ``//`` aren't paths. Below roots that
are known to be people's, any path counts and may have spaces; below those of machines, any; others need three
folders, two and a file with an ending, or one and a file that models are made of. ``\\`` counts as
``\``, as source text has it in literals, and ``%2F`` as ``/``.

``/home/`` and ``/Users/`` begin a path wherever they stand, if a name and more follow: after an option
(``-isystem/home/ann/include``) or whatever else isn't a path itself. A string that begins like a path, and
goes on like one, is a path up to its end, with blanks, brackets and commas.

A list may be anything, so it is a path only if it leads from a root into a home, or from ``home`` or
``Users`` to a file; :class:`pathlib.Path` says itself that it is one.
"""

from __future__ import annotations

import re
from array import array
from contextlib import suppress
from functools import lru_cache
from heapq import merge
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from archive.base.patterns import pattern_of
from archive.privacy.leaks.vocabulary import (
    ANY_HOMES,
    ENDING,
    HOME_FOLDERS,
    HOMES_AT_ROOT,
    NOBODY,
    PARTS,
    SURE_HOMES,
    TEMPORARY,
    Detection,
    LeakKind,
    is_telling,
    is_word_of_code,
    matched,
    of_path,
    places_of,
    textual,
)
from archive.privacy.leaks.words import present
from archive.privacy.pieces.layers import SpanLayer
from archive.privacy.pieces.pickle_strings import MOST_IN_ROW, MOST_OPCODES, PickleLayer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.privacy.leaks.words import FoundWords
    from archive.privacy.pieces.layers import Layer
    from archive.privacy.pieces.strings import PieceStrings

NAME = rb"[^\x00-\x20\x7f\"'<>|:*?`\\,;(){}\[\]/]++"
SPACED = NAME + rb"(?: " + NAME + rb"){0,2}"
BEGINS = rb"(?<![\w.~@%/\\$)}\]*-]"
"""What no path comes right after; to be followed by its first byte."""
ROOT = rb"/(?:" + BEGINS + rb"/)|(?<=-[ILB]/)|(?<=\0V/)|(?<=file:///))"
"""A slash that begins a path. What stands before is looked at last: searches for a single byte are quick."""
KNOWN_ROOTS = rb"(?:root|" + SURE_HOMES + rb"|" + TEMPORARY + rb")/"
ROOTED = pattern_of(
    ROOT + KNOWN_ROOTS + rb"(?:(?:" + SPACED + rb"/){1,64}+(?:" + NAME + rb")?|" + NAME + rb")"
)
POSIX = pattern_of(ROOT + NAME + rb"/(?:(?:" + NAME + rb"/){1,64}+(?:" + NAME + rb")?|" + NAME + rb")")
"""Both may end with a slash, as folders do."""
IN_ROOT = pattern_of(rb"/" + KNOWN_ROOTS + rb"[^/]")
SLASHES = rb"(?:\\{1,4}|/)"
DRIVE = pattern_of(
    rb"(?<![A-Za-z0-9])[A-Za-z]:"
    + SLASHES
    + rb"(?!/)(?:(?:"
    + SPACED
    + SLASHES
    + rb"){1,64}+(?:"
    + NAME
    + rb")?|"
    + NAME
    + rb")"
)
UNC = pattern_of(
    rb"(?<![\\\w:])\\{2,4}(?:\?\\{1,2}UNC\\{1,2})?([A-Za-z0-9][\w.-]{1,62}\$?)\\{1,2}"
    rb"(?:" + SPACED + rb"\\{1,2}){1,64}+" + NAME
)
SHARE = pattern_of(
    rb"(?<![^\x00-\x20\"'=>])(?:\\\\([A-Za-z][\w.-]{2,62})\\|\\{4}([A-Za-z][\w.-]{2,62})\\\\)"
    rb"[A-Za-z][\w-]{2,62}\$?(?=[\x00-\x20\"']|$)"
)
"""A network path of two names, without anything around: formulas and patterns look alike."""
UP = pattern_of(rb"(?<=\.\.)/" + HOMES_AT_ROOT + rb"/(?:" + NAME + rb"/){0,64}+" + NAME)
"""A home in a relative path: ``../../home/ann/net.py``."""
VARIABLE = pattern_of(
    rb"(?:\$HOME|\$\{HOME\}|%(?:USERPROFILE|HOMEPATH|APPDATA|LOCALAPPDATA)%)"
    + SLASHES
    + rb"(?!\.)(?:"
    + NAME
    + SLASHES
    + rb"){1,64}+"
    + NAME
)
"""The same by a variable of the shell."""
WITHOUT_DRIVE = pattern_of(rb"(?<![\w:\\])\\{1,4}(?i:Users)(?:\\{1,4}" + SPACED + rb"){2,64}+")
"""A home of Windows without its drive: ``..\\Users\\ann\\net.py``."""
USERS = pattern_of(rb"\\(?i:Users)\\")
MOST_SLASHES = 3
"""Backslashes before the last one, at most."""
WITHOUT_ROOT = pattern_of(rb"(?<![\w.~@%/\\$)}\]*-])(?:home|Users)/(?:" + NAME + rb"/){1,64}+" + NAME)
"""A home without its root, as archives name files; it leads to a file that models are made of."""
TILDE = pattern_of(rb"~(?:" + BEGINS + rb"~))/(?!\.)" + NAME + rb"/(?:" + NAME + rb"/){0,64}+" + NAME)
"""A path in the home of whoever runs."""
ANYWHERE = pattern_of(rb"/" + HOMES_AT_ROOT + rb"/(?:" + NAME + rb"/){1,64}+" + NAME)
"""A home that begins after a letter."""
GOES_ON = pattern_of(rb"[\w-]")
CUT = bytes(0 if code <= ord(" ") or code in b"\"'<>|*?`,;(){}[]=" else code for code in range(256))
"""Translates what no path has, without blanks and the like, to NUL."""
MOST_OF_WORD = 256
BEGINS_STRING, QUOTES = frozenset((b"", b"\0", b"\n", b"\t", b">")), frozenset((b"'", b'"'))
ENDS_STRING, ENDS_MARKUP = pattern_of(rb"[\0\n\r\t]"), pattern_of(rb"[\0\n<]")
OF_SETTING = pattern_of(rb"(?:[\0\n]|\A)[ \t]{0,40}(?:(?:- )?-{0,2}[\w.-]{1,64} ?[:=] ?|- )\Z")
"""What stands before the value of a setting, an option or an item, which goes on to the end of its line."""
ENDS_OF_SETTING = (b":", b"=", b": ", b"= ", b"- ")
"""What that ends with: of a path in the middle of a line, no pattern looks at what stands before."""
MOST_OF_NAME = 110
NOT_IN_PATH = pattern_of(rb"[\x00-\x1f\"<>|*?`]|[\s(=,;\[{][/\\~]|[A-Za-z]:[/\\]|:[ /]")
"""What no path has after its beginning, though a sentence does."""
PATH_GOES_ON = pattern_of(rb"(?<!\s)[/\\][^\s/\\]|[^\s]\.[A-Za-z][A-Za-z0-9_]{0,5}\Z")
"""What says that a path goes on after a blank or a bracket: a separator, or the ending of a file."""
IN_PATH_ONLY = (b"/", b"\\", b".")
"""One of these is in whatever says so."""
MOST_OF_REST = 1 << 10
TILDE_OF_USER = pattern_of(
    rb"~(?:" + BEGINS + rb"~))([a-z_][a-z0-9_-]{2,31})/(?!\.)(?:" + NAME + rb"/){0,64}+" + NAME
)
"""A path in the home of somebody, which ends in a file that models are made of: ``~`` is an operator, too."""
QUOTED = (b"%2F", b"%2f", b"%5C", b"%5c")
IN_URL = pattern_of(rb"(?:[A-Za-z]%3A)?(?:%2F|%5C)[\w.~%+-]{3,1000}", re.IGNORECASE)
"""A path as :func:`urllib.parse.quote` writes it without any character that is safe."""
TWO = pattern_of(rb"\A(?:\w:)?//+")
"""What stands before the path in the URL of a file."""
DRIVE_BEFORE = pattern_of(rb"(?<![A-Za-z0-9])[A-Z]:\Z")
TRIMMED = b".,!#&=+^/"
MARKS_OF_VARIABLES = (b"$HOME", b"${HOME", b"%USERP", b"%HOMEP", b"%APPD", b"%LOCALAPPD")
AT_ROOT, WITHOUT_SLASH = (b"/home", b"/Users/"), (b"home/", b"Users/")
MARKS_OF_HOMES = (*MARKS_OF_VARIABLES, *AT_ROOT, *WITHOUT_SLASH)
"""Words that homes begin with."""
MOST_REPEATED = 1 << 10
"""Paths that are cached: lines of a stack repeat the same few."""


def paths(data: bytes, words: FoundWords | None = None) -> Iterator[Detection]:
    """The absolute paths in a text, and the names in them.

    Args:
        words: those of ``MARKS_OF_HOMES`` that are in it; None where that is not known.
    """
    if b"/" in data:
        yield from _posix(data, words)
    for mark in (b":\\", b":/"):
        for match in matched(data, mark, 1, DRIVE):
            yield from of_path(match.start(), _single(textual(_whole(data, match))), LeakKind.DRIVE)
    for pattern in (UNC, SHARE) if b"\\" in data else ():
        for match in matched(data, b"\\\\", 0, pattern):
            host = match.lastindex or 1
            yield from of_path(match.start(), b"\\" + _single(_whole(data, match)), LeakKind.UNC)
            yield Detection(LeakKind.HOST, match.start(host), match[host])
    for match in matched(data, b"../", -2, UP):
        yield from of_path(match.start(), match[0].rstrip(TRIMMED), LeakKind.PATH)
    for mark in present(MARKS_OF_VARIABLES, words):
        for match in matched(data, mark, 0, VARIABLE):
            yield Detection(LeakKind.HOME, match.start(), _single(match[0].rstrip(TRIMMED)))
    for match in _without_drive(data) if b"\\" in data else ():
        for one in of_path(0, b"C:" + _single(match[0]), LeakKind.DRIVE):
            yield one._replace(at=match.start(), text=one.text.removeprefix(b"C:"))
    for match in _without_root(data, words):
        if PARTS.search(path := match[0].rstrip(TRIMMED)):
            for one in of_path(match.start() - 1, b"/" + path, LeakKind.PATH):
                is_path = one.kind is not LeakKind.USER
                yield one._replace(at=match.start(), text=path) if is_path else one
    for match in matched(data, b"~/", 0, TILDE):
        yield from of_path(match.start(), match[0].rstrip(TRIMMED), LeakKind.HOME)
    for match in matched(data, b"~", 0, TILDE_OF_USER):
        path = match[0].rstrip(TRIMMED)
        if PARTS.search(path):
            yield Detection(LeakKind.HOME, match.start(), path)
            if not is_word_of_code(match[1]) and match[1] not in NOBODY:
                yield Detection(LeakKind.USER, match.start(1), match[1])
    if b"%" in data and any(quoted in data for quoted in QUOTED):
        from urllib.parse import unquote_to_bytes  # noqa: PLC0415 (few texts have such paths)

        for match in IN_URL.finditer(data):
            path = TWO.sub(b"/", unquote_to_bytes(match[0]))
            drives = (of_path(0, _single(drive[0]), LeakKind.DRIVE) for drive in DRIVE.finditer(path))
            for detection in chain(_posix(path), *drives):
                yield detection._replace(at=match.start())


def _without_drive(data: bytes) -> Iterator[re.Match[bytes]]:
    end = 0
    for users in USERS.finditer(data):
        begin = max(users.start() - MOST_SLASHES, end)
        begin += len(data[begin : users.start()].rstrip(b"\\"))
        match = WITHOUT_DRIVE.match(data, begin)
        if match is not None:
            end = match.end()
            yield match


def _without_root(data: bytes, words: FoundWords | None) -> Iterator[re.Match[bytes]]:
    end = 0
    for at in merge(*(places_of(data, home) for home in present(WITHOUT_SLASH, words))):
        match = WITHOUT_ROOT.match(data, at) if at >= end else None
        if match is not None:
            end = match.end()
            yield match


def _posix(data: bytes, words: FoundWords | None = None) -> Iterator[Detection]:
    rooted = array("q")
    for match in ROOTED.finditer(data):
        at = match.start()
        rooted.append(at)
        detections = _below_root(_whole(data, match))
        if detections and not DRIVE_BEFORE.search(data, max(at - 3, 0), at):
            for kind, offset, text in detections:
                yield Detection(kind, at + offset, text)
    number = 0
    for match in POSIX.finditer(data):
        while number < len(rooted) and rooted[number] < match.start():
            number += 1
        if number == len(rooted) or rooted[number] != match.start():
            path = textual(match[0]).rstrip(TRIMMED)
            if is_telling(path):
                path = textual(_whole(data, match)).rstrip(TRIMMED)
                yield from of_path(match.start(), path, LeakKind.PATH)
    for mark in present(AT_ROOT, words):
        for match in matched(data, mark, 0, ANYWHERE):
            if _begins_after_word(data, match.start()):
                yield from of_path(match.start(), textual(match[0]).rstrip(TRIMMED), LeakKind.PATH)


def _begins_after_word(data: bytes, at: int) -> bool:
    """Whether a home begins after a letter, and the word before it isn't an absolute path or a URL."""
    if not GOES_ON.match(data[at - 1 : at]):
        return False
    word = data[max(at - MOST_OF_WORD, 0) : at].translate(CUT).rpartition(b"\0")[2]
    return len(word) < MOST_OF_WORD and not word.startswith((b"/", b"\\", b"~")) and b":" not in word


def _whole(data: bytes, path: re.Match[bytes]) -> bytes:
    """A path up to the end of its string, where that is a path as a whole; else as it was found."""
    begin = path.start()
    before = data[max(begin - 1, 0) : begin]
    most = path.end() + MOST_OF_REST
    if before in QUOTES:
        end = data.find(before, path.end(), most)
    elif before in BEGINS_STRING or (
        data.endswith(ENDS_OF_SETTING, max(begin - 2, 0), begin)
        and OF_SETTING.search(data, max(begin - MOST_OF_NAME, 0), begin)
    ):
        stop = (ENDS_MARKUP if before == b">" else ENDS_STRING).search(data, path.end(), most)
        end = stop.start() if stop else min(len(data), most)
    else:
        return path[0]
    rest = data[path.end() : max(end, 0)]
    if not any(mark in rest for mark in IN_PATH_ONLY):  # nearly all, and sooner than patterns say so
        return path[0]
    if NOT_IN_PATH.search(rest) or not PATH_GOES_ON.search(rest):
        return path[0]
    return path[0] + rest


@lru_cache(MOST_REPEATED)
def _below_root(found: bytes) -> Sequence[Detection]:
    """What a path that is found below a known root reveals, at its first byte; nothing if none is left."""
    path = textual(found).rstrip(TRIMMED)
    return tuple(of_path(0, path, LeakKind.PATH)) if IN_ROOT.match(path) else ()


def _single(path: bytes) -> bytes:
    """A path with single backslashes instead of doubled ones."""
    return re.sub(rb"\\+", rb"\\", path)


# --- paths in parts

PATHLIB, PATH = b"pathlib", "pathlib.Path"
PATH_CLASS = pattern_of(r"pathlib\S* (?:Pure)?(?:Posix|Windows)?Path\Z")
QUOTED_HOME = pattern_of(rb"[\"']" + ANY_HOMES + rb"\\{0,7}[\"']")
NAMES_OF_HOMES = tuple(folder.name for folder in HOME_FOLDERS)
HOME_STRINGS = {
    folder.name + digit
    for folder in HOME_FOLDERS
    for digit in (b"", *(b"%d" % number for number in range(10) if folder.is_numbered))
}
"""The strings that ``ANY_HOMES`` matches."""
FIRST_PART = pattern_of(rb"|/|[A-Za-z]:[\\/]?")
BARE = pattern_of(HOMES_AT_ROOT)
"""Begins a path that has no root."""
FEWEST_BARE = 3
"""Parts of a path without a root."""
MOST_PARTS = 32
QUOTED_TEXT = rb"\\{0,7}+[\"']((?:[^\"'\\\n]|\\(?!\\{0,6}+[\"'])){0,255}+)\\{0,7}+[\"']"
"""A string; backslashes before a quote belong to the quote, so that there is only one way to read it."""
LISTED = pattern_of(
    rb"[\[(]\s{0,40}(\\{0,7})[\"'](?:(?:" + FIRST_PART.pattern + rb"|" + BARE.pattern + rb")\\{0,7}[\"'])"
    rb"(?:\s{0,40},\s{0,40}" + QUOTED_TEXT + rb"){1,%d}+\s{0,40},?\s{0,40}[\])]" % (MOST_PARTS - 1)
)
QUOTED_STRING = pattern_of(QUOTED_TEXT)
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
WHOLE = {"APPENDS", "TUPLE", "LIST", "ADDITEMS", "FROZENSET"}


class PathParts(NamedTuple):
    """Texts in a row.

    Attributes:
        at: the first byte.
        texts: what may be the parts of a path.
        is_path: whether they are.
    """

    at: int
    texts: Sequence[bytes]
    is_path: bool = False


def parted(strings: PieceStrings) -> Iterator[Detection]:
    """The paths that stand in parts; each is at a byte of the record."""
    # in the lines, each of which is there once: the layers of a program repeat theirs at every node
    data = strings.data
    has_homes = any(name in data for name in NAMES_OF_HOMES)
    for layer in strings.layers:
        lists: Iterator[PathParts] = iter(())
        if isinstance(layer, PickleLayer):
            lists = _in_pickle(layer)
        elif isinstance(layer, SpanLayer) and has_homes:
            lists = _in_text(layer)
        for parts in lists:
            for detection in _joined(parts):
                yield detection._replace(at=layer.outer(parts.at))


def _in_text(layer: Layer) -> Iterator[PathParts]:
    """Lists of strings, as JSON and Python write them.

    In a list in a string in a string …, backslashes before its quotes show how deep it is.
    """
    data = layer.data
    if QUOTED_HOME.search(data):
        for match in LISTED.finditer(data):
            texts = [text[1] for text in QUOTED_STRING.finditer(match[0])]
            for _ in range((len(match[1]) + 1).bit_length()):
                texts = list(map(layer.decoded, texts))
            yield PathParts(match.start(), texts)


def _in_pickle(layer: PickleLayer) -> Iterator[PathParts]:
    """Lists and tuples of texts; texts may be remembered from before."""
    if PATHLIB not in layer.data and HOME_STRINGS.isdisjoint(layer.counts):
        return
    import pickletools  # noqa: PLC0415 (few pickles have such lists)

    file, row, last = BytesIO(layer.data), list[tuple[int, str]](), None
    memo: dict[int, str | None] = {}
    is_path = is_list = False
    with suppress(ValueError, OverflowError, UnicodeError):  # no pickle from there on
        ops = chain.from_iterable(pickletools.genops(file) for _ in range(MOST_IN_ROW))
        for op, argument, at in islice(ops, MOST_OPCODES):
            if "PUT" in op.name or op.name == "MEMOIZE":
                memo[len(memo) if argument is None else argument] = last
            elif op.name == "APPEND":
                is_list = True
            elif (last := _pushed(op.name, argument, memo, row)) == PATH:
                row, is_path, is_list = [], True, False
            elif last is not None:
                row.append((at or 0, last))
            else:
                items = row[-TUPLES[op.name] :] if op.name in TUPLES else row
                if items and (is_list or op.name in TUPLES or op.name in WHOLE):
                    texts = [text.encode(errors="surrogateescape") for _, text in items]
                    yield PathParts(items[0][0], texts, is_path)
                    is_path = False
                row, is_list = [], False
            if op.name == "STOP":
                memo = {}


def _pushed(
    op: str, argument: object, memo: dict[int, str | None], row: Sequence[tuple[int, str]]
) -> str | None:
    """What an opcode pushes: a text, ``PATH`` for a class of paths, None for anything else."""
    if "GET" in op and isinstance(argument, int):
        return memo.get(argument)
    if op == "GLOBAL":
        return PATH if PATH_CLASS.match(str(argument)) else None
    if op == "STACK_GLOBAL":
        return PATH if PATH_CLASS.match(" ".join(text for _, text in row[-2:])) else None
    return argument if ("UNICODE" in op or "STRING" in op) and isinstance(argument, str) else None


def _joined(parts: PathParts) -> Iterator[Detection]:
    """The path that texts are the parts of, and whose home it is in."""
    first, *names = parts.texts
    if not 0 < len(names) < MOST_PARTS or not all(names):
        return
    if FIRST_PART.fullmatch(first):
        slash = b"\\" if b":" in first and not first.endswith(b"/") else b"/"
        path = first.rstrip(b"\\/") + slash + slash.join(names)
    elif (
        BARE.fullmatch(first)
        and len(names) + 1 >= FEWEST_BARE
        and (parts.is_path or ENDING.search(names[-1]))
    ):
        path = b"/" + b"/".join(parts.texts)
    else:
        return
    detections = list(paths(path))
    if parts.is_path or any(detection.kind is LeakKind.HOME for detection in detections):
        yield from detections
