"""``verify``, ``inspect`` and ``sizes`` of folders and of several files: lines in order, sums, JSON."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import archive
from archive.describe.inspect import inspect
from archive.describe.inventory import inventoried
from tests.support.commands import WELL, called, row, run, told, well
from tests.support.corpus import FIXTURES, KINDS, RELEASES
from tests.support.documents import files_of
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
OLD = RELEASES / "torch-1.9.0" / "nested.ptl"
COMMANDS = ["verify", "inspect", "sizes"]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two archives, a broken one, and a text, in the current one."""
    folder = tmp_path / "models"
    (folder / "b").mkdir(parents=True)
    shutil.copy(NESTED, folder / "b" / "new.ptl")
    shutil.copy(OLD, folder / "old.ptl")
    (folder / "a.ptl").write_bytes(NESTED.read_bytes()[:-100])
    (folder / "README.md").write_text("models\n")
    monkeypatch.chdir(tmp_path)
    return folder


def lines(*arguments: object) -> list[str]:
    return called(*arguments).stdout.splitlines()


def test_verify_prints_the_lines_of_each_file_and_a_total(models: Path) -> None:
    done = called("verify", "models")
    first, second, third, total = done.stdout.splitlines()
    assert first.startswith("models/a.ptl: error: ")
    assert second.startswith("models/old.ptl: note: callstack_debug_map.pkl: rows of three elements")
    assert third == f"models/b/new.ptl: {WELL}"
    assert total == "3 files: 2 well (1 with warnings or notes), 1 with findings, 0 not checked"
    assert done.stderr == "debug-archive: skipped, files of other kinds: 1 (text: 1)\n"
    assert done.exit_code == 1
    (models / "a.ptl").unlink()
    assert called("verify", "models").exit_code == 0
    assert lines("verify", "models", "-q")[-1] == "2 files: 2 well, 0 with findings, 0 not checked"


@pytest.mark.usefixtures("models")
def test_inspect_prints_a_line_a_file_and_the_sums() -> None:
    done = called("inspect", "models")
    assert done.exit_code == 2
    told = done.stdout.splitlines()
    assert told[:2] == [
        (
            "models/old.ptl: lite archive, 8,793 bytes, 27 elements, 2,429 of debug info (27.6%), "
            "202 handles, PyTorch 1.9 (10 of 10 signs), archive 3, bytecode 5"
        ),
        (
            "models/b/new.ptl: lite archive, 9,881 bytes, 27 elements, 3,017 of debug info (30.5%), "
            "189 handles, PyTorch 2.1 or later (10 of 10 signs), archive 3, bytecode 8"
        ),
    ]
    assert [line.split()[-2:] for line in told if line.startswith("total")] == [["5,446", "29.2%"]] * 2
    assert told[-1] == "could not be read: 1 file"
    problem, others = done.stderr.splitlines()
    assert problem.startswith("debug-archive: models/a.ptl: a zip without its end")
    assert "skipped, files of other kinds: 1" in others


def test_sizes_prints_a_table_of_files_and_one_of_their_labels(models: Path) -> None:
    (models / "a.ptl").unlink()
    said = lines("sizes", "models")
    assert [line.split() for line in said[2:5]] == [
        ["models/old.ptl", "8,793", "2,429", "27.6%"],
        ["models/b/new.ptl", "9,881", "3,017", "30.5%"],
        ["total", "18,674", "5,446", "29.2%"],
    ]
    apart = [archive.sizes(file).by("kind") for file in (NESTED, OLD)]
    rows = {line[:24].strip(): int(line[24:].split()[0].replace(",", "")) for line in said[8:-1]}
    assert rows == {label: sum(sizes[label].stored for sizes in apart if label in sizes) for label in rows}
    assert sum(rows.values()) == 18_674
    assert said[-1].split()[:2] == ["total", "18,674"]


def test_sizes_compares_folders_file_by_file(models: Path, tmp_path: Path) -> None:
    (models / "a.ptl").unlink()
    shutil.copytree(models, tmp_path / "base")
    shutil.copy(OLD, tmp_path / "base" / "b" / "new.ptl")
    (tmp_path / "base" / "old.ptl").rename(tmp_path / "base" / "older.ptl")
    done = called("sizes", "models", "--base", "base")
    assert [line.split() for line in done.stdout.splitlines()[2:5]] == [
        ["models/old.ptl", "8,793", "+8,793", "new"],
        ["models/b/new.ptl", "8,793", "9,881", "+1,088", "+12.4%"],
        ["total", "8,793", "18,674", "+9,881", "+112.4%"],
    ]
    assert row(done.stdout, "call-stack map") == ["734", "1,872", "+1,138", "+155.0%"]
    assert "debug-archive: gone since BASE: 1: base/older.ptl" in done.stderr.splitlines()
    assert done.exit_code == 0
    old, new = files_of(called("sizes", "models", "--base", "base", "--json").stdout)
    assert old["base"] is None
    assert (new["base"]["file"], new["base"]["size"]) == ("base/b/new.ptl", 8_793)
    assert new["labels"]["call-stack map"] == {"old": 734, "new": 1_138}


