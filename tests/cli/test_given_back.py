"""What rows and last lines of folders say of the bytes that come back is what comes back."""

from __future__ import annotations

import re
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import called, files
from tests.support.corpus import FIXTURES, KINDS, ORACLES
from tests.support.halves import rezipped

if TYPE_CHECKING:
    from pathlib import Path

SPLIT = [
    *(ORACLES / name for name in ("plain_stack.pt", "plain_stack.ptl")),
    *(KINDS / name for name in ("compiled.pt2", "etrecord.bin", "package.pt")),
    FIXTURES / "exported" / "shop.pt2",
]
NOTE = "gives its records, not the file's bytes: another layout"


def appended(path: Path) -> None:
    """A record more, by Python's ``zipfile``."""
    with zipfile.ZipFile(path, "a") as zipped:
        root = zipped.namelist()[0].partition("/")[0]
        zipped.writestr(f"{root}/extra/note", "by another tool")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A file of each kind as it was saved, with a record by another tool, and wholly by another tool."""
    folder = tmp_path / "models"
    for place in ("saved", "appended", "rezipped"):
        (folder / place).mkdir(parents=True)
    for path in SPLIT:
        shutil.copy(path, folder / "saved")
        shutil.copy(path, folder / "appended")
        appended(folder / "appended" / path.name)
        (folder / "rezipped" / path.name).write_bytes(rezipped(path, zipfile.ZIP_DEFLATED))
    return folder


def row_of(said: str, file: Path) -> str:
    """The row of a file."""
    (line,) = (line for line in said.splitlines() if line.startswith(f"{file}: "))
    return line


@pytest.mark.parametrize("verb", ["split", "shrink"])
def test_rows_and_last_lines_say_what_comes_back(verb: str, models: Path, tmp_path: Path) -> None:
    small, back, companions = tmp_path / "small", tmp_path / "back", ("-c", tmp_path / "companions")
    made = ("split", *companions) if verb == "split" else ("shrink", "--level", "embed")
    joined = ("join", *companions) if verb == "split" else ("restore",)
    planned = called(made[0], models, "-o", small, *made[1:], "--dry-run", "-j", 1).stdout
    parted = called(made[0], models, "-o", small, *made[1:], "-j", 1).stdout
    repeated = called(made[0], models, "-o", small, *made[1:], "-j", 1).stdout
    done = called(joined[0], small, "-o", back, *joined[1:], "-j", 1)
    assert done.exit_code == 0
    taken = [name for name in files(small) if " nothing to do: " not in row_of(parted, models / name)]
    assert len(taken) >= 12
    same = {name for name in taken if (back / name).read_bytes() == (models / name).read_bytes()}
    assert same
    assert same != {*taken}
    for name in taken:
        note = f"; `{joined[0]}` {NOTE}"
        rows = [row_of(said, models / name) for said in (planned, parted, repeated)]
        assert [note in row for row in rows] == [name not in same] * 3
        assert ": same" in rows[2]
        is_said = row_of(done.stdout, small / name).endswith(" bytes, the original file, byte for byte")
        assert is_said == (name in same), name
    count = f"{len(same)} of {len(taken)} byte for byte, {len(taken) - len(same)} in another layout"
    for said in (planned, parted, repeated):
        assert f"; `{joined[0]}` gives {count}\n" in said
    assert done.stdout.splitlines()[-1].endswith(f"; {count}")
    again = called(joined[0], small, "-o", back, *joined[1:], "-j", 1).stdout.splitlines()[-1]
    assert "byte for byte" not in again


def test_what_an_earlier_run_made_is_not_said_to_be_compared(models: Path, tmp_path: Path) -> None:
    small, back = tmp_path / "small", tmp_path / "back"
    shutil.rmtree(models / "appended")
    shutil.rmtree(models / "rezipped")
    called("split", models, "-o", small, "-c", tmp_path / "companions", "-j", 1)
    join = ("join", small, "-c", tmp_path / "companions", "-o", back, "-j", 1)
    assert re.search(r"; (\d+) of \1 byte for byte$", called(*join).stdout.strip())
    (back / "saved" / "plain_stack.pt").unlink()
    left = len(files(back))
    assert called(*join).stdout.strip().endswith(f"; 1 of 1 byte for byte, {left} left as they were")
