r"""Texts of several lines in one line of a log, in an encoding that isn't JSON.

    rsyslog         Traceback of TorchScript (most recent call last):#012  File "code/…
    GitHub          ::error::Traceback of TorchScript (most recent call last):%0A  File "code/…
    URLs            m=Traceback%20of%20TorchScript%20%28most%20recent%20call%20last%29%3A%0A%20%20File
    Python          'Traceback of TorchScript (most recent call last):\n  File "code/…'
    XML, HTML       Traceback of TorchScript (most recent call last):&#10;  File &quot;code/…
    tables          Traceback of TorchScript (most recent call last):\n  File "code/…, between tabs
    journald        [84,114,97,99,101,98,97,99,107,32,111,102,…

An :class:`Encoding` reads and writes such texts, or each line of a text that stands in several lines. A
string that would not become the same bytes again is not read: its writer's rules are unknown, so an
explanation might break what reads the log.
"""

from __future__ import annotations

import html
import json
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MAX_NUMBER = 255
SPACES = (b"&nbsp; ", b"&nbsp;&nbsp;", b" &nbsp;")
"""What stands for two blanks in HTML."""


class InlineText(NamedTuple):
    """A text, and how it was written."""

    text: bytes
    write: Callable[[bytes], bytes]


def _never(_: bytes) -> bool:
    return False


class Encoding(NamedTuple):
    """A way to write a text, line by line or in one string. Some remember what they read, and write alike.

    Attributes:
        read: the text of a line or string; None where it is written in another way.
        ends: whether a line ends the text, so that no line below belongs to it.
    """

    read: Callable[[bytes], bytes | None]
    write: Callable[[bytes], bytes]
    ends: Callable[[bytes], bool] = _never


def first_of(data: bytes, encodings: Iterable[Encoding]) -> InlineText | None:
    """The text of a string in the first encoding that writes the same bytes again."""
    for encoding in encodings:
        text = encoding.read(data)
        if text is not None and encoding.write(text) == data:
            return InlineText(text, encoding.write)
    return None


BACKSLASHED = re.compile(
    rb"""\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\\'"abefnrtv/]))"""
)
LETTERS = {b"a": 7, b"b": 8, b"e": 27, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11}


def unescaped(data: bytes, *, is_text: bool = True) -> bytes:
    r"""A text without its backslashes.

    Args:
        is_text: whether ``\xfc`` is a character rather than a byte.
    """

    def meant(escape: re.Match[bytes]) -> bytes:
        octal, byte, *units, letter = escape.groups()
        if letter:
            return bytes([LETTERS[letter]]) if letter in LETTERS else letter
        number = int(octal, 8) if octal else int(byte or units[0] or units[1], 16)
        if not is_text and (octal or byte):
            return bytes([number & MAX_NUMBER])
        return chr(number).encode("utf-8", "surrogatepass") if number <= sys.maxunicode else escape[0]

    return BACKSLASHED.sub(meant, data)


PYTHON = re.compile(
    rb"""(?P<kind>\b[bB])?(?:'(?P<one>[^'\\]*+(?:\\.[^'\\]*+)*+)'|"(?P<two>[^"\\]*+(?:\\.[^"\\]*+)*+)")""",
    re.DOTALL,
)
"""A string as Python's ``repr`` writes it, of text or of bytes."""
ESCAPE_OR_QUOTE = re.compile(r"""\\.|["']""", re.DOTALL)


def of_python(literal: bytes) -> InlineText | None:
    """The text of a string as ``repr`` writes it, or ``ascii``."""
    match = PYTHON.fullmatch(literal)
    if match is None:
        return None
    kind, quote = match["kind"] or b"", b"'" if match["two"] is None else b'"'
    text = unescaped(match["one"] or match["two"] or b"", is_text=not kind)

    def write(text: bytes, shown: Callable[[object], str]) -> bytes:
        value = text if kind else text.decode("utf-8", "surrogateescape")
        # With a quote of the other kind in it, repr takes this kind.
        body = shown(b'"' + value if isinstance(value, bytes) else '"' + value)[2 + bool(kind) : -1]
        if quote == b'"':
            body = ESCAPE_OR_QUOTE.sub(lambda match: {"\\'": "'", '"': '\\"'}.get(match[0], match[0]), body)
        return kind + quote + body.encode("utf-8", "surrogateescape") + quote

    try:
        return first_of(
            literal, [Encoding(lambda _: text, partial(write, shown=shown)) for shown in (repr, ascii)]
        )
    except UnicodeError:
        return None


def _escapes(tokens: Mapping[int, bytes]) -> Callable[[bytes], bytes]:
    """Writes a text with tokens for some bytes."""
    chosen = re.compile(b"[" + re.escape(bytes(tokens)) + b"]")
    return lambda text: chosen.sub(lambda match: tokens[match[0][0]], text)


