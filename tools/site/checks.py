"""What Zensical's strict mode passes over.

Images that are missing, plugins and extensions that are unknown, names of Python without a description, links
that lead out of the site, Markdown that was not read, and pages that ask another host for something.
"""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urlparse

from tools.site.tree import SiteError

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = {"search", "mkdocstrings"}
"""Those that this site was built with: Zensical passes over others without a word."""
ASKED = {"img": "src", "script": "src", "source": "srcset", "iframe": "src"}
"""Attributes that a browser follows by itself, with ``link href``."""


class _Page(HTMLParser):
    """A built page: its anchors, its links, what it asks for, and its text outside code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.asked: list[str] = []
        self.text: list[str] = []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        self._code += tag in {"code", "pre", "script", "style"}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and "canonical" not in values.get("rel", ""):
            self.asked.append(values.get("href", ""))
        elif values.get(ASKED.get(tag, "")):
            self.asked.append(values[ASKED[tag]])

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in {"code", "pre", "script", "style"}

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.text.append(data)


def check_configuration(project: dict[str, Any]) -> None:
    """Refuse plugins and extensions that would be passed over.

    Raises:
        SiteError: one is unknown.
    """
    unknown = set(project["plugins"]) - PLUGINS
    unknown |= {name for name in project["markdown_extensions"] if not _is_there(name)}
    if unknown:
        raise SiteError(f"docs/site.toml: no such plugin or extension: {', '.join(sorted(unknown))}")


def _is_there(extension: str) -> bool:
    try:
        return any(map(importlib.util.find_spec, (extension, f"markdown.extensions.{extension}")))
    except ModuleNotFoundError:  # of the package that a dotted name begins with
        return False


def problems(build: Path) -> list[str]:
    """What is wrong in the built pages."""
    site = (build / "site").resolve()
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    said = []
    for path, page in pages.items():
        name = path.relative_to(site)
        said += [f"{name}: leads to {link}" for link in page.links if not _leads(link, path, site, pages)]
        said += [f"{name}: asks for {link}" for link in page.asked if not _is_own(link, path, site)]
        text = "".join(page.text)
        said += [
            f"{name}: Markdown that was not read: {found}" for found in re.findall(r"```.*|\]\([^)]*\)", text)
        ]
    for source in sorted((build / "docs").rglob("*.md")):
        built = site / source.relative_to(build / "docs").with_suffix(".html")
        wanted = re.findall(r"^::: (\S+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        said += [
            f"{built.name}: {name} is not described" for name in wanted if name not in pages[built].anchors
        ]
    return said


def _leads(link: str, path: Path, site: Path, pages: dict[Path, _Page]) -> bool:
    """Whether a link leads to a page of the site that has its anchor, or to another host by https."""
    if re.match(r"[a-z]+:", link):
        return urlparse(link).scheme == "https"
    target, anchor = urldefrag(link)
    folder = site if target.startswith("/") and path.name == "404.html" else path.parent
    file = (folder / unquote(target).lstrip("/")).resolve() if target else path
    file = file / "index.html" if file.is_dir() else file
    if not file.is_relative_to(site) or not file.is_file():
        return False
    return not anchor or file not in pages or unquote(anchor) in pages[file].anchors


def _is_own(link: str, path: Path, site: Path) -> bool:
    """Whether what a browser asks for is a file of the site."""
    folder = site if link.startswith("/") and path.name == "404.html" else path.parent
    file = (folder / unquote(urldefrag(link)[0].partition("?")[0]).lstrip("/")).resolve()
    return not re.match(r"[a-z]+:|//", link) and file.is_relative_to(site) and file.is_file()
