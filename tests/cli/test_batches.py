"""``split``, ``join``, ``shrink``, ``restore`` and ``convert`` of many files, refused and interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from archive import ArchiveError
from tests.support.commands import called, files, outcomes, row, run, size, well
from tests.support.corpus import KINDS, ORACLES, RELEASES
from tests.support.documents import files_of
from tests.support.processes import becomes
from tests.support.sampling import sampled
from tests.support.terminals import terminal

STACK = ORACLES / "plain_stack.ptl"
NAMES = ["deep/nested.ptl", "deep/odd name.PTH"]
MANIFEST = "manifest.jsonl"
SCRIPT = ORACLES / "plain_stack.pt"
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
GARBAGE = b"PK\x03\x04 garbage"
WITHOUT_END = (
    "a zip without its end, cut short or with many other bytes after it: "
    "copy or download the whole file again"
)
LEFT_OUT = "debug-archive: skipped, files of other kinds: 1 (text: 1)\n"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with three archives, one of them in a folder of its own, a broken one and a text file."""
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(STACK, folder)
    shutil.copy(NESTED, folder / "deep")
    shutil.copy(SCRIPT, folder / "deep" / "odd name.PTH")
    (folder / "broken.pt").write_bytes(GARBAGE)
    (folder / "notes.txt").write_text("no archive")
    return folder


def test_where_no_file_goes_well_there_are_no_sizes(tmp_path: Path) -> None:
    broken = [tmp_path / name for name in ("a.pt", "b.pt")]
    for file in broken:
        file.write_bytes(GARBAGE)
    done = called("shrink", *broken, "-o", tmp_path / "out", "-j", 1)
    assert (done.exit_code, done.stdout) == (2, "2 files: 2 failed\n")
    assert done.stderr.splitlines() == [f"debug-archive: {file}: {WITHOUT_END}" for file in broken]


def test_a_folder_is_split_and_joined_and_one_broken_file_stops_nothing(models: Path, tmp_path: Path) -> None:
    small, companions, back = tmp_path / "small", tmp_path / "companions", tmp_path / "back"
    done = run("split", models, "-o", small, "-c", companions, "--jobs", 2)
    assert done.returncode == 2
    assert done.stderr.decode() == f"debug-archive: {models / 'broken.pt'}: {WITHOUT_END}\n{LEFT_OUT}"
    assert files(small) == [*NAMES, "plain_stack.ptl"]
    assert files(companions) == [*(f"{name}.ptdbg" for name in NAMES), MANIFEST, "plain_stack.ptl.ptdbg"]
    *lines, total = done.stdout.decode().splitlines()
    assert len(lines) == 3
    line = row(done.stdout.decode(), f"{models / 'plain_stack.ptl'}:")
    assert line[:4] == [size(STACK), "->", size(small / "plain_stack.ptl"), "bytes"]
    assert total.startswith("4 files: 3 done, 1 failed; ")

    shutil.copy(STACK, small / "alone.ptl")
    joined = called("join", small, "-c", companions, "-o", back, "-j", 1)
    assert (joined.exit_code, joined.stderr) == (0, "")
    assert joined.stdout.count(" bytes, the original file, byte for byte\n") == 3
    assert (
        f"alone.ptl: nothing to do: no companion {companions / 'alone.ptl.ptdbg'}; copied\n" in joined.stdout
    )
    assert files(back) == ["alone.ptl", *NAMES, "plain_stack.ptl"]
    assert (back / "alone.ptl").read_bytes() == STACK.read_bytes()
    for name in (*NAMES, "plain_stack.ptl"):
        assert (back / name).read_bytes() == (models / name).read_bytes()


def test_a_split_archive_whose_companion_is_gone_is_told_and_not_copied(models: Path, tmp_path: Path) -> None:
    (models / "broken.pt").unlink()
    (models / "notes.txt").unlink()
    small, companions, back = tmp_path / "small", tmp_path / "companions", tmp_path / "back"
    well("split", models, "-o", small, "-c", companions, "--handles", "drop", "-j", 1)
    (companions / "plain_stack.ptl.ptdbg").unlink()
    done = called("join", small, "-c", companions, "-o", back, "-j", 1)
    assert done.exit_code == 1
    assert "impossible: was split, and its companion " in done.stdout
    assert files(back) == NAMES


