"""Data, style and script → one HTML file that needs no network, the same bytes from the same data.

The data are JSON, gzipped without a time, in base64, which can't close the element that holds them. The
policy lets nothing else in: the script is allowed by its digest, and the style by a nonce made from the data.
The template is filled in one go, so no text is searched for the places of others.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from archive.page.folding import folded, part_of
from archive.page.markup import text_of
from archive.page.summary import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.page.summary import Summary

BUNDLE = Path(__file__).parent / "bundle"
PLACE = re.compile(r"\{\{(\w+)\}\}")
NONCE_DIGITS = 32
DEEPEST = 4
"""Levels of data that are packed piece by piece."""
LEVEL = 9
"""Gzip's level: a page is read more often than it is made."""


def packed(data: object) -> bytes:
    """Data as gzipped JSON, folded. Lone surrogates, which UTF-8 has no bytes for, are JSON escapes."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", LEVEL, out, mtime=0) as file:
        for piece in _pieces(data, DEEPEST):
            file.write(piece.encode("utf-8", "backslashreplace"))
    return out.getvalue()


def _pieces(data: object, depth: int) -> Iterator[str]:
    """Data as JSON in pieces, one for each column and record, so that there is never a second copy of all."""
    if depth and data and isinstance(data, dict):
        for number, (key, value) in enumerate(data.items()):
            yield f"{',' if number else '{'}{_text(key)}:"
            yield from _pieces(part_of(key, value), depth - 1)
        yield "}"
    elif depth and isinstance(data, list) and data and isinstance(data[0], dict):
        for number, value in enumerate(data):
            yield "," if number else "["
            yield from _pieces(value, depth - 1)
        yield "]"
    else:
        yield _text(data)


def _text(data: object) -> str:
    return json.dumps(folded(data), ensure_ascii=False, separators=(",", ":"))


def document(packed_data: bytes, summary: Summary) -> bytes:
    """The HTML file of packed data.

    Args:
        summary: what it says without its script.
    """
    data = base64.b64encode(packed_data).decode()
    script, style = _part("page.js"), _part("page.css")
    nonce = hashlib.sha256(packed_data).hexdigest()[:NONCE_DIGITS]
    return _filled(
        _part("page.html"),
        {
            "policy": text_of(policy(script, nonce)),
            "nonce": nonce,
            "title": text_of(summary.title),
            "head": summary.head,
            "rows": f"<p>{SCRIPT}</p>{summary.rows}",
            "style": style,
            "data": data,
            "script": script,
        },
    ).encode("utf-8", "backslashreplace")


def policy(script: str, nonce: str) -> str:
    """What a browser lets the page do: run its script, apply its style, and nothing else."""
    return (
        f"default-src 'none'; script-src '{hash_of(script)}'; style-src 'nonce-{nonce}'; "
        "base-uri 'none'; form-action 'none'"
    )


def hash_of(element: str) -> str:
    """How a policy names a script or a style that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()}"


def _filled(template: str, values: Mapping[str, str]) -> str:
    return PLACE.sub(lambda place: values[place[1]], template)


@cache
def _part(name: str) -> str:
    return (BUNDLE / name).read_bytes().decode()
