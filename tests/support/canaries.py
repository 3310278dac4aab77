"""Models with planted texts: the tokens of ``fixtures/canaries``, and paths in homes."""

from __future__ import annotations

import csv
import io
import zipfile
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


# --- Paths: PyTorch's place becomes a home, another one in each record, as long as that


PLACES = (b"/opt/py/lib/python3.11/site-packages/torch", b"/opt/torch/torch")
"""Where PyTorch lay when fixtures were made."""


def canary(number: int, length: int) -> bytes:
    """A path in the home of a user of that number, so long."""
    head = b"/home/u%03d/" % number
    return head + b"x" * (length - len(head))


def planted(data: bytes) -> tuple[bytes, dict[str, str]]:
    """A zip in which each record's paths are those of a user of its own; and the user of each record.

    Records keep their lengths, and zips in zips are left as they are.
    """
    users: dict[str, str] = {}

    def change(name: str, old: bytes) -> bytes:
        new = old
        for place in PLACES:
            new = new.replace(place, canary(len(users), len(place)))
        if new != old:
            users[name] = f"u{len(users):03d}"
        return new

    return rewritten(data, change), users


def rewritten(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """A zip with other bytes in its records; ``change`` has a record's name without root, and its bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        folders = {name.partition("/")[0] for name in source.namelist()}
        root = f"{folders.pop()}/" if len(folders) == 1 else ""
        for info in source.infolist():
            new = change(info.filename.removeprefix(root), source.read(info))
            target.writestr(zipfile.ZipInfo(info.filename), new, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def with_records(source: Path, added: Mapping[str, bytes]) -> bytes:
    """An archive with further records."""
    out = io.BytesIO(source.read_bytes())
    with zipfile.ZipFile(out, "a") as target:
        root = target.namelist()[0].partition("/")[0]
        for name, data in added.items():
            target.writestr(zipfile.ZipInfo(f"{root}/{name}"), data)
    return out.getvalue()


# --- Tokens: the models and the table of ``fixtures/canaries``


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
