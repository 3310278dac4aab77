"""Tables of many texts that are one row: what a tokenizer knows, lists of numbers.

A tokenizer has what no list of people has: entries of one letter, or parts of words with a mark. Its table is
one row, with entries that may be names all the same. A large table without such signs, most of whose entries
begin with no capital, is one row, too, which says that all of it has to be looked at, and shows its first
entries. Entries of other tables are keys.
"""

from __future__ import annotations

import json
import re
import struct
from hashlib import sha256
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection

LONG_NUMBER = re.compile(r"(?:\d[ ./()+_-]{0,3}){7}|(?<!\d)\d\d([./_-])\d\d\1\d\d(?!\d)")
"""Seven digits, perhaps grouped, or a date of six: a telephone number, a date of birth, an account."""
MOST_ODD, LONGEST_ENTRY = 20, 40
"""Odd entries of a table that is one row, and characters of an entry that is not odd."""
ODD = re.compile(r"\w[@/\\:]\w|\w\W? \w")
LIKE_NAME = re.compile(r"\w['\u2019]\w|[a-z][A-Z]")
"""Part of a name: an apostrophe, or a capital within a word."""
MOST_SHOWN = 50
FEWEST_LETTERS, SHARE_OF_MARKS = 20, 0.05
"""Entries of one letter of a tokenizer's table, or the part of its entries that have a mark."""
MANY_ENTRIES = 1000
"""Entries of any other table that is one row, unless most begin with a capital."""
MARKS, END_MARKS = ("\u0120", "\u2581", "##"), ("</w>", "@@")
"""What distinguishes a part of a word from a whole one, in the entries of tokenizers."""
BYTES_MARK = MARKS[0]
"""The blank of tokenizers whose entries are bytes, each written as some letter."""
FEWEST_OF_KIND = 0.1
"""The part of entries that letters beyond ASCII, or of ASCII, are in where these are odd."""
FEWEST_MERGES, FEWEST_NUMBERS = 1000, 100
"""Pairs that are one row, and numbers that are."""
ENTRIES, MERGES, WORDS = "entries", "merges", "words, which may be names: look at all of them"
NUMBERS = "numbers, which may be anybody's: look at all of them"
"""What is in a table, as its row says."""
NOT_ASCII, ASCII_WORD = re.compile(r"(?![\x00-\x7f])[^\W\d_]"), re.compile(r"[A-Za-z]{3}")
MOST_PLACES, NEAR = 1000, 32
"""Places at which the beginning of a table is looked for, and bytes from an entry to the next."""


@dataclass(frozen=True, slots=True)
class ReviewTable:
    """A table from texts to integers that is one row.

    Attributes:
        entries: how many it has.
        digest: SHA-256 of its texts, in hex, each with a newline, in their order.
        odd: entries that look unlike parts of words, at most 50: with blanks, slashes, ``@``, long numbers,
            very long ones; then those with capitals within, apostrophes, letters of other scripts. For words
            and numbers, then the first entries.
    """

    entries: int
    digest: str
    odd: tuple[str, ...]


def is_odd(entry: str) -> bool:
    """Whether an entry of a table looks unlike a word."""
    return (
        len(entry) > LONGEST_ENTRY or ODD.search(entry) is not None or LONG_NUMBER.search(entry) is not None
    )


def kind_of_table(texts: Collection[str]) -> str | None:
    """What the entries of a table are, in a word; None if each is to be a row."""
    if sum(map(is_odd, texts)) > MOST_ODD:
        return None
    marked = sum(text.startswith(MARKS) or text.endswith(END_MARKS) for text in texts)
    letters = sum(len(text) == 1 for text in texts)
    if letters >= FEWEST_LETTERS or marked >= SHARE_OF_MARKS * len(texts):
        return ENTRIES
    names = sum(text[:1].isupper() for text in texts)
    return WORDS if len(texts) >= MANY_ENTRIES and names < len(texts) / 2 else None


def described(what: str, texts: Collection[str]) -> tuple[str, ReviewTable]:
    """A table in words, and what is shown of it."""
    digest = sha256("".join(f"{text}\n" for text in texts).encode(errors="backslashreplace")).hexdigest()
    odd = [] if what in {MERGES, NUMBERS} else _odd_entries(texts)
    more = f", {len(odd) - MOST_SHOWN:,} more odd ones" if len(odd) > MOST_SHOWN else ""
    shown = list(dict.fromkeys([*odd, *texts])) if what in {WORDS, NUMBERS} else odd
    words = f"table of {len(texts):,} {what}{more}, SHA-256 {digest[:16]}"
    return words, ReviewTable(len(texts), digest, tuple(shown[:MOST_SHOWN]))


def _odd_entries(texts: Collection[str]) -> list[str]:
    """Entries that may be names, the oddest first."""
    odd = [text for text in texts if is_odd(text)]
    like_name = {text for text in texts if LIKE_NAME.search(text)}
    if not any(text.startswith(BYTES_MARK) for text in texts):
        foreign = {text for text in texts if not text.isascii() and NOT_ASCII.search(text)}
        latin = {text for text in texts if ASCII_WORD.search(text)} - foreign
        for some in (foreign, latin):
            if len(some) < FEWEST_OF_KIND * len(texts):
                like_name |= some
    return odd + [text for text in texts if text in like_name and not is_odd(text)]


def place_of_table(data: bytes, texts: list[str]) -> int | None:
    """The byte of the first entry that the second is near, as a pickle or JSON has it; None if none is."""
    first, second = (text.encode(errors="surrogatepass") for text in texts[:2])
    of_json = [json.dumps(text)[1:-1].encode() for text in texts[:2]]
    begins = [b'"', b"X" + struct.pack("<I", len(first)), b"\x8c" + bytes([len(first) & 0xFF])]
    for begin, one, other in [(b'"', *of_json), *((begin, first, second) for begin in begins)]:
        at = data.find(begin + one)
        for _ in range(MOST_PLACES):
            if at < 0:
                break
            end = at + len(begin) + len(one)
            if other in data[end : end + len(other) + NEAR]:
                return at + len(begin)
            at = data.find(begin + one, end)
    return None
