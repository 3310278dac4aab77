"""The vocabulary: words that PyTorch, Python and file formats have, whoever built the model.

``words.xz`` is made by ``tools/vocabulary.py`` from PyTorch 2.13 and frozen: a line that names it, then
identifiers, an empty line, and literals, each on a line without the letters that it shares with the one
before; one letter counts these. Names of people are left out, unless they are words of code.

An identifier is known only as a whole: a compound of known words may be anybody's. So are literals, the texts
that PyTorch's own code compares with: ``mean``, ``zeros``.
"""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILE = Path(__file__).with_name("words.xz")
FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "pb": 0},)
"""Texts have no words of four bytes."""
FIRST = ord("0")
"""The letter for no shared letters."""


class Vocabulary(NamedTuple):
    """The words.

    Attributes:
        name: what they were made from.
        identifiers: names of operators, arguments, modules, attributes, formats.
        literals: short texts of PyTorch's own code.
    """

    name: str
    identifiers: frozenset[str]
    literals: frozenset[str]

    def has_name(self, identifier: str) -> bool:
        """Whether an identifier is known, perhaps with a number added: ``linear_12``."""
        if identifier in self.identifiers:
            return True
        stem = identifier.rstrip(DIGITS)
        if len(identifier) - len(stem) > MOST_DIGITS:
            return False
        return stem in self.identifiers or stem.removesuffix("_") in self.identifiers or not stem


DIGITS = "0123456789"
MOST_DIGITS = 6
"""Digits that count what a name names: more of them may be a telephone number."""


def packed(name: str, identifiers: Sequence[str], literals: Sequence[str]) -> bytes:
    """The file of a vocabulary; words are sorted."""
    text = "\n".join([name, *_shortened(identifiers), "", *_shortened(literals)])
    return lzma.compress(text.encode(), filters=FILTERS)


@cache
def vocabulary() -> Vocabulary:
    """The frozen vocabulary."""
    name, _, words = lzma.decompress(FILE.read_bytes()).decode().partition("\n")
    identifiers, literals = words.split("\n\n")
    return Vocabulary(name, frozenset(_whole(identifiers)), frozenset(_whole(literals)))


def _shortened(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        shared = next(
            (at for at, (one, two) in enumerate(zip(before, word, strict=False)) if one != two), None
        )
        shared = min(len(before), len(word)) if shared is None else shared
        yield chr(FIRST + shared) + word[shared:]
        before = word


def _whole(lines: str) -> Iterator[str]:
    word = ""
    for line in lines.split("\n"):
        word = word[: ord(line[0]) - FIRST] + line[1:]
        yield word
