"""AOTInductor packages among the fixtures."""

from __future__ import annotations

import lzma
from functools import cache

from tests.support.corpus import FIXTURES

COMPILED = FIXTURES / "compiled"
NAMES = ("compiled", "plain", "profiled", "several", "sources")


@cache
def package(name: str) -> bytes:
    """The bytes of a package, some of which are stored compressed."""
    path = COMPILED / f"{name}.pt2"
    return path.read_bytes() if path.exists() else lzma.decompress(path.with_suffix(".pt2.xz").read_bytes())
