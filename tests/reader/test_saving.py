"""``Archive.save``: the same bytes, and nothing of a file that was written to meanwhile."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from tests.support.corpus import ORACLES, RELEASES
from tests.support.halves import embedded, halves

if TYPE_CHECKING:
    from collections.abc import Callable

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"


@pytest.mark.parametrize(
    "path", [NESTED, RELEASES / "torch-1.2.0" / "nested.pt", ORACLES / "lowered_two.ptl"]
)
def test_saving_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    with archive.open(path) as opened:
        _ = opened.generations
        opened.save(tmp_path / "copy.pt")
    assert (tmp_path / "copy.pt").read_bytes() == path.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["copy.pt"]


def test_saving_replaces_nothing_unasked(tmp_path: Path) -> None:
    target = tmp_path / "copy.pt"
    target.write_bytes(b"mine")
    with archive.open(NESTED) as opened:
        with pytest.raises(ArchiveError, match=r"copy\.pt: the file exists; pass force=True"):
            opened.save(target)
        assert target.read_bytes() == b"mine"
        opened.save(target, force=True)
    assert target.read_bytes() == NESTED.read_bytes()
    with archive.open(target) as opened:
        opened.save(target, force=True)
    assert target.read_bytes() == NESTED.read_bytes()


def rewritten(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def grown(path: Path) -> None:
    status = path.stat()
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(path: Path) -> None:
    path.with_name("other").write_bytes(b"another file")
    path.with_name("other").replace(path)


WRITTEN_TO = [rewritten, grown]
AS_IT_WAS = [Path.unlink, replaced]


@pytest.mark.parametrize("change", WRITTEN_TO)
@pytest.mark.parametrize("kind", ["archive", "companion", "embedded companion", "opened file"])
def test_a_file_that_was_written_to_is_not_saved(
    kind: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "copy"
    _, companion, _ = halves(NESTED)
    contents = {"companion": companion, "embedded companion": embedded(NESTED)[0]}
    source.write_bytes(contents.get(kind, NESTED.read_bytes()))
    target.write_bytes(b"mine")
    with source.open("rb") as file, archive.open(file if kind == "opened file" else source) as opened:
        change(source)
        with pytest.raises(ArchiveError, match="source: the file changed while it was read; nothing is"):
            opened.save(target, force=True)
        held = io.BytesIO()
        with pytest.raises(ArchiveError, match="the file changed"):
            opened.save(held)
    assert (target.read_bytes(), held.getvalue()) == (b"mine", b"")


@pytest.mark.parametrize("change", AS_IT_WAS)
def test_a_file_that_has_lost_its_name_is_saved_as_it_was(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copy(NESTED, source)
    with archive.open(source) as opened:
        change(source)
        opened.save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == NESTED.read_bytes()


def test_what_is_not_mapped_does_not_change(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copy(NESTED, source)
    with source.open("rb") as file:
        closed = archive.open(file)
    rewritten(source)  # the file that was given is closed: nobody tells
    closed.save(tmp_path / "first")
    with archive.open(source, mapped=False) as opened:
        rewritten(source)
        source.write_bytes(b"")
        opened.save(tmp_path / "second")
    assert [(tmp_path / name).read_bytes() == NESTED.read_bytes() for name in ("first", "second")] == [
        True
    ] * 2
