"""Documents that hold several lines of a log as one text: a cell of CSV, an element, a string of SQL or TOML.

**What is written into a text is written in its form, or not at all.** A line in the middle of such a text
does not show what holds it: what opens the text stands above, however far, and what closes it below. So where
the lines above open a text, a log is held back until one closes it, and a pause decides nothing. A text that
is still open where the log ends, or after a thousand lines, counts as held: it is being written. A failure
ends with its text: other texts of the document don't belong to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.log.encodings import Encoding, doubled, entities, is_bare
from archive.failures.log.forms import Unwritable
from archive.failures.log.sieve import LEAST, may_have, pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_BELOW = 1_000
"""Lines below that are looked at."""
MOST_SOUGHT = 1_000
"""Lines, of those taken together, that are searched for the last one that opens or closes a text."""
BASIC, LITERAL = b'"""', b"'''"


# --- forms


def _cdata() -> Encoding:
    """A section of XML that ends only with ``]]>``."""
    end, split = b"]]>", b"]]]]><![CDATA[>"
    return Encoding(
        lambda line: line.replace(split, end),
        lambda text: text.replace(end, split),
        lambda line: end in line.replace(split, b""),
    )


ESCAPE = re.compile(rb'\\(["\\])')


def _basic() -> Encoding:
    """A multi-line string of TOML: backslashes are escaped, and all quotes or three in a row."""
    has_bare = False

    def read(line: bytes) -> bytes | None:
        nonlocal has_bare
        left = ESCAPE.sub(b"", line)
        has_bare = has_bare or b'"' in left
        return None if b"\\" in left else ESCAPE.sub(rb"\1", line)

    def write(text: bytes) -> bytes:
        text = text.replace(b"\\", b"\\\\")
        return text.replace(BASIC, rb'""\"') if has_bare else text.replace(b'"', rb"\"")

    return Encoding(read, write, lambda line: BASIC in line)


def _literal() -> Encoding:
    """A literal string of TOML, which has no escapes."""

    def write(text: bytes) -> bytes:
        if LITERAL in text:
            raise Unwritable
        return text

    return Encoding(lambda line: line, write, lambda line: LITERAL in line)


# --- kinds


class Held(NamedTuple):
    """A kind of text that a document holds.

    Attributes:
        mark: what opens and closes such a text.
        has_mark: whether a line has it, other than as part of the text.
        opened: whether the nearest such line above opens one.
        closed: matches the first such line below, where that closes one.
        encoding: how the lines of the text are written.
    """

    mark: bytes
    has_mark: Callable[[bytes], bool]
    opened: Callable[[bytes], object]
    closed: re.Pattern[bytes]
    encoding: Callable[[], Encoding]


KEY = rb"\s*[\w.\"'-]+\s*=\s*"
COMMENT = rb"\s*(?:#.*)?\Z"
KEYWORD = re.compile(rb"(?i)\b(?:INSERT|VALUES|SELECT|SET|WHERE|CALL|EXEC|UPDATE)\b")
ROW = re.compile(rb"\s*+(?:\(|N?')")
SQL_STRING = re.compile(rb"(?:^|[(,=])\s*+N?'(?:[^']|'')*+\Z")


def _opens_sql(line: bytes) -> bool:
    """Whether a line of a statement, or of its rows, ends within a string."""
    return (ROW.match(line) or KEYWORD.search(line)) is not None and SQL_STRING.search(line) is not None


HELD = (
    Held(  # TOML
        BASIC,
        lambda line: line.count(BASIC) % 2 == 1,
        re.compile(KEY + rb'"""(?:(?!""").)*+\Z', re.DOTALL).match,
        re.compile(rb'.*"""' + COMMENT, re.DOTALL),
        _basic,
    ),
    Held(
        LITERAL,
        lambda line: line.count(LITERAL) % 2 == 1,
        re.compile(KEY + rb"'''(?:(?!''').)*+\Z", re.DOTALL).match,
        re.compile(rb".*'''" + COMMENT, re.DOTALL),
        _literal,
    ),
    Held(  # CSV
        b'"',
        lambda line: is_bare(line, b'"'),
        re.compile(rb'(?:^|[,;\t])"(?:[^"]|"")*+\Z').search,
        re.compile(rb'(?:[^"]|"")*+"(?:[,;\t]|\Z)'),
        lambda: doubled(b'"'),
    ),
    Held(  # SQL
        b"'",
        lambda line: is_bare(line, b"'"),
        _opens_sql,
        re.compile(rb"(?:[^']|'')*+'\s*(?:[,);]|::|(?i:AS\b)|\Z)"),
        lambda: doubled(b"'"),
    ),
)


def form_of(last: Callable[[bytes], bytes], below: Callable[[int], bytes | None]) -> Encoding | None:
    """How a line of such a document is written; None where nothing shows that it is in one.

    Args:
        last: gives the last line above that has a mark of :data:`OPENING_MARKS`; b"" if there is none.
        below: gives a line below by its number, from 1, and waits for it; None after the last one. It is
            called only where the lines above open a text, so only there a log is held back.
    """
    for held in HELD:
        opening = last(held.mark)
        if opening and held.opened(opening):
            closing = next(filter(held.has_mark, _read(below)), None)
            if closing is None or held.closed.match(closing):
                return held.encoding()
    return _in_element(last(b"<"), below)


def _read(below: Callable[[int], bytes | None]) -> Iterator[bytes]:
    """The lines below, as far as they are looked at."""
    for at in range(1, MOST_BELOW):
        line = below(at)
        if line is None:
            return
        yield line


# --- elements

