"""Print a digest of everything that the commands write for each archive under ``fixtures/``.

    python -m tools.written > before.tsv        in one checkout
    python -m tools.written > after.tsv         in another
    diff before.tsv after.tsv                   nothing: both write the same bytes

A line is: archive, command, blake2b of what it writes; or the error that it ends in.
"""

from __future__ import annotations

import hashlib
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
TARGETS = ["1.4", "1.6", "1.8", "1.9", "1.11", "2.13", "original"]
PROFILES = ["packed", "mapped"]
DIGEST_BYTES = 16


def main() -> None:
    """Print the lines, in the order of the archives."""
    files = sorted(path for path in FIXTURES.rglob("*.pt*") if path.suffix in {".pt", ".ptl"})
    with ProcessPoolExecutor() as pool:
        for lines in pool.map(_lines, files, chunksize=8):
            sys.stdout.writelines(f"{line}\n" for line in lines)


def _lines(file: Path) -> list[str]:
    name = file.relative_to(FIXTURES).as_posix()
    with TemporaryDirectory() as folder:
        return [f"{name}\t{what}\t{digest}" for what, digest in _written(file, Path(folder))]


def _written(file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """What each command writes: its name, and the digest or the error."""
    out, companion, back = folder / "out", folder / "companion", folder / "back"
    for profile in PROFILES:
        split = partial(archive.split, file, out, companion, profile=profile, force=True)
        yield f"split {profile}", _digest(split, out, companion)
        join = partial(archive.join, out, companion, out=back, force=True)
        yield f"join {profile}", _digest(join, back)
    yield "shrink compact", _digest(partial(archive.shrink, file, out, force=True), out)
    yield "shrink embed", _digest(partial(archive.shrink, file, out, level="embed", force=True), out)
    yield "restore", _digest(partial(archive.restore, out, back, force=True), back)
    for to in TARGETS:
        migrate = partial(archive.migrate, file, out, to=to, lossy=True, force=True)
        yield f"migrate {to}", _digest(migrate, out)


def _digest(work: Callable[[], object], *files: Path) -> str:
    """Of the files that are written, one after the other."""
    for file in files:
        file.unlink(missing_ok=True)
    try:
        work()
    except (archive.ArchiveError, FileNotFoundError) as error:
        return f"error: {error}".replace(f"{files[0].parent}/", "").replace(f"{FIXTURES}/", "")
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for file in files:
        state.update(file.read_bytes())
    return state.hexdigest()


if __name__ == "__main__":
    main()
