"""Addresses of servers."""

from __future__ import annotations

import re

SERVER = re.compile(r"https?://[^/?#]+/?")


def is_server(source: object) -> bool:
    """Whether a source is the address of a server: a URL without a path, which no file has.

    >>> is_server("http://localhost:8080"), is_server("https://host/model.ptl")
    (True, False)
    """
    return isinstance(source, str) and SERVER.fullmatch(source) is not None
