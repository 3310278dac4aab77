"""Pages without a script, for people: HTML in the style of the report, with its policy.

Whatever comes from names and files goes through :func:`~archive.page.markup.text_of`.
"""

from __future__ import annotations

import html
import re
from functools import cache
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import Response

from archive.io.urls import is_url
from archive.page.document import BUNDLE, hash_of
from archive.page.markup import text_of

if TYPE_CHECKING:
    from archive.server.problems import HttpProblem

MEDIA_TYPE = "text/html; charset=utf-8"
PRODUCT = "debug-archive"
OWN_STYLE = Path(__file__).with_name("page.css")
POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
HEAD_BYTES = 4096
"""Bytes of a page in which its policy stands."""
NO_FRAMES = "frame-ancestors 'none'"
PRIVATE = {
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Headers of all pages: nobody learns where the reader was, shows the page in another, or keeps it."""
EXPLAIN, REPORT = ("/", "Explain a log"), ("/report", "Report on a model")
LINKS = (EXPLAIN, REPORT, ("/models", "Models"), ("/docs", "HTTP"))
"""The pages: address and title of each."""


class Pages:
    """The pages of a server, each under the name of its store.

    Args:
        store: the store's path or URL, of which the last part is shown.
    """

    def __init__(self, store: str) -> None:
        self._name = _name_in(store) if is_url(store) else Path(store).resolve().name

    def top(self, at: str) -> str:
        """What stands above every page: the product, the store, and the way to the other pages.

        Args:
            at: the address that leads to this one; "" for none.
        """
        marks = {at: ' aria-current="page"'}
        links = "".join(
            f'<li><a href="{address}"{marks.get(address, "")}>{words}</a></li>' for address, words in LINKS
        )
        return (
            f'<nav class="site" aria-label="Pages"><a href="/">{PRODUCT}</a>'
            f"<span>{text_of(self._name)}</span><ul>{links}</ul></nav>"
        )

    def page(
        self,
        at: str,
        title: str,
        body: str,
        status: int = HTTPStatus.OK,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """A page.

        Args:
            at: as of :meth:`top`.
        """
        content = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{text_of(title)}: {text_of(self._name)}, {PRODUCT}</title>"
            f"<style>{_style()}</style></head>"
            f'<body><a class="skip" href="#content">To the content</a>{self.top(at)}'
            f'<main id="content" tabindex="-1"><section><h1>{text_of(title)}</h1>{body}</section></main>'
            "</body></html>"
        )
        policy = (
            f"default-src 'none'; style-src '{hash_of(_style())}'; base-uri 'none'; form-action 'self'; "
            f"{NO_FRAMES}"
        )
        every = {"Content-Security-Policy": policy, **PRIVATE, **(headers or {})}
        return Response(content.encode("utf-8", "backslashreplace"), status, every, MEDIA_TYPE)

    def of_problem(self, problem: HttpProblem, at: str = "", form: str = "") -> Response:
        """The page of a refusal, with the form that may be sent again.

        Args:
            at: as of :meth:`top`.
        """
        why = f'<p class="notice" role="alert">{text_of(problem.detail)}</p>'
        title = dict(LINKS).get(at, problem.status.phrase)
        return self.page(at, title, why + form, problem.status, problem.headers)


def _name_in(url: str) -> str:
    """The last part of a URL: nothing of its users, passwords and queries."""
    parts = urlsplit(url)
    return PurePosixPath(parts.path).name or parts.hostname or ""


def beneath(top: str, page: bytes) -> bytes:
    """A page of :mod:`archive.page` below what stands above every page here."""
    before, start, rest = page.partition(b"<header")
    return before + top.encode("utf-8", "backslashreplace") + start + rest


def headers_of(start: bytes) -> dict[str, str]:
    """The headers of a page with a script: the policy that it has itself, which also forbids frames here."""
    policy = POLICY.search(start)
    if policy is None:
        raise ValueError(f"a page without a policy in its first {HEAD_BYTES:,} bytes")
    return {"Content-Security-Policy": f"{html.unescape(policy[1].decode())}; {NO_FRAMES}", **PRIVATE}


@cache
def _style() -> str:
    return (BUNDLE / "page.css").read_text("utf-8") + OWN_STYLE.read_text("utf-8")
