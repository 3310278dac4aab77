"""Migrations of what may not be an archive: a result, or one error and nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import archive
from archive import ArchiveError
from tests.support.corpus import RELEASES
from tests.support.cost import LOOPS, loops_below

if TYPE_CHECKING:
    from pathlib import Path

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
