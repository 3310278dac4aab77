"""AOTInductor packages among the fixtures."""

from __future__ import annotations

import io
import lzma
import zipfile
from functools import cache
from typing import TYPE_CHECKING

from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMPILED = FIXTURES / "compiled"
NAMES = ("compiled", "plain", "profiled", "several", "sources")


@cache
def package(name: str) -> bytes:
    """The bytes of a package, some of which are stored compressed."""
    path = COMPILED / f"{name}.pt2"
    return path.read_bytes() if path.exists() else lzma.decompress(path.with_suffix(".pt2.xz").read_bytes())


def written(name: str, folder: Path) -> Path:
    """A package in a file of its own."""
    path = folder / f"{name}.pt2"
    path.write_bytes(package(name))
    return path


def member(name: str, file: str) -> bytes:
    """A file of a package, by its name without root."""
    with zipfile.ZipFile(io.BytesIO(package(name))) as opened:
        return opened.read(f"{name}/{file}")


def changed(name: str, contents: Mapping[str, bytes], folder: Path) -> Path:
    """A package with other contents of some files, or further files."""
    path = folder / f"{name}_changed.pt2"
    with zipfile.ZipFile(io.BytesIO(package(name))) as source, zipfile.ZipFile(path, "w") as target:
        kept = {one.partition("/")[2]: source.read(one) for one in source.namelist()}
        for file, content in (kept | dict(contents)).items():
            target.writestr(f"{name}/{file}", content)
    return path
