"""An archive's platform: told by its serialization id, and kept by whatever rewrites the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.check.verify import verify
from archive.container.container import Container
from archive.container.serialization_id import (
    LINUX,
    PLATFORMS,
    RECORD_NAME,
    Platform,
    serialization_id,
    writers,
)
from archive.rewrite.join import join, restore
from archive.rewrite.migrate.migrate import migrate
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tests.support.commands import told, well
from tests.support.corpus import ORACLES, RELEASES
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
STACK = ORACLES / "plain_stack.ptl"
UNKNOWN = b"1" * 40
platforms = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)


def written_on(path: Path, platform: Platform) -> bytes:
    """An archive as PyTorch writes it on a platform."""
    with Container.open(path) as container:
        return tampered(path, {RECORD_NAME: serialization_id(container.records.values(), platform).encode()})


def writers_of(source: Path | bytes) -> list[str]:
    with Container.open(source) as container:
        return [
            platform.name
            for platform in writers(container.records.values(), container.records[RECORD_NAME].view())
        ]


@platforms
def test_inspect_names_the_platform_and_verify_finds_nothing(platform: Platform, tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    path.write_bytes(written_on(NESTED, platform))
    assert verify(path) == verify(NESTED) == []
    assert told("inspect", path)["platforms"] == [platform.name]
    line = f"serialization id as PyTorch writes it on {platform.name} ({platform.library})"
    assert line in well("inspect", path).splitlines()


def test_an_unknown_id_is_said_to_be_and_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    path.write_bytes(tampered(NESTED, {RECORD_NAME: UNKNOWN}))
    assert told("inspect", path)["platforms"] == []
    assert "serialization id as PyTorch writes it on no platform known here" in well("inspect", path)
    assert [finding.severity for finding in verify(path)] == ["warning"]


def test_of_an_archive_without_an_id_nothing_is_said() -> None:
    old = RELEASES / "torch-1.9.0" / "nested.ptl"
    assert told("inspect", old)["platforms"] is None
    assert "serialization id" not in well("inspect", old).partition("\n\n")[0]


@platforms
@pytest.mark.parametrize("level", ["compact", "embed"])
def test_a_shrunk_archive_keeps_its_platform(platform: Platform, level: str, tmp_path: Path) -> None:
    source, out, again = tmp_path / "model.ptl", tmp_path / "small.ptl", tmp_path / "again.ptl"
    source.write_bytes(written_on(NESTED, platform))
    shrink(source, out, level=level)
    assert writers_of(out) == [platform.name]
    if level == "embed":
        assert restore(out, again).exact
        assert again.read_bytes() == source.read_bytes()


@platforms
def test_a_split_archive_keeps_its_platform_and_a_joined_one_is_the_original(
    platform: Platform, tmp_path: Path
) -> None:
    source, out, companion = tmp_path / "model.ptl", tmp_path / "small.ptl", tmp_path / "model.ptdbg"
    source.write_bytes(written_on(STACK, platform))
    split(source, out, companion)
    assert writers_of(out) == [platform.name]
    assert join(out, companion, tmp_path / "joined.ptl").exact
    assert (tmp_path / "joined.ptl").read_bytes() == source.read_bytes()


@platforms
def test_a_migrated_archive_keeps_its_platform(platform: Platform, tmp_path: Path) -> None:
    old = RELEASES / "torch-1.9.0" / "nested.ptl"
    source, out, again = tmp_path / "old.ptl", tmp_path / "new.ptl", tmp_path / "again.ptl"
    source.write_bytes(written_on(old, platform))
    migrate(source, out, to="latest")
    assert writers_of(out) == [platform.name]
    migrate(out, again, to="original")
    assert again.read_bytes() == source.read_bytes()


def test_an_archive_that_gets_its_first_id_gets_that_of_linux(tmp_path: Path) -> None:
    migrate(RELEASES / "torch-1.9.0" / "nested.ptl", tmp_path / "new.ptl", to="latest")
    assert writers_of(tmp_path / "new.ptl") == [LINUX.name]


def test_an_id_that_nobody_can_compute_stays_as_it_is(tmp_path: Path) -> None:
    source = tampered(NESTED, {RECORD_NAME: UNKNOWN})
    shrink(source, tmp_path / "compact.ptl")
    split(source, tmp_path / "small.ptl", tmp_path / "model.ptdbg")
    for name in ("compact.ptl", "small.ptl"):
        with Container.open(tmp_path / name) as container:
            assert container.records[RECORD_NAME].view() == UNKNOWN


def test_inspect_shows_the_archive_id_of_archives_as_of_their_companions(tmp_path: Path) -> None:
    small, companion, embedded = (tmp_path / name for name in ("small.ptl", "model.ptdbg", "embedded.ptl"))
    number = split(STACK, small, companion).archive_id
    shrink(STACK, embedded, level="embed")
    assert {told("inspect", path)["archive_id"] for path in (STACK, small, companion, embedded)} == {number}
    assert f"archive id {number}" in well("inspect", STACK).splitlines()
    assert f"packed companion of archive {number}" in well("inspect", companion)


def test_an_archive_with_a_broken_tensor_is_shown_without_its_id(tmp_path: Path) -> None:
    path = tmp_path / "broken.ptl"
    with Container.open(NESTED) as container:
        place = container.records["data/0"].place.data
    data = bytearray(NESTED.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert told("inspect", path)["archive_id"] == ""
    assert "archive id not known: a record cannot be read" in well("inspect", path)
