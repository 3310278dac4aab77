"""A size that a header claims and no stream can have is refused with its place, not printed as a fact."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

from archive.container.container import Container, Member, member_from
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.tampering import packed

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(2_000_000)
STREAM = zlib.compress(DATA, 9, -15)
MOST = len(STREAM) * 1032


def archive_with(name: str, size: int, folder: Path) -> Path:
    """An archive whose record declares a size."""
    forged = Member(name, memoryview(STREAM), size, zlib.crc32(DATA), deflated=True)
    with Container.open(ORACLES / "plain_stack.ptl") as model:
        data = packed([*map(member_from, model.records.values()), forged])
    path = folder / "forged.ptl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("size", [1 << 63, MOST + 1])
@pytest.mark.parametrize(
    "options", [["inspect"], ["inspect", "--json"], ["sizes"], ["sizes", "--by", "part"]]
)
def test_a_forged_size_is_refused_with_its_place(size: int, options: list[str], tmp_path: Path) -> None:
    path = archive_with("extra/big", size, tmp_path)
    done = run(options[0], path, *options[1:])
    assert (done.returncode, done.stdout) == (2, b"")
    told = f"expected at most {MOST:,} bytes inflated of {len(STREAM):,} stored, found a header that claims"
    assert f"{path}: extra/big, byte " in done.stderr.decode()
    assert f"{told} {size:,}" in done.stderr.decode()


@pytest.mark.parametrize("command", ["inspect", "sizes"])
def test_what_deflates_best_is_listed(command: str, tmp_path: Path) -> None:
    done = run(command, archive_with("extra/big", len(DATA), tmp_path))
    assert done.returncode == 0
    assert b"2,000,000" in done.stdout