def test_several_files_as_json_are_a_list_in_their_order(models: Path, tmp_path: Path) -> None:
    inputs = [models / "deep" / "nested.ptl", models / "broken.pt", models / "plain_stack.ptl"]
    done = called("split", *inputs, "-o", tmp_path / "small", "-c", tmp_path / "dbg", "--json", "-j", 1)
    assert done.exit_code == 2
    first, broken, last = files_of(done.stdout)
    assert [one["file"] for one in (first, broken, last)] == [str(path) for path in inputs]
    assert first["out_size"] == (tmp_path / "small" / "nested.ptl").stat().st_size
    assert list(broken) == ["file", "outcome", "reason"]
    assert last["exact"] is True


def test_folders_are_shrunk_restored_and_converted(models: Path, tmp_path: Path) -> None:
    (models / "broken.pt").unlink()
    (models / "notes.txt").unlink()
    well("shrink", models, "-o", tmp_path / "small", "--level", "embed", "-j", 1)
    well("restore", tmp_path / "small", "-o", tmp_path / "back", "-j", 1)
    for name in (*NAMES, "plain_stack.ptl"):
        assert (tmp_path / "back" / name).read_bytes() == (models / name).read_bytes()
    well("split", models, "-o", tmp_path / "left", "-c", tmp_path / "left", "-j", 1)
    well("convert", tmp_path / "left", "-o", tmp_path / "mapped", "--layout", "mapped", "-j", 1)
    assert files(tmp_path / "mapped") == [
        name for name in files(tmp_path / "left") if name.endswith(".ptdbg")
    ]


