"""Pages without a script, for people: HTML in the style of the report, with its policy.

Whatever comes from names and files goes through :func:`~archive.page.document.text_of`.
"""

from __future__ import annotations

import html
import re
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response

from archive.page.document import BUNDLE, hash_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MEDIA_TYPE = "text/html; charset=utf-8"
OWN_STYLE = "label{display:block;margin:.6rem 0}textarea{width:100%;font-family:var(--mono);font-size:.84rem}"
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
LINKS = (("/", "Explain a log"), ("/report", "Report on a model"), ("/models", "Models"), ("/docs", "HTTP"))


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of HTML in cells."""
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def page(
    title: str, body: str, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    """A page."""
    links = "".join(f'<li><a href="{address}">{words}</a></li>' for address, words in LINKS)
    content = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text_of(title)}: debug-archive</title><style>{_style()}</style></head><body>"
        f"<header><h1>{text_of(title)}</h1></header>"
        f'<nav class="sections" aria-label="Pages"><ul>{links}</ul></nav>'
        f"<main><section>{body}</section></main></body></html>"
    )
    policy = (
        f"default-src 'none'; style-src '{hash_of(_style())}'; base-uri 'none'; form-action 'self'; "
        f"{NO_FRAMES}"
    )
    every = {"Content-Security-Policy": policy, **PRIVATE, **(headers or {})}
    return Response(content.encode("utf-8", "backslashreplace"), status, every, MEDIA_TYPE)


def headers_of(start: bytes) -> dict[str, str]:
    """The headers of a page with a script: the policy that it has itself, which also forbids frames here."""
    policy = POLICY.search(start)
    if policy is None:
        raise ValueError(f"a page without a policy in its first {HEAD_BYTES:,} bytes")
    return {"Content-Security-Policy": f"{html.unescape(policy[1].decode())}; {NO_FRAMES}", **PRIVATE}


@cache
def _style() -> str:
    return (BUNDLE / "page.css").read_text("utf-8") + OWN_STYLE
