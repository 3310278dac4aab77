r"""The strings of a line that hold a whole failure: of JSON, or in another encoding.

Servers log lines of JSON. Other lines have such strings, too: JSON after a logger's prefix, ``key="value"``
pairs, a line of a JSON file that has many. A newline in one of them would break what reads the log, so a
failure is explained inside its string, with escapes again.

Only the strings that hold a failure are written again; all other bytes of the line stay. A string that had
other characters than ASCII gets them as they are; a JSON string that had none gets ``\u`` escapes.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.log.dialects import of_dialect
from archive.failures.log.encodings import (
    BREAK,
    GITHUB,
    NUMBER_LIST,
    PYTHON,
    RETURNS,
    RSYSLOG,
    URL,
    InlineText,
    first_of,
    of_backslashes,
    of_entities,
    of_numbers,
    of_python,
    of_url,
    quoted,
    unquoted,
)
from archive.failures.log.lines import STRING
from archive.failures.log.log_line import without_end
from archive.failures.log.marks import AS_TEXT, ENDS, IN_NUMBERS, IN_URL
from archive.failures.log.quiet import has_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Explain = Callable[[bytes, bytes, bytes], bytes]
    Find = Callable[[bytes, int, re.Match[bytes]], "Region | None"]

MOST_QUOTES = 16
"""Quotes before a failure that may begin its string."""
MOST_UNREAD = 8
"""Failures of a line, in no known encoding, after which it is searched no further."""
OTHER_TAG = re.compile(rb"<(?!br ?/?>)[^<>]*>")
ITEM = rb"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')"""
LIST = re.compile(rb"\[" + ITEM + rb"(?:, ?" + ITEM + rb")++\]")
ITEMS = re.compile(ITEM)
OF_BYTES = re.compile(rb"\W?[bB]\Z")
"""Precedes a string of Python's bytes, within two bytes."""
PAIRED = re.compile(rb"[\xf0-\xf4]")
"""Begins a character that JSON writes in ASCII as two numbers."""


IN_JSON = re.compile(rb'(?:"\s*:|[\[,])\s*\Z|\A\s*\Z')
"""Precedes a string of JSON: a key, the strings of a list, or nothing."""
MOST_BEFORE = 64
"""Bytes before a string that are looked at."""
NUMBERED = re.compile(rb"(?<!\\)(?:\\\\)*+\\u[0-9a-fA-F]{4}")

ESCAPED_LETTERS = rb"\\+(?:[nr]|x0[aA]|u000[aA]|012|x5[cC]|u005[cC]|134)"
OTHERS = rb"#012|%0[aAdD]|&#(?:10|[xX]0?[aA]);|<br ?/?>(?=.)|\r(?=[^\n])"
ESCAPED = re.compile(ENDS + rb"(?:%b|%b)" % (ESCAPED_LETTERS, OTHERS))
"""A failure whose newlines, as PyTorch printed them, became something else."""
BRACKET_IN_URL = re.compile(rb"%(?:25)*3[cC]\Z")
"""Precedes the name of generated code."""
AGAIN = re.compile(rb"[\n\r\\%]")
TWICE = re.compile(ENDS + rb"\\\\+(?:n|r)")
"""A failure that was escaped twice."""


# --- strings


def explained_strings(line: bytes, explain: Explain) -> bytes | None:
    """A line with the failures in its strings explained; None if they have none.

    Args:
        explain: explains a text, given what stands before and after its string.
    """
    escaped = ESCAPED.search(line)
    if escaped and not _is_in_string(line, escaped.start()):  # quotes after it are those of the model's code
        whole = _with_regions_explained(line, explain)
        if whole is not None:
            return whole
    pieces, at, has_some = list[bytes](), 0, False
    for region in outer(line):
        pieces += [_with_json_explained(line, at, region.start, explain) or line[at : region.start]]
        pieces += [region.explained(line, explain)]
        at, has_some = region.stop, True
    rest = _with_json_explained(line, at, len(line), explain)
    if rest is not None or has_some:
        return b"".join([*pieces, line[at:] if rest is None else rest])
    return _with_regions_explained(line, explain)