TAG = re.compile(rb"<(?P<mark>/|!\[CDATA\[)?(?P<name>[A-Za-z][\w:.-]*+)?+(?P<rest>[^<>]*+)(?P<end>>|\Z)")
NO_TAG = re.compile(
    rb"<(?:module|lambda|\w+comp|genexpr|locals|string|stdin|frozen [\w.]+|eval_with_key)>"
    rb"|<(?:\w+::|(?:const|unsigned)\b|(?:int|long|float|double|bool|char|void|u?int\d+_t)\b)"
    rb"|<[A-Za-z][\w:.-]*+(?! *>)(?! *(?:open|hidden) *>)[^<>=]*>"
)
"""Python's scopes and files, arguments of C++ templates, and Python objects, which have no attributes."""
EMPTY = {b"area", b"base", b"br", b"col", b"hr", b"img", b"input", b"link", b"meta", b"source", b"wbr"}
CDATA, CDATA_END = b"<![CDATA[", b"]]>"


def _in_element(opening: bytes, below: Callable[[int], bytes | None]) -> Encoding | None:
    """How a text is written if the last tag above begins an element, or an attribute of it; else None."""
    if opening.rfind(CDATA) > opening.rfind(CDATA_END):
        return _cdata()
    last = [*_tags(opening)][-1] if opening else None
    if last is None or last["mark"] or not last["name"] or last["name"] in EMPTY:
        return None
    end = b"</" + last["name"]
    if not last["end"]:
        end = b'"'
        is_open = last["rest"].count(b'"') % 2 == 1
        is_held = is_open and any(b'"' in line and b">" in line for line in _read(below))
    elif last["rest"].endswith(b"/"):
        return None
    else:
        # A line of a log may have any word between angle brackets: only markup needs no end.
        is_markup = opening.lstrip().startswith(b"<")
        is_held = any(end in line for line in _read(below)) or is_markup
    return _text_of_element(end) if is_held else None


def _text_of_element(end: bytes) -> Encoding:
    """The text of an element, in which each ``<`` that doesn't begin a tag is an entity."""
    read, write, ends = entities(end)
    return Encoding(
        lambda line: read(line) if all(tag["name"] for tag in TAG.finditer(line)) else None, write, ends
    )


def _tags(line: bytes) -> Iterator[re.Match[bytes]]:
    """The tags in a line, without what only looks like one."""
    return (tag for tag in TAG.finditer(line) if not NO_TAG.match(line, tag.start()))


def has_tag(line: bytes) -> bool:
    """Whether a line has a tag, or shows that it isn't markup."""
    return b"<" in line and next(_tags(line), None) is not None


# --- lines that have passed

OPENING_MARKS = {b"<": has_tag, **{held.mark: held.has_mark for held in HELD}}
"""Each mark that opens or closes a text, and whether a line has it: the last such line decides."""
MOST_WAITING = 1 << 20
"""Bytes of lines that wait to be looked at."""
TOGETHER = 1 << 16
"""Bytes of lines that are looked at together, unless one is longer."""
PAIRS = {mark: (pair(mark[:2]),) for mark in (BASIC, LITERAL)}
"""What stands where pairs do, wherever three quotes stand."""
LONGEST = 1 << 16
"""Bytes of a line that is kept; a longer one opens nothing."""


def may_open(line: bytes) -> bool:
    """Whether a line has what all documents have above a text, as it is or in a JSON string."""
    return b'"' in line or b"'" in line or b"<" in line


class Passed:
    """The last lines that may open a text, among those no longer kept."""

    def __init__(self) -> None:
        self._last: dict[bytes, bytes] = {}
        self._waiting: list[bytes] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._last or self._waiting)

    def last(self, mark: bytes) -> bytes:
        """The last line that has a mark; b"" if there is none."""
        if self._waiting:
            self._look()
        return self._last.get(mark, b"")

    def add(self, lines: bytes) -> None:
        """Note lines that are no longer kept."""
        if may_open(lines):
            self._waiting.append(lines)
            self._size += len(lines)
            if self._size > MOST_WAITING:
                self._look()

    def _look(self) -> None:
        """Look at the lines that wait: a later one counts, wherever only the last one does."""
        texts = [*_together(self._waiting)]
        self._waiting.clear()
        self._size = 0
        for mark in PAIRS:
            for text in texts:
                self._look_for(mark, text)
        for mark in OPENING_MARKS.keys() - PAIRS.keys():
            for text in reversed(texts):
                if self._look_for(mark, text):
                    break

    def _look_for(self, mark: bytes, lines: bytes) -> bool:
        """Look for the last of some lines that has a mark; whether there is one."""
        # One byte is found ten times as fast as three, and forwards ten times as fast as backwards.
        if mark[:1] not in lines:
            return False
        if (
            mark in PAIRS and b"=" not in lines and mark not in self._last
        ):  # nothing is open that it may close
            return False
        if len(lines) > LEAST and mark in PAIRS and not may_have(lines, PAIRS[mark]):
            return False
        has_mark, stop = OPENING_MARKS[mark], lines.rfind(mark) if mark in lines else -1
        for _ in range(MOST_SOUGHT):
            if stop < 0:
                return False
            start = lines.rfind(b"\n", 0, stop) + 1
            end = lines.find(b"\n", stop)
            line = lines[start : end if end >= 0 else len(lines)].removesuffix(b"\r")
            if len(line) > LONGEST or has_mark(line):
                self._last[mark] = line if len(line) <= LONGEST else b""
                return True
            stop = lines.rfind(mark, 0, start)
        return False


def _together(waiting: Sequence[bytes]) -> Iterator[bytes]:
    """Lines, in texts that are neither many nor longer than need be."""
    texts, size = list[bytes](), 0
    for lines in waiting:
        if texts and size + len(lines) > TOGETHER:
            yield b"\n".join(texts)
            texts, size = [], 0
        texts.append(lines)
        size += len(lines)
    if texts:
        yield b"\n".join(texts)