def test_one_file_may_be_compared_with_that_of_its_name_in_a_folder(models: Path) -> None:
    single = called("sizes", "models/b/new.ptl", "--base", "models/old.ptl")
    shutil.copy(OLD, models / "new.ptl")
    assert called("sizes", "models/b/new.ptl", "--base", "models").stdout == single.stdout
    done = run("sizes", "models/old.ptl", "--base", "models/b")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"debug-archive: models/b: holds no old.ptl to compare with\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models", "--base", "models/old.ptl"], "BASE isn't a folder: models/old.ptl"),
        (["models", "--budget", "+1KB"], "a budget of +1,000 bytes is for the difference from a BASE"),
        (["models/b", "again", "--base", "models"], "would be compared with the same models/new.ptl"),
    ],
)
def test_what_cannot_be_compared_file_by_file_is_refused(
    models: Path, arguments: list[str], said: str
) -> None:
    shutil.copytree(models / "b", models.parent / "again")
    done = run("sizes", *arguments)
    assert done.returncode == 2
    assert said in done.stderr.decode()


@pytest.mark.parametrize("command", ["inspect", "sizes"])
def test_a_folder_has_a_line_for_each_file_that_pytorch_saved_and_the_command_reads(command: str) -> None:
    models = [path for path in KINDS.iterdir() if path.is_file() and path.suffix in (".pt", ".pt2", ".bin")]
    read = {path for path in models if called(command, path).exit_code == 0}
    said = lines(command, KINDS)
    assert len(read) > 8
    assert {path for path in models if any(line.startswith(str(path)) for line in said)} == read


# --- all three


@pytest.mark.parametrize("command", sampled(COMMANDS, most=1))
@pytest.mark.usefixtures("models")
def test_several_processes_give_the_same_in_the_same_order(command: str) -> None:
    alone, together = (called(command, "models", "-j", jobs) for jobs in (1, 2))
    assert (alone.stdout, alone.stderr, alone.exit_code) == (
        together.stdout,
        together.stderr,
        together.exit_code,
    )
    assert alone.stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("models")
def test_a_list_of_facts_has_those_of_each_file(command: str) -> None:
    facts = files_of(called(command, "models", "--json").stdout)
    files = ["models/a.ptl", "models/old.ptl", "models/b/new.ptl"]
    assert [one["file"] for one in facts] == files
    if command != "verify":  # it has a diagnostic of its own
        assert facts[0]["error"].startswith("models/a.ptl: a zip without its end")
    assert facts[1:] == [told(command, file) for file in files[1:]]


@pytest.mark.parametrize("command", COMMANDS)
def test_files_are_read_once_and_folders_that_hold_none_are_refused(command: str, models: Path) -> None:
    (models / "a.ptl").unlink()
    assert lines(command, "models", "models/old.ptl", "models") == lines(command, "models")
    (models / "empty").mkdir()
    done = run(command, "models/empty")
    assert (done.returncode, done.stdout) == (2, b"")
    nothing = "no file in it" if command == "inspect" else "no file in it that this command takes"
    assert done.stderr.decode() == f"debug-archive: models/empty: {nothing}\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("models")
def test_names_are_printed_as_they_are_given(command: str) -> None:
    assert "./models/old.ptl" in called(command, "./models/old.ptl", "models/b", "models/b/new.ptl").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_with_folders(command: str) -> None:
    assert f"    debug-archive {command} models/ -j 8\n" in well(command, "--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_whose_models_are_not_fetched_is_not_well(command: str, models: Path) -> None:
    (models / "a.ptl").unlink()
    shutil.copy(KINDS / "pointer.pt", models / "b")
    done = called(command, "models")
    assert done.exit_code == 2
    assert "models/b/pointer.pt: " in done.output
    assert "`git lfs pull` puts the file itself in its place" in done.output


def test_an_interruption_is_one_line(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.ptl").write_bytes(NESTED.read_bytes())
    words = [sys.executable, "-c", "from archive.cli import main; main()", "verify", str(tmp_path), "-j", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate()
    assert (started.returncode, said) == (130, b"debug-archive: interrupted\n")


def test_effects_are_shown_of_one_file(models: Path) -> None:
    done = run("inspect", models, "--effects")
    assert done.returncode == 2
    assert b"--effects is of one file" in done.stderr


@pytest.mark.parametrize("file", [NESTED, OLD, *sorted((FIXTURES / "companions").rglob("*.ptdbg"))[:4]])
def test_a_row_says_what_an_inspection_says(file: Path, tmp_path: Path) -> None:
    well("shrink", NESTED, "-o", tmp_path / "embedded.ptl", "--level", "embed")
    for path in (file, tmp_path / "embedded.ptl"):
        with archive.open(path) as opened:
            facts = inspect(opened)
        row = inventoried(path)
        assert (row.kind, row.size, row.handles) == (facts.kind, facts.size, len(facts.handles))
        assert row.release == str(facts.origin or "")
        assert row.debug_bytes == archive.sizes(path).debug_bytes


def test_a_zip_that_is_no_archive_has_a_line_where_it_is_named() -> None:
    assert lines("inspect", KINDS / "state_dict.pt", NESTED)[0].startswith(
        f"{KINDS / 'state_dict.pt'}: state dict, 2,236 bytes, 10 elements, 0 of debug info"
    )


@pytest.mark.parametrize("command", ["verify", "inspect", "sizes"])
def test_an_empty_folder_is_told(command: str, models: Path, tmp_path: Path) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    (models / "notes").mkdir()
    done = called(command, "models", tmp_path / "empty")
    assert ": 2 (empty folder: 1, text: 1)\n" in done.stderr
    alone = called(command, tmp_path / "empty", "-j", 1)
    nothing = "no file in it" if command == "inspect" else "no file in it that this command takes"
    assert str(alone.exception).startswith(f"{tmp_path / 'empty'}: {nothing}")
