"""Paths that stand in parts: in lists and tuples of pickles and of texts, and in pickles of :mod:`pathlib`.

A list may be anything, so it is a path only if it leads from a root into a home, or from ``home`` or
``Users`` to a file; :class:`pathlib.Path` says itself that it is one.
"""

from __future__ import annotations

import pickletools
import re
from contextlib import suppress
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.leaks.paths import paths
from archive.privacy.leaks.vocabulary import ENDING, Found
from archive.privacy.pieces.layer import Spans
from archive.privacy.pieces.pickle_strings import MOST_IN_ROW, MOST_OPCODES, PickleLayer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.privacy.pieces.layer import Layer
    from archive.privacy.pieces.strings import Strings

PATHS, PATH = b"pathlib", "pathlib.Path"
PATH_CLASS = re.compile(r"pathlib\S* (?:Pure)?(?:Posix|Windows)?Path\Z")
HOMES = {b"home", b"homes", b"Homes", b"users", b"Users", b"people"} | {b"home%d" % one for one in range(10)}
"""Folders of homes: lists without one of these are passed over."""
QUOTED_HOME = re.compile(rb"[\"'](?:home\d?|[Hh]omes|[Uu]sers|people)\\{0,7}[\"']")
MARKS = (b"home", b"omes", b"sers", b"people")
ROOT = re.compile(rb"|/|[A-Za-z]:[\\/]?")
BARE = re.compile(rb"home\d?|Users")
"""Begins a path that has no root."""
FEWEST_BARE = 3
"""Parts of a path without a root."""
MOST_PARTS = 32
TEXT = rb"\\{0,7}+[\"']((?:[^\"'\\\n]|\\(?!\\{0,6}+[\"'])){0,255}+)\\{0,7}+[\"']"
"""A string; backslashes before a quote are a part of that, so that there is one way alone to read it."""
LISTED = re.compile(
    rb"[\[(]\s{0,40}(\\{0,7})[\"'](?:(?:" + ROOT.pattern + rb"|" + BARE.pattern + rb")\\{0,7}[\"'])"
    rb"(?:\s{0,40},\s{0,40}" + TEXT + rb"){1,%d}+\s{0,40},?\s{0,40}[\])]" % (MOST_PARTS - 1)
)
STRING = re.compile(TEXT)
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
WHOLE = {"APPENDS", "TUPLE", "LIST", "ADDITEMS", "FROZENSET"}


class Parts(NamedTuple):
    """Texts in a row.

    Attributes:
        at: the first byte.
        texts: what may be the parts of a path.
        is_path: whether they are.
    """

    at: int
    texts: Sequence[bytes]
    is_path: bool = False


def parted(strings: Strings) -> Iterator[Found]:
    """The paths that stand in parts; each is at a byte of the record."""
    for layer in strings.layers:
        found: Iterator[Parts] = iter(())
        if isinstance(layer, PickleLayer):
            found = _in_pickle(layer)
        elif isinstance(layer, Spans):
            found = _in_text(layer)
        for parts in found:
            for one in _joined(parts):
                yield one._replace(at=layer.outer(parts.at))


def _in_text(layer: Layer) -> Iterator[Parts]:
    """Lists of strings, as JSON and Python write them."""
    data = layer.data
    if any(mark in data for mark in MARKS) and QUOTED_HOME.search(data):
        for one in LISTED.finditer(data):
            texts = [_decoded(layer, text[1], len(one[1])) for text in STRING.finditer(one[0])]
            yield Parts(one.start(), texts)


def _decoded(layer: Layer, text: bytes, escapes: int) -> bytes:
    """A text of a list in a string in a string …: backslashes before its quotes tell how deep it stands."""
    for _ in range((escapes + 1).bit_length()):
        text = layer.decoded(text)
    return text


def _in_pickle(layer: PickleLayer) -> Iterator[Parts]:
    """Lists and tuples of texts; texts may be remembered from before."""
    if PATHS not in layer.data and HOMES.isdisjoint(layer.counts):
        return
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
                some = row[-TUPLES[op.name] :] if op.name in TUPLES else row
                if some and (is_list or op.name in TUPLES or op.name in WHOLE):
                    texts = [text.encode(errors="surrogateescape") for _, text in some]
                    yield Parts(some[0][0], texts, is_path)
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


def _joined(parts: Parts) -> Iterator[Found]:
    """The path that texts are the parts of, and whose home it is in."""
    first, *names = parts.texts
    if not 0 < len(names) < MOST_PARTS or not all(names):
        return
    if ROOT.fullmatch(first):
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
    found = list(paths(path))
    if parts.is_path or any(one.kind is LeakKind.HOME for one in found):
        yield from found
