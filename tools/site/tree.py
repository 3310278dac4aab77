"""The pages of the site: where each one stands in the repository and on the site, and its links there."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CONFIGURATION = ROOT / "docs" / "site.toml"
MADE = "made:"
"""What begins the name of pages that the repository does not have."""
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "BENCHMARKS.md": "explanation/benchmarks.md",
    "SECURITY.md": "explanation/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "tests/README.md": "project/tests.md",
    "fixtures/README.md": "project/fixtures.md",
    "examples/README.md": "reference/programs.md",
    "docs/how-to/notebook.ipynb": "how-to/notebook.md",
    "docs/schemas": "reference/schemas.md",
    "archive/formats": "reference/records.md",
    "archive/companion/__init__.py": "reference/records.md#archivecompanion",
}
"""Places on the site of what does not lie in ``docs/``, or is made into a page there."""
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"""(\]\(|\b(?:src|srcset|href)=")([^)\s"]+)([)"])""")
"""A link of Markdown, or of HTML in it: a picture for light and dark."""
IMAGES = {".gif", ".jpg", ".png", ".svg", ".webp"}

Tree = dict[str, Any]
"""Titles, in order, with the page of each, or the tree below it."""


class SiteError(Exception):
    """A page or a link that the site cannot have."""


def configuration() -> dict[str, Any]:
    """What ``docs/site.toml`` says."""
    return tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))


def pages_of(tree: Tree) -> Iterator[tuple[str, str]]:
    """The title and name of each page, in order."""
    for title, below in tree.items():
        if isinstance(below, str):
            yield title, below
        else:
            yield from pages_of(below)


def place_of(name: str) -> str:
    """Where a page of the repository stands on the site."""
    return ELSEWHERE.get(name, name.removeprefix("docs/"))


def toml(value: object) -> str:
    """A value of TOML in one line: strings and lists are as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def navigation(tree: Tree, places: Mapping[str, list[tuple[str, str]]]) -> list[dict[str, Any]]:
    """The tree as Zensical has it.

    Args:
        tree: of pages by their names.
        places: the titles and places of the pages that a name stands for; the first one of several is the
            section's own.
    """
    lines: list[dict[str, Any]] = []
    for title, below in tree.items():
        if not isinstance(below, str):
            lines.append({title: navigation(below, places)})
        elif len(found := places.get(below, [(title, place_of(below))])) == 1:
            lines.append({title: found[0][1]})
        else:
            lines.append({title: [found[0][1], *({name: place} for name, place in found[1:])]})
    return lines


@dataclass
class Links:
    """Links of pages, rewritten from the repository's places to the site's.

    Attributes:
        names: of the pages that the site has.
        shown: files and folders that pages lead to and that are no pages: the site shows them as text.
        copied: images.
        problems: links to nothing, each with its page.
    """

    names: set[str]
    shown: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def rewritten(self, text: str, name: str, place: str) -> str:
        """The text of a page, for its place on the site."""

        def new(match: re.Match[str]) -> str:
            target, anchor = re.fullmatch(r"([^#]*)(#.*)?", match[2]).groups("")  # type: ignore[union-attr]
            if not target or re.match(r"[a-z]+:", target):
                return match[0]
            full = os.path.normpath(PurePosixPath(name).parent / target)
            found, _, own = self._place(full, name).partition("#")
            link = os.path.relpath(found, PurePosixPath(place).parent)
            return f"{match[1]}{link}{anchor or (own and '#' + own)}{match[3]}"

        return outside_blocks(text, lambda part: LINK.sub(new, part))

    def _place(self, target: str, name: str) -> str:
        """Where a link of a page leads on the site."""
        path = ROOT / target
        if not path.exists():
            self.problems.append(f"{name}: leads to {target}, which is not there")
            return "index.md"
        if target in self.names or target in ELSEWHERE:
            return place_of(target)
        if path.suffix in IMAGES:
            self.copied.add(target)
            return place_of(target)
        self.shown.add(target)
        return f"files/{target}.md"


def outside_blocks(text: str, change: Callable[[str], str]) -> str:
    """A page, changed everywhere but in its fenced blocks."""
    parts = FENCED.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)
