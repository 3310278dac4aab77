"""``debug-archive demo`` alone: the main job, on an archive that comes with the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.cli.demo import main_job
from tests.support.commands import called, files, told, well
from tests.support.corpus import ORACLES
from tests.support.documents import file_of

FILES = ["device.ptl", "device.txt", "joined.ptl", "model.ptdbg", "model.ptl"]
OF_FIXTURES = {
    main_job.MODEL_FILE: "plain_stack.ptl",
    main_job.LOG_FILE: "plain_stack.stripped.txt",
    main_job.SOURCE_FILE: "plain_stack.txt",
}
"""What comes with the command, and the fixtures that it is."""
ROOT = Path(__file__).parents[2]


def steps(folder: Path) -> Any:  # noqa: ANN401 (JSON)
    return told("demo", "-o", folder)


@pytest.mark.parametrize("name", OF_FIXTURES)
def test_what_comes_with_it_is_what_pytorch_wrote_and_printed(name: str) -> None:
    assert (main_job.HERE / name).read_bytes() == (ORACLES / OF_FIXTURES[name]).read_bytes()


def test_what_comes_with_it_is_small() -> None:
    assert sum((main_job.HERE / name).stat().st_size for name in OF_FIXTURES) < 20_000


def test_the_files_are_as_it_tells(tmp_path: Path) -> None:
    facts = steps(tmp_path / "new")
    shown = facts["steps"]
    assert (facts["file"], facts["kept"], facts["problem"]) == (str(tmp_path / "new"), True, None)
    assert list(facts["seconds"]) == list(shown) == ["model", "split", "failure", "explained", "joined"]
    assert files(tmp_path / "new") == FILES
    assert shown["split"]["out_size"] == (tmp_path / "new" / "device.ptl").stat().st_size
    assert (tmp_path / "new" / "joined.ptl").read_bytes() == (ORACLES / "plain_stack.ptl").read_bytes()
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        texts = [str(opened.symbolicate(handle)) for handle in opened.handles]
        assert shown["model"]["handles"] == sum("<--- HERE" in text for text in texts) < len(texts)
        found = opened.symbolicate(shown["failure"]["handles"])
    assert shown["explained"]["module_hierarchy"] == found.module_hierarchy
    assert shown["explained"]["text"] == (ORACLES / "plain_stack.txt").read_text("utf-8")


def test_a_reader_may_type_the_same_commands(tmp_path: Path) -> None:
    well("demo", "-o", tmp_path)
    log = (tmp_path / "device.txt").read_bytes()
    done = called("symbolicate", tmp_path / "model.ptdbg", stdin=log)
    assert done.stdout == (ORACLES / "plain_stack.txt").read_text("utf-8")


def test_it_prints_each_step_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from debug_archive import main; main()", "demo"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    titles = re.findall(r"^(\d+)\. .+\n─+$", done.stdout, re.MULTILINE)
    assert titles == ["1", "2", "3", "4", "5"]
    assert "device.ptl     5,497    44.1%   model and debug handles\n" in done.stdout
    assert "return F.linear(input, self.weight, self.bias)\n               ~~~~~~~~ <--- HERE" in done.stdout
    assert "joined.ptl is the original file, byte for byte" in done.stdout
    assert "All of it compared and true" in done.stdout
    assert files(tmp_path) == []


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "joined.ptl").write_text("mine")
    done = called("demo", "-o", tmp_path)
    assert isinstance(done.exception, ArchiveError)
    assert "joined.ptl: the file exists" in str(done.exception)
    assert files(tmp_path) == ["joined.ptl"]


OTHER_MODEL = ORACLES / "plain_two_methods.ptl"
WRONG = {
    "source.txt": (
        b"another text",
        "model.ptdbg makes of it what PyTorch prints",
        ["model", "split", "failure"],
    ),
    "device.txt": (b"no handles", "PyTorch names a handle for device.ptl", ["model", "split"]),
    "model.ptl": (OTHER_MODEL.read_bytes(), "model.ptdbg makes of it", ["model", "split", "failure"]),
}
"""Files that are not as they were, the claim that then does not hold, and the steps before it."""


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_hold_ends_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, claim, before = WRONG[name]
    for file in OF_FIXTURES:
        (tmp_path / file).write_bytes(data if file == name else (main_job.HERE / file).read_bytes())
    monkeypatch.setattr(main_job, "HERE", tmp_path)
    done = called("demo", "--json")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"debug-archive: this does not hold: {claim}")
    facts = file_of(done.stdout)
    assert [*facts["seconds"]] == before
    assert facts["problem"].startswith(f"this does not hold: {claim}")


def test_a_join_that_gives_something_else_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = archive.join

    def changed(device: Path, companion: Path, out: Path, *, force: bool) -> archive.Join:
        made = joined(device, companion, out, force=force)
        out.write_bytes(out.read_bytes() + b"\0")
        return made

    monkeypatch.setattr(archive, "join", changed)
    done = called("demo", "-o", tmp_path)
    assert (done.exit_code, done.stderr) == (
        1,
        "debug-archive: this does not hold: joined.ptl is model.ptl, byte for byte\n",
    )
