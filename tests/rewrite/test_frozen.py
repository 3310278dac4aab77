"""Files that hold our own formats, as each version wrote them: every later one reads and restores them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import archive
from archive.companion.layout import OLDEST, VERSION
from tests.support.commands import called, files
from tests.support.corpus import FIXTURES
from tests.support.plain import plain_ranges
from tools.make_frozen import BATCH, EMBEDDED, MIGRATED, SPLIT, TARGET, batch_inputs, frozen_name

FROZEN = FIXTURES / "frozen"
FOLDERS = [FROZEN / f"v{version}" for version in range(OLDEST, VERSION + 1)]
"""Each version has a folder of its own (``tools.make_frozen``)."""
each_version = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@each_version
def test_every_version_is_frozen(folder: Path) -> None:
    assert sorted(FROZEN.iterdir()) == FOLDERS
    split = [frozen_name(name) + ending for name in SPLIT for ending in ("", ".ptdbg")]
    assert files(folder / "split") == sorted(split)
    assert files(folder / "embedded") == sorted(map(frozen_name, EMBEDDED))
    assert files(folder / "migrated") == sorted(map(frozen_name, MIGRATED))
    assert files(folder / "batch") == sorted({*BATCH, "manifest.jsonl"} - {"refused.pt"})


@each_version
@pytest.mark.parametrize("name", SPLIT)
def test_what_was_split_is_joined_to_the_original(folder: Path, name: str, tmp_path: Path) -> None:
    split = folder / "split" / frozen_name(name)
    assert archive.join(split, split.with_name(f"{split.name}.ptdbg"), tmp_path / "joined").exact
    assert (tmp_path / "joined").read_bytes() == (FIXTURES / name).read_bytes()


@each_version
@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_companion_answers_and_is_restored(folder: Path, name: str, tmp_path: Path) -> None:
    frozen = folder / "embedded" / frozen_name(name)
    with archive.open(FIXTURES / name) as before, archive.open(frozen) as after:
        assert after.companion is not None
        assert after.range_table.names == before.range_table.names
        for number in range(len(before.range_table.names)):
            assert plain_ranges(after.range_table, number) == plain_ranges(before.range_table, number)
        for handle in [*before.handles, 123_456]:
            assert bytes(after.symbolicate(handle)) == bytes(before.symbolicate(handle))
    assert archive.restore(frozen, tmp_path / "restored").exact
    assert (tmp_path / "restored").read_bytes() == (FIXTURES / name).read_bytes()


@each_version
@pytest.mark.parametrize("name", MIGRATED)
def test_what_was_kept_aside_gives_the_original(folder: Path, name: str, tmp_path: Path) -> None:
    frozen = folder / "migrated" / frozen_name(name)
    release = Path(name).parent.name.removeprefix("torch-")
    back = archive.migrate(frozen, tmp_path / "back", to=release)
    assert back.restored
    assert (tmp_path / "back").read_bytes() == (FIXTURES / name).read_bytes()


@each_version
def test_a_batch_of_before_is_resumed_and_its_finished_files_are_left(folder: Path, tmp_path: Path) -> None:
    models, out = batch_inputs(tmp_path / "models"), tmp_path / "out"
    shutil.copytree(folder / "batch", out)
    before = {name: (out / name).read_bytes() for name in files(out)}
    lines = before.pop("manifest.jsonl").splitlines()
    words = "migrate", models, "-o", out, "--to", TARGET, "--manifest", out / "manifest.jsonl", "-j", 1
    done = called(*words)
    assert done.exit_code == 1, "one cannot be migrated"
    assert "3 files: 2 same, 1 impossible" in done.stdout
    assert {name: (out / name).read_bytes() for name in before} == before
    assert (out / "manifest.jsonl").read_bytes().splitlines()[: len(lines)] == lines
