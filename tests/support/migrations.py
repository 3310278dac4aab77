"""Migrated archives and folders, and what manifests and results say of them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from contextlib import nullcontext
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import archive
from archive import ArchiveError
from archive.reader import opening
from archive.reader.provenance import provenance
from archive.rewrite.migrate.aside import kept_aside
from tests.support import slow_reader
from tests.support.commands import called, files
from tests.support.corpus import ARCHIVES, RELEASES, raw_records
from tests.support.cost import LOOPS, loops_below
from tests.support.many_archives import beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from click.testing import Result

    from archive import Archive, Migration
    from archive.io.mapped import Source


OLD = ["1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11"]
TARGETS = [*OLD, "1.12", "1.13", "2.0", "2.1", "2.4", "2.13"]
"""The releases that there are fixtures of, but for those whose module tree is ``model.json``."""
LEGACY = {"torch-1.0.1", "torch-1.2.0"}
MODERN = [path for path in ARCHIVES if path.parent.name not in LEGACY]
STALE = "code/torch/jit.py"


class Place(NamedTuple):
    """A row of source ranges, without what differs from layout to layout."""

    offset: int
    text: bytes
    filename: bytes
    line: int
    start: int
    end: int


@cache
def migrated(path: Path, to: str) -> Migration:
    """A fixture, migrated whatever is lost: read once, and kept once, for all releases it is migrated to."""

    def kept_once(original: Archive, rewritten: Iterable[str]) -> tuple[bytes, bool]:
        return aside_of(original, frozenset(rewritten))

    def opened_once(source: Source, **options: Any) -> AbstractContextManager[Archive]:  # noqa: ANN401
        return nullcontext(fixture) if source is path else real(source, **options)

    fixture, real = opened(path), opening.open_whole
    with (
        mock.patch("archive.reader.rewriting.open_whole", side_effect=opened_once) as asked,
        mock.patch("archive.rewrite.migrate.migrate.provenance", provenance_of),
        mock.patch("archive.rewrite.migrate.records.kept_aside", kept_once),
    ):
        result = archive.migrate(path, to=to, lossy=True)
    assert asked.called, "another function opens archives now: they would be read once a release"
    return result


@lru_cache(64)
def opened(path: Path) -> Archive:
    """A fixture, open."""
    return archive.open(path)


provenance_of = lru_cache(64)(provenance)
"""The releases that may have written an archive that is open."""
aside_of = lru_cache(128)(kept_aside)
"""What a migration keeps of an archive that is open, by the records that it rewrites besides."""


@lru_cache(512)
def records(data: bytes) -> Mapping[str, bytes]:
    """All records of an archive, as ``zipfile`` reads them."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return MappingProxyType({name.partition("/")[2]: opened.read(name) for name in opened.namelist()})


@lru_cache(4096)
def places(data: bytes) -> tuple[Place, ...]:
    """The rows of a record of source ranges, by the slow reader."""
    return tuple(
        Place(row.offset, row.text, row.filename or b"", row.line, row.start, row.end)
        for row in slow_reader.source_ranges(data)
    )


def layouts(records: Mapping[str, bytes]) -> set[str]:
    """How the records of source ranges that have rows are laid out, by the slow reader."""
    found = set()
    for name, data in records.items():
        top: slow_reader.Value = slow_reader.load(data) if name.endswith(".debug_pkl") else ()
        if len(top) == 3 and top[0] == slow_reader.MARKER:
            found.add("string table")
        elif top:
            found.add("pair rows" if len(top[0]) == 2 else "inline rows")
    return found


def release_of(path: Path) -> str:
    """``1.9`` of ``torch-1.9.0``; the oracles are of 2.13."""
    name = path.parent.name if path.parent.parent == RELEASES else "torch-2.13.0"
    return ".".join(name.removeprefix("torch-").split(".")[:2])


def original(path: Path) -> dict[str, bytes]:
    return {one.name: one.data for one in raw_records(path)}


# --- folders


OLD_ARCHIVE = RELEASES / "torch-1.9.0" / "nested.ptl"

OLDER_ARCHIVE = RELEASES / "torch-1.8.0" / "nested.pt"

NEW_ARCHIVE = RELEASES / "torch-2.13.0" / "nested.ptl"


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


# --- Migrations of what may not be an archive: a result, or one error and nothing written


SCRIPT_1_8 = RELEASES / "torch-1.8.0" / "nested.pt"
PATHED = RELEASES / "torch-1.8.0" / "nested.ptl"
STALE_1_8 = RELEASES / "torch-1.8.0" / "lowered-host.pt"
SMALL_1_9 = RELEASES / "torch-1.9.0" / "unicode.ptl"
SCRIPT = RELEASES / "torch-2.13.0" / "nested.pt"
SMALL = RELEASES / "torch-2.13.0" / "unicode.ptl"
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
MODELS = "code/__torch__/models.py"
RANGES = f"{MODELS}.debug_pkl"
EVERYWHERE = ["1.4", "1.8", "1.9", "2.0", "2.13", "string-table"]


def tried(data: bytes, to: str, folder: Path, *, aside: bool = True) -> bytes | ArchiveError:
    """What comes of a migration: a file that can be read, or an error and no file."""
    out = folder / "out.ptl"
    try:
        with loops_below(LOOPS):
            result = archive.migrate(data, out, to=to, lossy=True, aside=aside)
    except ArchiveError as error:
        assert list(folder.iterdir()) == []
        return error
    made = out.read_bytes()
    out.unlink()
    assert len(made) == result.out_size
    archive.open(made).close()
    return made


def refused(data: bytes, to: str, folder: Path, *, aside: bool = True) -> str:
    error = tried(data, to, folder, aside=aside)
    assert isinstance(error, ArchiveError)
    assert error.file
    return str(error).removeprefix("archive in memory: ")


def done(data: bytes, to: str, folder: Path, *, aside: bool = True) -> bytes:
    result = tried(data, to, folder, aside=aside)
    assert isinstance(result, bytes), result
    return result
