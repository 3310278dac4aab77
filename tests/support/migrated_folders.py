"""Archives for folders that `migrate` reads, and what its manifest and results say."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from tests.support.commands import called, files
from tests.support.corpus import RELEASES
from tests.support.many_archives import beside

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

OLD = RELEASES / "torch-1.9.0" / "nested.ptl"

OLDER = RELEASES / "torch-1.8.0" / "nested.pt"

NEW = RELEASES / "torch-2.13.0" / "nested.ptl"


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def entry(path: Path, told: str) -> dict[str, object]:
    """A file as a manifest has it."""
    return {"path": told, "bytes": path.stat().st_size, "digest": digest(path)}


def lines(out: Path) -> dict[str, dict[str, Any]]:
    """The lines of a manifest by input, each of which is there once."""
    read = [json.loads(line) for line in beside(out).read_text("utf-8").splitlines()]
    assert len({line["input"] for line in read}) == len(read)
    return {line["input"]: line for line in read}


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files(folder)}


def again(models: Path, out: Path, *options: object, to: str = "2.13") -> Result:
    return called("migrate", models, "-o", out, "--to", to, "-j", 1, *options)
