r"""Paths that are URLs: ``s3://bucket/model.pt``. ``C:\x`` and ``a:b`` are not: only ``://`` makes one.

URLs may contain passwords and tokens. :func:`shown` returns a URL without them, for messages.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeGuard

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
"""The beginning of a URL. A scheme of one letter would be a drive."""
SERVER = re.compile(r"https?://[^/?#]+/?")
_PASSWORD = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"\?[^\s'\"<>)]+")


def is_url(path: object) -> TypeGuard[str]:
    """Whether a path is a URL."""
    return isinstance(path, str) and URL.match(path) is not None


def shown(url: str) -> str:
    """A URL, or a text with URLs, without possible secrets: users, passwords and queries.

    >>> shown("https://me:secret@host/model.pt?token=1")
    'https://host/model.pt?…'
    """
    return _QUERY.sub("?…", _PASSWORD.sub("", url))


def name_of(path: str | os.PathLike[str]) -> str:
    """A path as messages show it."""
    return shown(path) if is_url(path) else os.fspath(path)


def is_server(source: object) -> bool:
    """Whether a source is the address of a server: a URL without a path, which no file has.

    >>> is_server("http://localhost:8080"), is_server("https://host/model.ptl")
    (True, False)
    """
    return isinstance(source, str) and SERVER.fullmatch(source) is not None


def is_elsewhere(source: object) -> bool:
    """Whether a source is a URL, or a file that fsspec opened."""
    return is_url(source) or (hasattr(source, "fs") and hasattr(source, "path"))
