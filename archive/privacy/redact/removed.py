"""What has to go from an archive, as ``leaks`` found it, and what rewriters have removed."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.debuginfo.sites import SEPARATOR
from archive.privacy.leaks.vocabulary import NAMES
from archive.privacy.pieces.joined import Joined
from archive.privacy.redact.rules import ABSOLUTE, LEAST_FOLDERS
from archive.privacy.redact.search import SHORTEST, Search, name_around, spellings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.privacy.leaks import LeakKind
    from archive.privacy.redact.named_text import RedactionText

TEXT_BYTES = 150
"""Bytes of memory that a removed text takes besides its own."""
MOST_FOLDERS = 32
"""Separators of a path up to which its folders are looked for: all of a deep path's would be quadratic."""


class RevealingTexts:
    """Texts of people and machines that ``leaks`` found in an original, and that must go.

    Attributes:
        by_kind: the texts.
    """

    def __init__(self, by_kind: Mapping[LeakKind, set[bytes]] | None = None) -> None:
        self.by_kind = by_kind or {}
        self._known: dict[bytes, bool] = {}

    @cached_property
    def _search(self) -> tuple[Search, set[bytes]]:
        """Finds the texts in lower case, and the names among them."""
        lowered = {
            kind: {spelling.lower() for text in texts for spelling in spellings_of(text)}
            for kind, texts in self.by_kind.items()
        }
        every = set[bytes]().union(*lowered.values())
        names = set[bytes]().union(*(lowered[kind] for kind in NAMES & lowered.keys()))
        return Search(text for text in every if len(text) >= SHORTEST), names

    def are_in(self, code: bytes) -> bool:
        """Whether code has one of the texts; many nodes have the same code."""
        if code not in self._known:
            self._known[code] = bool(self.lines([code]))
        return self._known[code]

    def lines(self, lines: Sequence[bytes]) -> set[int]:
        """The numbers of lines that have one of the texts."""
        if not self.by_kind:
            return set()
        search, names = self._search
        joined = Joined(lines, b"\n")
        return {
            joined.number(at)
            for at, text in search.found(memoryview(joined.data.lower()))
            if text not in names or name_around(joined.data, at, len(text))
        }


@dataclass(slots=True)
class Removed:
    """The texts that rules have removed, and those that stay in their places.

    Attributes:
        paths: of files.
        lines: of source text, without blanks at either end.
        kept_paths: what stands in the place of paths, and paths that stay.
        kept_lines: the lines that stay.
        names: of classes and attributes.
        texts: texts that are replaced wherever they stand.
        roots: folders of all records.
        files: the first bytes of extra files, and of tensors of sample inputs.
        became: what stands in the place of paths of source files, and of those that stay.
        remaining: texts that stay for certain, since loading needs them.
        problems: what else keeps the result from being clean, in words: what the model needs, and what is
            not looked for.
        ways: how to remove what remains, in sentences.
        stays: what cannot go, and why, in words.
        revealing: what ``leaks`` found in the original that must not stand anywhere.
        words: names of users and hosts in it that are words of models or too short: they stand anywhere,
            so they are not looked for.
    """

    paths: set[bytes] = field(default_factory=set)
    lines: set[bytes] = field(default_factory=set)
    kept_paths: set[bytes] = field(default_factory=set)
    kept_lines: set[bytes] = field(default_factory=set)
    names: set[bytes] = field(default_factory=set)
    texts: set[bytes] = field(default_factory=set)
    roots: set[bytes] = field(default_factory=set)
    files: set[bytes] = field(default_factory=set)
    became: dict[bytes, bytes] = field(default_factory=dict)
    remaining: list[RedactionText] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    revealing: RevealingTexts = field(default_factory=RevealingTexts)
    words: dict[LeakKind, set[bytes]] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """Bytes of memory that lines and paths take."""
        texts = (self.paths, self.lines, self.kept_paths, self.kept_lines)
        return sum(TEXT_BYTES * len(some) + sum(map(len, some)) for some in texts)

    def renamed(self, names: dict[bytes, bytes]) -> None:
        """Note paths and their replacements."""
        self.paths |= {old for old, new in names.items() if old != new and old}
        self.kept_paths |= set(names.values())
        self.became |= names

    def line(self, line: bytes, *, kept: bool) -> None:
        """Note a line, which is kept or not."""
        (self.kept_lines if kept else self.lines).add(line.strip())

    @property
    def folders(self) -> set[bytes]:
        """The folders of removed absolute paths, two or more parts long; for deep paths only the outer ones.

        Where an inner folder is left, so are those that it is in.
        """
        folders = set()
        for path in self.paths:
            if ABSOLUTE.match(path):
                for separator in islice(SEPARATOR.finditer(path), MOST_FOLDERS):
                    folder = path[: separator.start()]
                    if len([part for part in SEPARATOR.split(folder) if part]) >= LEAST_FOLDERS:
                        folders.add(folder)
        return folders