TABBED = {10: rb"\n", 13: rb"\r", 9: rb"\t", 92: rb"\\"}
CONTROLS = [*range(32), 34, 92, *range(127, 256)]
BACKSLASHES = (
    TABBED,
    TABBED | {39: rb"\'"},
    TABBED | {0: rb"\0", 26: rb"\Z", 34: rb"\"", 39: rb"\'"},
    {number: b"\\x%02X" % number for number in CONTROLS},
    {number: b"\\x%02x" % number for number in CONTROLS},
    {number: b"\\%03o" % number for number in (*range(32), 92, *range(127, 256))},
)
"""What stands for bytes in tables, in ``$'…'`` of shells, in MySQL, in logs of nginx, and as octal."""


def of_backslashes(data: bytes, quote: bytes = b"") -> InlineText | None:
    """The text of escapes without quotes, or in quotes that Python and JSON don't write so."""
    own = dict.fromkeys(quote, b"\\" + quote)
    read = partial(unescaped, is_text=False)
    return first_of(data, (Encoding(read, _escapes(own | tokens)) for tokens in BACKSLASHES))


OCTAL = re.compile(rb"#(0[0-3][0-7]|177)")
RSYSLOG = Encoding(
    lambda data: OCTAL.sub(lambda match: bytes([int(match[1], 8)]), data),
    _escapes({number: b"#%03o" % number for number in (*range(32), 127)}),
)
"""Control characters as rsyslog writes them."""
COMMAND = re.compile(rb"%(0[AaDd]|25)")
GITHUB = tuple(
    Encoding(lambda data: COMMAND.sub(lambda match: bytes([int(match[1], 16)]), data), _escapes(tokens))
    for tokens in ({10: b"%0A", 13: b"%0D", 37: b"%25"}, {10: b"%0a", 13: b"%0d", 37: b"%25"})
)
"""A command of GitHub's runner, which escapes only line ends and percent signs."""
RETURNS = Encoding(
    lambda data: None if b"\n" in data else data.replace(b"\r", b"\n"),
    lambda text: text.replace(b"\n", b"\r"),
)
"""Lines that end with carriage returns."""


URL = re.compile(rb"[^\s&\"'<>?=#\\]+")
"""What may be a value in a URL."""
HEXADECIMAL = re.compile(rb"%[0-9A-Fa-f]{2}")
ALWAYS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


def of_url(data: bytes) -> InlineText | None:
    """The text of a value in a URL, or in a form."""
    has_plus = b"+" in data
    raw = {*ALWAYS, *HEXADECIMAL.sub(b"", data)} - {*b" +"}
    form = b"%%%02x" if re.search(rb"%(?:[a-f].|.[a-f])", data) else b"%%%02X"
    tokens = {number: form % number for number in range(256) if number not in raw}
    write = _escapes(tokens | ({32: b"+"} if has_plus else {}))
    return first_of(data, [Encoding(lambda data: unquote_to_bytes(data.replace(b"+", b" ")), write)])


ENTITY = re.compile(rb"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});|<br ?/?>")
BREAK = re.compile(rb"&#(?:10|[xX]0?[aA]);|<br ?/?>")
ANY_TAG = re.compile(rb"<[^<>]*>?")
DEFAULTS = {38: b"&amp;", 60: b"&lt;", 62: b"&gt;", 34: b"&quot;", 39: b"&#39;"}
IN_ATTRIBUTES = {9: b"&#9;", 13: b"&#13;"}
"""Like line ends, they are read as blanks in an attribute unless they are escaped."""
NO_BREAK_SPACE = "\xa0"


class _SeenEntities:
    """The entities of XML and HTML that a text was written with; each text that is read adds to them."""

    def __init__(self, spaces: bytes) -> None:
        self._tokens: dict[bytes, bytes] = {}
        self._raw: set[int] = set()
        self._spaces = spaces

    def read(self, data: bytes) -> bytes:
        """A text without entities."""
        self._raw |= {*ANY_TAG.sub(b"", ENTITY.sub(b"", data))} & {*b">\"'\t\r"}
        return ENTITY.sub(self._read_one, data)

    def _read_one(self, entity: re.Match[bytes]) -> bytes:
        if BREAK.fullmatch(entity[0]):
            self._tokens.setdefault(b"\n", entity[0])
            return b"\n"
        text = html.unescape(entity[0].decode())
        data = b" " if text == NO_BREAK_SPACE else text.encode("utf-8", "surrogatepass")
        if data != b" ":
            self._tokens.setdefault(data, entity[0])
        return data

    def write(self, text: bytes) -> bytes:
        """A text with the entities that were seen, and the usual ones for other characters."""
        usual = DEFAULTS | (IN_ATTRIBUTES if self._tokens.get(b"\n", b"").startswith(b"&") else {})
        tokens = {number: token for number, token in usual.items() if number not in self._raw}
        if 34 not in tokens or not self._tokens.get(b'"'):  # noqa: PLR2004 (a quote)
            tokens.pop(39, None)  # one kind of quotes is escaped only where the other is
        tokens |= {data[0]: token for data, token in self._tokens.items() if len(data) == 1}
        return _escapes(tokens)(text).replace(b"  ", self._spaces)


