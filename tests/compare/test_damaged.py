"""Of a record with a flipped bit, nothing says that it is the same; nor is a file made out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.compare.sameness import Level, level_of
from archive.reader.recognition import OPENED_KINDS
from archive.render.diff import verdict
from tests.support.corpus import FIXTURES, RELEASES
from tests.support.zips import with_flipped_bit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive.compare.changes import Diff

FILES = [
    *(FIXTURES / "kinds" / name for name in ("state_dict.pt", "checkpoint.pt", "module.pt", "exported.pt2")),
    *(FIXTURES / "kinds" / name for name in ("compiled.pt2", "etrecord.bin", "package.pt", "tensor.pt")),
    RELEASES / "torch-2.13.0/nested.pt",
    RELEASES / "torch-2.13.0/nested.ptl",
]


def damaged(path: Path) -> Iterator[tuple[str, Level, bytes]]:
    """The file with a flipped bit in each of its records: its name, what it is about, and the file."""
    with archive.open(path, kinds=OPENED_KINDS) as opened:
        for name, record in opened.container.records.items():
            if record.stored_size:
                middle = record.place.data + record.stored_size // 2
                yield name, level_of(opened, name), with_flipped_bit(path, middle)


def compared(old: bytes | Path, new: bytes | Path) -> Diff | None:
    """The difference of two files; None where it is refused."""
    try:
        return archive.diff(old, new)
    except ArchiveError:
        return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_flipped_bit_is_a_difference_of_what_its_record_is_about_or_refused(path: Path) -> None:
    for name, level, changed in damaged(path):
        for pair in ((path, changed), (changed, path)):
            diff = compared(*pair)
            if diff is None:
                continue
            assert not any(row.name == name and "the same" in row.in_words for row in diff.changes), name
            assert not diff.identical, name
            if level is Level.MODEL:
                assert any(row.level is level for row in diff.changes), name
                assert not diff.same_model, name


def test_the_record_is_named_and_why_its_elements_are_not_compared() -> None:
    path = FIXTURES / "kinds/state_dict.pt"
    (changed,) = (changed for name, _, changed in damaged(path) if name == "data/0")
    diff = archive.diff(path, changed)

    (row,) = (row for row in diff.changes if row.level is Level.MODEL)
    assert (row.name, row.new) == ("data/0", "other bytes")
    assert "damaged bytes" in diff.unchecked[0]
    assert "no difference of the model" not in verdict(diff)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_digest_is_of_no_record_with_a_flipped_bit(path: Path) -> None:
    whole = str(archive.digest(path))
    for name, level, changed in damaged(path):
        try:
            assert level is not Level.MODEL or str(archive.digest(changed)) != whole, name
        except ArchiveError:
            continue


def test_no_lite_archive_is_made_of_damaged_weights(tmp_path: Path) -> None:
    """PyTorch loads them: the new archive's checksums would be right."""
    pytest.importorskip("torch")
    from archive.backend.lite import lite  # noqa: PLC0415 (where there is PyTorch)

    for name, _, changed in damaged(RELEASES / "torch-2.13.0/nested.pt"):
        if name.startswith("data/"):
            with pytest.raises(ArchiveError, match="damaged bytes"):
                lite(changed, tmp_path / "made.ptl")
    assert not [*tmp_path.iterdir()]
