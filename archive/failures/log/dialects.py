r"""Double-quoted strings of Go and Rust, whose escapes differ from JSON's.

Go's ``%q``     "failed:\n\x1b[31m it's \"ü\""
Go's ``%+q``    "failed:\n\x1b[31m it's \"\u00fc\" \U0001f600"
Rust's {:?}     "failed:\n\u{1b}[31m it's \"ü\""
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.log.encodings import LETTERS, Encoding, first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.failures.log.encodings import InlineText

BLANK, DELETE, LAST_SHORT, LAST = 0x20, 0x7F, 0xFFFF, 0x10FFFF


class Dialect(NamedTuple):
    """How a language writes strings.

    Attributes:
        escape: an escape: its letter, or its number in hexadecimal digits.
        letters: the characters that letters stand for; others stand for themselves.
    """

    escape: re.Pattern[str]
    letters: Mapping[str, int]
    numbered: Callable[[int], str]

    def read(self, literal: bytes) -> bytes:
        """A string without its escapes; those that are no character's stay."""

        def meant(escape: re.Match[str]) -> str:
            letter, *digits = escape.groups()
            if letter:
                return chr(self.letters[letter]) if letter in self.letters else letter
            number = int(next(filter(None, digits)), 16)
            return chr(number) if number <= LAST else escape[0]

        body = literal[1:-1].decode("utf-8", "surrogateescape")
        return self.escape.sub(meant, body).encode("utf-8", "surrogateescape")

    def write(self, text: bytes, *, is_ascii: bool) -> bytes:
        """A text as a string; in ASCII, other characters are numbers."""
        tokens = {number: "\\" + letter for letter, number in self.letters.items()}
        tokens |= {ord(one): "\\" + one for one in '"\\'}

        def written(character: str) -> str:
            number = ord(character)
            if number in tokens:
                return tokens[number]
            is_control = number < BLANK or number == DELETE or (is_ascii and number > DELETE)
            return self.numbered(number) if is_control else character

        made = "".join(map(written, text.decode("utf-8", "surrogateescape")))
        return b'"' + made.encode("utf-8", "surrogateescape") + b'"'


def _of_go(number: int) -> str:
    if number <= DELETE:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= LAST_SHORT else f"\\U{number:08x}"


GO = Dialect(
    re.compile(r"\\(?:([abfnrtv\\\"])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))"),
    {letter.decode(): number for letter, number in LETTERS.items() if letter != b"e"},
    _of_go,
)
RUST = Dialect(
    re.compile(r"\\(?:([0nrt\\\"'])|u\{([0-9a-f]{1,6})\})"),
    {"0": 0, "n": 10, "r": 13, "t": 9},
    lambda number: f"\\u{{{number:x}}}",
)


def of_dialect(literal: bytes) -> InlineText | None:
    """The text of a quoted string that Go or Rust wrote; None where neither would write it so."""
    ways = ((dialect, is_ascii) for dialect in (GO, RUST) for is_ascii in (False, True))
    return first_of(
        literal,
        (Encoding(dialect.read, partial(dialect.write, is_ascii=is_ascii)) for dialect, is_ascii in ways),
    )
