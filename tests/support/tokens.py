"""The models with planted tokens, and the table of tokens: ``fixtures/canaries``."""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

CANARIES = FIXTURES / "canaries"
FILES = sorted(path for path in CANARIES.iterdir() if path.suffix in {".pt", ".ptl", ".pt2", ".etrecord"})
ALIKE = "_decomposed"
"""Ends the name of a model whose tokens are those of another."""


class Token(NamedTuple):
    """A token in the files of one name.

    Attributes:
        files: their name, or their names without endings.
        token: the token.
        place: a record that has it.
        kind: the kind of finding by which ``leaks`` names it; "" for none.
        goes: what takes it out: of paths ``basename`` and ``none``; of source text ``lines`` (with ``lines``
            already) and ``source`` (with ``none`` alone); ``inputs``, ``extra``, ``root``, ``names``;
            "" for nothing.
        why: why it stays.
    """

    files: str
    token: str
    place: str
    kind: str
    goes: str
    why: str


@cache
def table() -> list[Token]:
    """All rows."""
    with (CANARIES / "tokens.tsv").open(encoding="utf-8", newline="") as file:
        return [Token(**row) for row in csv.DictReader(file, delimiter="\t")]


def planted_in(path: Path) -> list[Token]:
    """The tokens of a file."""
    return [one for one in table() if one.files in (path.stem.removesuffix(ALIKE), path.name)]