def test_archives_in_a_folder_without_the_companion_that_is_read_are_copied(
    models: Path, tmp_path: Path
) -> None:
    (models / "notes.txt").unlink()
    well("shrink", STACK, "-o", models / "embedded.ptl", "--level", "embed")
    well("split", STACK, "-o", models / "left.ptl")
    done = run("restore", models, "-o", tmp_path / "back", "-j", 1)
    assert done.returncode == 2  # by what is broken alone
    assert done.stderr.decode().splitlines() == [
        f"debug-archive: {models / 'broken.pt'}: {WITHOUT_END}",
    ]
    assert outcomes(done.stdout.decode()) == {"done": 1, "nothing to do": 4, "failed": 1}
    assert files(tmp_path / "back") == [*NAMES, "embedded.ptl", "left.ptl", "plain_stack.ptl"]
    assert (tmp_path / "back" / "embedded.ptl").read_bytes() == STACK.read_bytes()
    assert (tmp_path / "back" / "left.ptl").read_bytes() == (models / "left.ptl").read_bytes()
    (models / "broken.pt").unlink()
    converted = run("convert", models, "-o", tmp_path / "mapped", "--layout", "mapped", "-j", 1)
    assert (converted.returncode, converted.stderr) == (0, b"")
    assert files(tmp_path / "mapped") == ["left.ptl.ptdbg"]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_internal_error_of_one_file_is_told_apart_and_what_to_report(workers: int, tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    words = [
        sys.executable,
        str(script),
        "well.pt",
        "broken.pt",
        "wrong.pt",
        str(tmp_path / "out"),
        str(workers),
    ]
    environment = {**os.environ, "DEBUG_ARCHIVE_TRACEBACK": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 70
    said = done.stderr.decode()
    (line,) = (line for line in said.splitlines() if line.startswith("debug-archive: wrong.pt: "))
    assert "wrong.pt: internal error: KeyError: \"'nope'\", at archive/" in line
    assert "please report this line: debug-archive " in line
    assert f"command: debug-archive {words[2]}" in line
    assert 'raise KeyError("nope")' in said  # the traceback
    assert "debug-archive: broken.pt: is broken\n" in said
    assert (
        done.stdout == b"done\n3 files: 1 done, 2 failed; 4 -> 4 bytes (100.0%), without 2 failed, 8 bytes\n"
    )


def test_an_internal_error_in_a_plan_is_told_apart_too(models: Path, tmp_path: Path) -> None:
    with mock.patch("archive.rewrite.migrate.migrate.check_archive", side_effect=KeyError("nope")):
        done = run("migrate", models, "-o", tmp_path / "new", "--to", "1.9", "--dry-run", "--json", "-j", 1)
    assert done.returncode == 70
    reasons = [one["reason"] for one in files_of(done.stdout)]
    assert sorted("internal error" in reason for reason in reasons) == [False] + [True] * 3
    done = run("migrate", models, "-o", tmp_path / "new", "--to", "1.9", "--dry-run", "-j", 1)
    assert done.returncode == 2


def test_results_below_the_folder_are_no_inputs_the_next_time(models: Path) -> None:
    (models / "broken.pt").unlink()
    (models / "notes.txt").unlink()
    for _ in range(2):
        said = well("shrink", models, "-o", models / "small", "--force", "-j", 1)
        assert outcomes(said) == {"done": 3}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("split {0} -o {0} --force", "is an input, too"),
        ("split {0} -o {models} -c {models} --force", "is an input, too"),
        ("split {models} -o {models} -c {models} --force", "is an input, too"),
        (
            "split {models} -o new",
            "new: companions must not be written next to the archives you ship; name another folder: -c ",
        ),
        ("split {0} {1} -o new", "companions must not be written next to the archives"),
        ("split {models}/*.pth -o new -c new", "*.pth: nothing matches"),
        ("split {0} -o new/x.pt -c new/x.pt", "would be written twice"),
        ("join {0} -c {1} -o {1} --force", "is an input, too"),
        ("shrink {0} {models}/deep/twin/plain_stack.ptl -o new", "a folder above both keeps"),
        ("shrink {0} {1} -o {models}/notes.txt", "is a file; several inputs need a folder"),
        ("shrink {models}/empty -o new", "empty: no archive in it"),
        ("join {models} -o new", "with a companion"),
        ("shrink '' -o new", "expected a path"),
        ("convert {0} -o new --layout mapped", "expected a companion, found a lite archive"),
        ("convert {models}/notes.txt -o new --layout mapped", "expected a companion, found a text file"),
        ("restore {0} -o new", "no embedded companion"),
        ("shrink {models}/none.pt -o new", "No such file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    arguments: str, problem: str, models: Path, tmp_path: Path
) -> None:
    (models / "empty").mkdir()
    (models / "deep" / "twin").mkdir()
    shutil.copy(STACK, models / "deep" / "twin")
    before = files(tmp_path)
    paths = [models / "plain_stack.ptl", models / "deep" / "nested.ptl"]
    command = arguments.replace("new", f"{tmp_path}/new").format(*paths, models=models)
    done = called(*("" if word == "''" else word for word in command.split()))
    assert isinstance(done.exception, ArchiveError | OSError)
    assert problem in str(done.exception)
    assert done.stdout == ""
    assert files(tmp_path) == before


FAILING = """
import sys
from pathlib import Path
from archive import ArchiveError
from archive.batches.jobs import plan
from archive.batches.working import Task
from archive.cli.making import FileMaker, VerbTexts
from archive.base.limits import DEFAULT_LIMITS

def failing(file, out, **_):
    if file == "broken.pt":
        raise ArchiveError("is broken")
    if file == "wrong.pt":
        raise KeyError("nope")
    Path(out).write_bytes(b"well")
    return "facts"

if __name__ == "__main__":
    *inputs, out, workers = sys.argv[1:]
    for file in inputs:
        Path(file).write_bytes(b"four")
    texts = VerbTexts("fail", "working", None, lambda *_: "done")
    maker = FileMaker(int(workers), True, DEFAULT_LIMITS, False)
    sys.exit(maker.do(plan(inputs, out), Task("fail", failing, {}, {}, many=True), texts))
"""
SLOW = """
import os, sys, time
from pathlib import Path
from archive.io.output import replacing
from archive.batches.jobs import plan
from archive.batches.working import Task
from archive.cli.ending import exit_status
from archive.cli.making import FileMaker, VerbTexts
from archive.base.limits import DEFAULT_LIMITS

def slow(file, out, *, force, limits):
    with replacing(out, force=force):
        Path("busy", str(os.getpid())).touch()  # drafts have no names by which they could be seen
        for _ in range(6000):
            time.sleep(0.01)

if __name__ == "__main__":
    texts = VerbTexts("wait", "waiting", None, None)
    maker = FileMaker(2, True, DEFAULT_LIMITS, False)
    work = plan(sys.argv[1:-1], sys.argv[-1])
    for job in work.jobs:
        Path(job.name).touch()
    task = Task("wait", slow, {}, {}, many=True)
    sys.exit(exit_status(lambda: maker.do(work, task, texts)))
"""


@pytest.mark.parametrize(
    "to_all", sampled([True, False], most=1), ids=lambda to_all: "Ctrl-C" if to_all else "SIGTERM"
)
def test_an_interrupted_command_leaves_nothing_half_written(to_all: bool, tmp_path: Path) -> None:  # noqa: FBT001
    script, out, busy = tmp_path / "slow.py", tmp_path / "out", tmp_path / "busy"
    script.write_text(SLOW)
    busy.mkdir()
    command = [sys.executable, str(script), *(f"{n}.pt" for n in range(4)), str(out)]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE) as started:
        assert becomes(lambda: len(files(busy)) == 2)
        if to_all:
            os.killpg(started.pid, signal.SIGINT)  # as a terminal does
        else:
            started.terminate()
        assert started.communicate()[1] == b"debug-archive: interrupted\n"
    assert started.returncode == 130
    assert not files(out)
    assert (tmp_path / "out.manifest.jsonl").exists()


def test_progress_is_for_a_terminal_alone(models: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from archive.cli import main; main()", "shrink", str(models), "-j", "1"]
    with terminal() as seen:
        done = subprocess.run(
            [*command, "-o", tmp_path / "out"], stdout=subprocess.PIPE, stderr=seen.file, check=False
        )
    assert b"shrinking" in seen.shown
    assert b"broken.pt: " in seen.shown
    assert b"\x1b" not in done.stdout
    assert done.stdout.count(b"\n") == 4


def test_a_dry_run_says_what_the_whole_folder_comes_to(tmp_path: Path) -> None:
    models, out = tmp_path / "models", ("-o", tmp_path / "small", "-c", tmp_path / "companions")
    models.mkdir()
    shutil.copy(ORACLES / "plain_stack.ptl", models)
    alone = called("split", models, *out, "--dry-run").stdout.splitlines()
    kept = [shutil.copy(KINDS / name, models) for name in ("state_dict.pt", "tensors.safetensors")]
    (models / "notes.txt").write_text("no model")
    *others, last = called("split", models, *out, "--dry-run").stdout.splitlines()
    assert others == alone
    stays = sum(Path(path).stat().st_size for path in kept)
    before = stays + (models / "plain_stack.ptl").stat().st_size
    assert last.startswith(
        f"with {stays:,} bytes of models that stay as they are, not copied: {before:,} -> "
    )
    assert called("split", models, *out).stdout.splitlines()[-1].startswith("1 file: 1 done; ")


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_sums_say_which_files_are_in_none(how: tuple[str, ...], models: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "small", "-c", tmp_path / "companions")
    said = called("split", models, *out, *how).stdout.splitlines()[-1]
    assert said.endswith(f" in companions, without 1 failed, {len(GARBAGE)} bytes")
    flat = Path(shutil.copy(KINDS / "flatbuffer.ptl", models))
    unmade = f", without 1 impossible and 1 failed, {flat.stat().st_size + len(GARBAGE):,} bytes"
    assert called("split", models, *out, *how).stdout.splitlines()[-1].endswith(unmade)
    (models / "broken.pt").unlink()
    (models / "broken.pt").symlink_to(models / "gone.pt")  # of which nobody knows the size
    assert (
        called("split", models, *out, *how)
        .stdout.splitlines()[-1]
        .endswith(", without 1 impossible and 1 failed")
    )