def _is_in_string(line: bytes, at: int, least: int = 0) -> bool:
    """Whether a byte is in a quoted string, counting quotes from some byte on."""
    string = next((string for string in STRING.finditer(line, least) if string.end() > at), None)
    return string is not None and string.start() < at


def _with_regions_explained(line: bytes, explain: Explain) -> bytes | None:
    """A line with the failures in other encodings than JSON's explained; None if there are none."""
    pieces, at = list[bytes](), 0
    for region in regions(line):
        pieces += [line[at : region.start], region.explained(line, explain)]
        at = region.stop
    return b"".join([*pieces, line[at:]]) if pieces else None


def _with_json_explained(line: bytes, start: int, stop: int, explain: Explain) -> bytes | None:
    """A part of a line with the failures in its strings of JSON explained; None if there are none."""
    pieces, at, has_some = list[bytes](), start, False
    for string in STRING.finditer(line, start, stop):
        literal = string[0]
        encoded = None
        if has_failure(literal) and not _is_of_others(line, string):
            encoded = _of_json(line[: string.start()], literal) or of_dialect(literal)
        if encoded is not None:
            has_some = True
            new = explain(encoded.text, line[: string.start()], line[string.end() :])
            if new != encoded.text:
                literal = encoded.write(new)
        pieces += [line[at : string.start()], literal]
        at = string.end()
    return b"".join([*pieces, line[at:stop]]) if has_some else None


def _is_of_others(line: bytes, string: re.Match[bytes]) -> bool:
    """Whether a quoted string isn't JSON's: Python's bytes, or an attribute of XML, which has entities."""
    start, literal = string.start(), string[0]
    if OF_BYTES.match(line[max(0, start - 2) : start]):
        return True
    return line.endswith(b"=", 0, start) and b'\\"' not in literal and BREAK.search(literal) is not None


def _of_json(before: bytes, literal: bytes) -> InlineText | None:
    """The text of a JSON string, or of one that JSON would write so; None where it is neither."""
    text = unquoted(literal)
    if text is None:
        return None
    # Rust, TOML and YAML have no such numbers for characters, or no pairs of them; all read characters.
    has_numbers = IN_JSON.search(before[-MOST_BEFORE:]) is not None or NUMBERED.search(literal) is not None
    return InlineText(text, lambda text: quoted(text, is_ascii=has_numbers and _is_ascii(literal, text)))


def _is_ascii(literal: bytes, text: bytes) -> bool:
    """Whether a text that replaces a JSON string must be in ASCII.

    Not if that may also be Python's, which would read a character's pair of numbers as two characters.
    """
    may_be_python = b"'" in literal and b'\\"' not in literal
    return literal.isascii() and not (may_be_python and PAIRED.search(text))


# --- regions


class Region(NamedTuple):
    """A part of a line that holds an encoded text."""

    start: int
    stop: int
    encoded: InlineText

    def explained(self, line: bytes, explain: Explain) -> bytes:
        """The part of its line, with the failures in it explained."""
        text, write = self.encoded
        new = explain(text, line[: self.start], line[self.stop :])
        return line[self.start : self.stop] if new == text else write(new)


def regions(line: bytes) -> Iterator[Region]:
    """The parts of a line that hold a failure, from left to right, each in an encoding that is not JSON's."""
    return _regions(line, (_numbers, _list, _literal, _url, _entities, _command, _octal, _returns, _field))


def outer(line: bytes) -> Iterator[Region]:
    """The parts around JSON strings: lists of lines, and strings and fields with JSON in them."""
    has_list, is_twice = OPENING.search(line) is not None, TWICE.search(line) is not None
    finds = (
        *((_outside,) if is_twice or has_list else ()),
        *((_list,) if has_list else ()),
        *((_around_quotes,) if b"'" in line and SINGLE.search(line) else ()),
    )
    return _regions(line, finds) if finds else iter(())