def entities(end: bytes = b"</", spaces: bytes = b"  ") -> Encoding:
    """Entities of XML and HTML.

    Args:
        end: what ends a text of several lines.
        spaces: what stands for two blanks.
    """
    seen = _SeenEntities(spaces)
    return Encoding(seen.read, seen.write, lambda line: end in line)


def of_entities(data: bytes) -> InlineText | None:
    """The text of a line with entities, or with breaks of HTML."""
    return first_of(data, (entities(spaces=spaces) for spaces in (b"  ", *SPACES)))


NUMBER_LIST = re.compile(rb"\[\d{1,3}(?:, ?\d{1,3})*+\]")


def _numbered(data: bytes) -> bytes | None:
    numbers = [int(number) for number in data[1:-1].split(b",")]
    return None if max(numbers) > MAX_NUMBER else bytes(numbers)


def _as_numbers(text: bytes, between: bytes) -> bytes:
    return b"[" + between.join(b"%d" % byte for byte in text) + b"]"


def of_numbers(data: bytes) -> InlineText | None:
    """The text whose bytes are listed as numbers, as journald writes what has control characters."""
    writers = (partial(_as_numbers, between=between) for between in (b",", b", "))
    return first_of(data, (Encoding(_numbered, write) for write in writers))


# --- texts of several lines, line by line

SLASHED = re.compile(rb"\\(.)", re.DOTALL)
NEEDS_QUOTES = re.compile(rb'[",\r\n;\t]')
"""A character for which a cell of CSV needs quotes."""


def is_bare(line: bytes, mark: bytes) -> bool:
    """Whether a line has a mark that isn't doubled: it opens or closes a text that doubles its marks."""
    return mark in line and mark in line.replace(mark * 2, b"")


def doubled(mark: bytes) -> Encoding:
    """A text in which a mark is written twice."""
    return Encoding(
        lambda line: None if is_bare(line, mark) else line.replace(mark * 2, mark),
        lambda text: text.replace(mark, mark * 2),
        lambda line: is_bare(line, mark),
    )


def _has_bare_quote(line: bytes) -> bool:
    return b'"' in SLASHED.sub(b"", line)


BACKSLASHED_QUOTES = Encoding(
    lambda line: None if _has_bare_quote(line) else SLASHED.sub(rb"\1", line),
    lambda text: text.replace(b"\\", b"\\\\").replace(b'"', b'\\"'),
    _has_bare_quote,
)
"""A text in which quotes and backslashes are escaped."""


def recodings() -> Iterator[Encoding]:
    """The ways in which each line may be written: as entities, with doubled quotes, or with backslashes."""
    yield from (entities(), doubled(b'"'), BACKSLASHED_QUOTES)


def cells() -> Encoding:
    """Cells of a CSV table: all of them in quotes, or those that need quotes."""
    has_bare, inner = False, doubled(b'"')

    def read(line: bytes) -> bytes | None:
        nonlocal has_bare
        if line.startswith(b'"'):
            is_whole = len(line) > 1 and line.endswith(b'"')
            return inner.read(line[1:-1]) if is_whole else None
        has_bare = True
        return None if b'"' in line else line

    def write(text: bytes) -> bytes:
        is_bare_cell = has_bare and not NEEDS_QUOTES.search(text)
        return text if is_bare_cell else b'"%b"' % inner.write(text)

    return Encoding(read, write)


# --- strings of JSON


def unquoted(literal: bytes) -> bytes | None:
    """The text of a quoted string; None if it isn't JSON's."""
    try:
        text = json.loads(literal.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return str(text).encode("utf-8", "surrogatepass")


def quoted(text: bytes, *, is_ascii: bool) -> bytes:
    r"""A text as a quoted string.

    Args:
        text: the text; lines of it that aren't UTF-8, as in a model's source, are replaced.
        is_ascii: whether other characters become ``\u`` escapes.
    """
    lines = []
    for line in text.split(b"\n"):
        try:
            lines.append(line.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            lines.append(line.decode("utf-8", "replace"))
    # Half of a surrogate pair has no form in UTF-8: it stays an escape.
    return json.dumps("\n".join(lines), ensure_ascii=is_ascii).encode("utf-8", "backslashreplace")