def _regions(line: bytes, finds: Sequence[Find]) -> Iterator[Region]:
    """The parts of a line around failures that hold several lines, each found by one of several functions."""
    text, at, unread = without_end(line), 0, 0
    while unread < MOST_UNREAD:
        marks = [mark for pattern in (AS_TEXT, IN_NUMBERS) if (mark := pattern.search(text, at))]
        if not marks:
            return
        mark = min(marks, key=lambda mark: mark.start())
        for find in finds:
            region = find(text, at, mark)
            # What is escaped twice has its line ends in the encoding within.
            if region and (find is _outside or AGAIN.search(region.encoded.text)):
                yield region
                at = region.stop
                break
        else:
            at, unread = mark.end(), unread + 1


def _made(text: bytes, start: int, stop: int, read: Callable[[bytes], InlineText | None]) -> Region | None:
    encoded = read(text[start:stop])
    return None if encoded is None else Region(start, stop, encoded)


def _numbers(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    start = text.rfind(b"[", least, mark.start())
    numbers = NUMBER_LIST.match(text, start) if start >= 0 and mark[0][:1].isdigit() else None
    return numbers and _made(text, *numbers.span(), of_numbers)


def _around(
    text: bytes, pattern: re.Pattern[bytes], begins: re.Pattern[bytes], least: int, mark: re.Match[bytes]
) -> Iterator[re.Match[bytes]]:
    """Matches that begin before a mark and end after it, the shortest first."""
    starts = [opening.start() for opening in begins.finditer(text, least, mark.start())]
    for start in reversed(starts[-MOST_QUOTES:]):
        match = pattern.match(text, start)
        if match and match.end() >= mark.end():
            yield match


OPENING = re.compile(rb"\[(?=[\"'])")
SINGLE = re.compile(rb"(?<![\w\\])[bB]?'")
DOUBLE = re.compile(rb'(?:\b[bB])?(?<!\\)"')
AFTER_STRING = b" )]},;"
"""What may follow a string of Python's, if the line doesn't end."""


def _list(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    """A list of lines, as JSON or Python write it."""
    items = next(_around(text, LIST, OPENING, least, mark), None)
    if items is None:
        return None
    before = STRING.finditer(text, least, items.start() + 1)
    if any(string["closed"] is None for string in before):  # the list itself is in a JSON string
        return None
    return _made(text, *items.span(), of_list)


def _literal(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    """A string of Python's."""
    singles, doubles = (list(_around(text, PYTHON, quote, least, mark)) for quote in (SINGLE, DOUBLE))
    # b"…" certainly is one: it goes before anything in single quotes inside it.
    outermost = singles[-1].start() if singles else len(text)
    around = [literal for literal in doubles if literal["kind"] and literal.start() < outermost]
    for literal in chain(around, singles, doubles):
        if region := _made(text, *literal.span(), of_python):
            return region
        if literal[0].startswith(b"'"):
            inner = _made(text, literal.start() + 1, literal.end() - 1, partial(of_backslashes, quote=b"'"))
            if inner and b"\n" in inner.encoded.text:
                return inner
    return None


def _outside(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    """A string of Python's with strings of JSON in it, or a field between tabs."""
    if text.find(b"\t", least) >= 0:
        return _field(text, least, mark)
    for literal in _around(text, PYTHON, SINGLE, least, mark):
        start, stop = literal.span()
        is_around = b'"' in text[start : mark.start()] and text[stop : stop + 1] in AFTER_STRING
        if is_around and (region := _made(text, start, stop, of_python)):
            return region
    return None


def _around_quotes(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    """A single-quoted string of Python's, in which double quotes don't begin a string."""
    for literal in _around(text, PYTHON, SINGLE, least, mark):
        start, stop = literal.span()
        if b'"' in text[start : mark.start()] and not _is_in_string(text, start, least):
            return _made(text, start, stop, of_python)
    return None


def _url(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    if IN_URL.match(text, mark.start()) is None and not BRACKET_IN_URL.search(text, least, mark.start()):
        return None
    for value in URL.finditer(text, least):
        if value.end() >= mark.end():
            return _made(text, *value.span(), of_url)
    return None


def _command(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    if b" " not in mark[0] or re.compile(rb"%0[aA]").search(text, least) is None:
        return None
    return _made(text, least, len(text), partial(first_of, encodings=GITHUB))


def _octal(text: bytes, least: int, _: re.Match[bytes]) -> Region | None:
    return _made(text, least, len(text), partial(first_of, encodings=[RSYSLOG])) if b"#012" in text else None


def _entities(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    """The text between two tags, or an attribute."""
    if BREAK.search(text, least) is None:
        return None
    tags = [tag.end() for tag in OTHER_TAG.finditer(text, least, mark.start())]
    start = tags[-1] if tags else least
    stop = next_tag.start() if (next_tag := OTHER_TAG.search(text, mark.end())) else len(text)
    is_between = b"<" not in BREAK.sub(b"", text[start:stop])
    if is_between and (region := _made(text, start, stop, of_entities)):
        return region
    quote = text.rfind(b'"', least, mark.start()) + 1
    end = text.find(b'"', mark.end())
    return _made(text, quote, end, of_entities) if quote > least and end > 0 else None


def _returns(text: bytes, least: int, _: re.Match[bytes]) -> Region | None:
    return (
        _made(text, least, len(text), partial(first_of, encodings=[RETURNS]))
        if b"\r" in text[least:]
        else None
    )


def _field(text: bytes, least: int, mark: re.Match[bytes]) -> Region | None:
    """A field between tabs or quotes, whose escapes are backslashes."""
    if b"\\" not in text:
        return None
    start = max(text.rfind(b"\t", least, mark.start()) + 1, least)
    end = text.find(b"\t", mark.end())
    if start > least or end >= 0:
        return _made(text, start, end if end >= 0 else len(text), of_backslashes)
    quote = text.rfind(b'"', least, mark.start()) + 1
    stop = text.find(b'"', mark.end())
    if quote > least and stop > 0:
        return _made(text, quote, stop, partial(of_backslashes, quote=b'"'))
    before = text[least : mark.start()]
    is_bare = b'"' not in before and not before.count(b"'") % 2
    return _made(text, least, len(text), of_backslashes) if is_bare else None


def of_list(data: bytes) -> InlineText | None:
    """The text whose lines are the items of a list."""
    literals = ITEMS.findall(data)
    between = b", " if data.startswith(b", ", len(literals[0]) + 1) else b","
    items = [_item(literal) for literal in literals]
    texts = [b"" if item is None else item.text for item in items]
    if None in items or b"[" + between.join(literals) + b"]" != data:
        return None
    is_ended = sum(text.endswith(b"\n") for text in texts) * 2 > len(texts)
    if any(b"\n" in text.removesuffix(b"\n" if is_ended else b"") for text in texts):
        return None
    write, known = items[0].write if items[0] else bytes, dict(zip(texts, literals, strict=True))

    def written(text: bytes) -> bytes:
        lines = text.splitlines(keepends=True) if is_ended else text.split(b"\n")
        made = (
            known.get(line)
            or (quoted(line, is_ascii=_is_ascii(data, line)) if literals[0][:1] == b'"' else write(line))
            for line in lines
        )
        return b"[" + between.join(made) + b"]"

    text = (b"" if is_ended else b"\n").join(texts)
    return InlineText(text, written) if written(text) == data else None


def _item(literal: bytes) -> InlineText | None:
    """An item of a list: a string of JSON, or of Python's."""
    if literal.startswith(b'"') and STRING.fullmatch(literal) and (text := unquoted(literal)) is not None:
        return InlineText(text, lambda text: quoted(text, is_ascii=literal.isascii()))
    return of_python(literal)
