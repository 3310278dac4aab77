"""``split``, ``join``, ``shrink``, ``restore`` and ``convert`` as a user meets them."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from archive import ArchiveError
from archive.cli.jobs import plan
from archive.cli.main import group
from archive.cli.pool import outcomes
from tests.corpus import HANDLES, ORACLES, RELEASES
from tests.halves import rezipped
from tests.test_cli import oracle, run

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ["split", "join", "shrink", "restore", "convert"]
STACK = ORACLES / "plain_stack.ptl"
SCRIPT = ORACLES / "plain_stack.pt"
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
OLD = RELEASES / "torch-1.9.0" / "nested.ptl"
BARE = RELEASES / "torch-2.13.0" / "nested-nodebug.ptl"
GARBAGE = b"PK\x03\x04 garbage"


def called(*arguments: object, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(group, [*map(str, arguments)], input=stdin)


def well(*arguments: object) -> str:
    """What a command prints, which goes well."""
    done = called(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def told(*arguments: object) -> dict[str, object]:
    facts = json.loads(well(*arguments, "--json"))
    assert isinstance(facts, dict)
    return facts


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def size(path: Path) -> str:
    return f"{path.stat().st_size:,}"


def row(output: str, label: object) -> list[str]:
    """The words behind a label at the beginning of a line."""
    (line,) = (line for line in output.splitlines() if line.startswith(f"{label} "))
    return line.removeprefix(str(label)).split()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with three archives, one of them below, something broken, and something else."""
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(STACK, folder)
    shutil.copy(NESTED, folder / "deep")
    shutil.copy(SCRIPT, folder / "deep" / "odd name.PTH")
    (folder / "broken.pt").write_bytes(GARBAGE)
    (folder / "notes.txt").write_text("no archive")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    examples = well(command, "--help").partition("Examples:\n")[2].splitlines()
    assert examples[0].startswith(f"    debug-archive {command} ")


def test_help_names_all_commands_in_the_order_of_a_users_day() -> None:
    lines = well("--help").partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == ["inspect", "symbolicate", "verify", "sizes", *COMMANDS]


def test_split_tells_what_is_where_and_join_gives_the_same_file(tmp_path: Path) -> None:
    small, companion, back = tmp_path / "small.ptl", tmp_path / "m.ptdbg", tmp_path / "back.ptl"
    said = well("split", STACK, "-o", small, "-c", companion)
    assert row(said, STACK)[:2] == [size(STACK), "100.0%"]
    assert row(said, small)[0] == size(small)
    assert row(said, companion)[0] == size(companion)
    assert f"{HANDLES} stayed" in said
    assert "`debug-archive join` gives the original file, byte for byte" in said

    said = well("join", small, "-c", companion, "-o", back)
    assert f"{back} is the original file, byte for byte" in said
    assert back.read_bytes() == STACK.read_bytes()


def test_of_a_file_by_another_tool_only_the_records_come_back(tmp_path: Path) -> None:
    other = tmp_path / "other.ptl"
    other.write_bytes(rezipped(STACK, 8))
    said = well("split", other, "-o", tmp_path / "small.ptl")
    assert "gives the original records, byte for byte, in a zip laid out anew" in said
    said = well("join", tmp_path / "small.ptl", "-o", tmp_path / "back.ptl")
    assert f"{tmp_path / 'back.ptl'} has the original records" in said


def test_a_companion_is_beside_the_archive_unless_told_otherwise(tmp_path: Path) -> None:
    well("split", SCRIPT, "-o", tmp_path / "a" / "small.pt")
    well("split", SCRIPT, "-o", f"{tmp_path}/b/")
    well("split", SCRIPT, "-o", tmp_path / "c.pt", "-c", f"{tmp_path}/d/")
    well("join", tmp_path / "a" / "small.pt", "-o", tmp_path / "a" / "back.pt")
    assert files(tmp_path) == [
        "a/back.pt",
        "a/small.pt",
        "a/small.pt.ptdbg",
        "b/plain_stack.pt",
        "b/plain_stack.pt.ptdbg",
        "c.pt",
        "d/plain_stack.pt.ptdbg",
    ]


def test_handles_are_dropped_when_asked(tmp_path: Path) -> None:
    kept = told("split", STACK, "-o", tmp_path / "kept.ptl")
    dropped = told("split", STACK, "-o", tmp_path / "dropped.ptl", "--handles", "drop")
    assert (kept["kept"], dropped["kept"]) == ([HANDLES], [])
    assert (tmp_path / "dropped.ptl").stat().st_size < (tmp_path / "kept.ptl").stat().st_size
    assert "stayed" not in well(
        "split", STACK, "-o", tmp_path / "dropped.ptl", "--handles", "drop", "--force"
    )


def test_facts_as_json(tmp_path: Path) -> None:
    small, companion, back = tmp_path / "small.ptl", tmp_path / "m.ptdbg", tmp_path / "back.ptl"
    split = told("split", NESTED, "-o", small, "-c", companion)
    assert (split["file"], split["out"], split["companion"]) == (str(NESTED), str(small), str(companion))
    assert (split["size"], split["out_size"]) == (NESTED.stat().st_size, small.stat().st_size)
    assert (split["companion_size"], split["exact"]) == (companion.stat().st_size, True)
    join = told("join", small, "-c", companion, "-o", back)
    assert (join["size"], join["exact"], join["archive_id"]) == (split["size"], True, split["archive_id"])
    convert = told("convert", companion, "-o", tmp_path / "mapped.ptdbg", "--profile", "mapped")
    assert (convert["profile"], convert["archive_id"]) == ("mapped", split["archive_id"])
    assert "companion" not in convert


@pytest.mark.parametrize("level", ["compact", "embed"])
def test_shrink_tells_each_kind_of_record(level: str, tmp_path: Path) -> None:
    small = tmp_path / "small.ptl"
    said = well("shrink", OLD, "-o", small, "--level", level)
    assert small.stat().st_size < OLD.stat().st_size
    assert row(said, "total")[:2] == [size(OLD), size(small)]
    facts = told("shrink", OLD, "-o", small, "--level", level, "--force")
    kinds = facts["kinds"]
    assert isinstance(kinds, dict)
    assert [sum(column) for column in zip(*kinds.values(), strict=True)] == [facts["size"], facts["out_size"]]
    for kind, (before, after) in kinds.items():
        assert row(said, kind)[:2] == [f"{before:,}", f"{after:,}"]
    assert ("embedded companion" in kinds) == (level == "embed")


def test_restore_gives_the_same_file(tmp_path: Path) -> None:
    small, back = tmp_path / "small.ptl", tmp_path / "back.ptl"
    said = well("shrink", STACK, "-o", small, "--level", "embed")
    assert "`debug-archive restore` gives the original file, byte for byte" in said
    assert f"{back} is the original file, byte for byte" in well("restore", small, "-o", back)
    assert back.read_bytes() == STACK.read_bytes()


def test_profiles_are_converted_into_each_other(tmp_path: Path) -> None:
    packed, mapped, again = tmp_path / "p.ptdbg", tmp_path / "m.ptdbg", tmp_path / "again.ptdbg"
    well("split", STACK, "-o", tmp_path / "small.ptl", "-c", packed)
    said = well("convert", packed, "-o", mapped, "--profile", "mapped")
    assert row(said, mapped)[0] == size(mapped)
    well("convert", mapped, "-o", again, "--profile", "packed")
    assert again.read_bytes() == packed.read_bytes()
    well("split", STACK, "-o", tmp_path / "small.ptl", "-c", again, "--profile", "mapped", "--force")
    assert again.read_bytes() == mapped.read_bytes()


@pytest.mark.parametrize("profile", ["packed", "mapped"])
@pytest.mark.parametrize(
    ("model", "log"),
    [("plain_stack.ptl", "plain_stack"), ("plain_free_functions.pt", "plain_free_functions.jit")],
)
def test_a_log_of_the_field_is_explained_by_the_companion(
    model: str, log: str, profile: str, tmp_path: Path
) -> None:
    small, companion = tmp_path / model, tmp_path / "m.ptdbg"
    well("split", ORACLES / model, "-o", small, "-c", companion, "--profile", profile)
    for arguments in ([companion], [small, "--companion", companion]):
        done = called("symbolicate", *arguments, stdin=oracle(f"{log}.stripped.txt"))
        assert (done.exit_code, done.stdout_bytes) == (0, oracle(f"{log}.txt"))


def test_symbolicate_refuses_the_companion_of_another_model(tmp_path: Path) -> None:
    well("split", STACK, "-o", tmp_path / "small.ptl")
    done = run("symbolicate", NESTED, 1, "--companion", tmp_path / "small.ptl.ptdbg")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"is the companion of another model" in done.stderr


def test_inspect_reads_a_companion(tmp_path: Path) -> None:
    well("split", STACK, "-o", tmp_path / "small.ptl")
    facts = told("inspect", tmp_path / "small.ptl.ptdbg")
    handles = facts["handles"]
    assert isinstance(handles, list)
    assert len(handles) == len(told("inspect", STACK)["handles"])  # type: ignore[arg-type]


def test_a_folder_is_split_and_joined_and_one_broken_file_stops_nothing(models: Path, tmp_path: Path) -> None:
    small, companions, back = tmp_path / "small", tmp_path / "companions", tmp_path / "back"
    done = run("split", models, "-o", small, "-c", companions, "--jobs", 2)
    assert done.returncode == 2
    assert done.stderr.startswith(f"debug-archive: {models / 'broken.pt'}: ".encode())
    assert done.stderr.count(b"\n") == 1
    assert files(small) == ["deep/nested.ptl", "deep/odd name.PTH", "plain_stack.ptl"]
    assert files(companions) == [f"{name}.ptdbg" for name in files(small)]
    *lines, total = done.stdout.decode().splitlines()
    assert len(lines) == 3
    line = row(done.stdout.decode(), f"{models / 'plain_stack.ptl'}:")
    assert line[:4] == [size(STACK), "->", size(small / "plain_stack.ptl"), "bytes"]
    assert total.startswith("3 of 4 files: ")

    shutil.copy(STACK, small / "alone.ptl")
    joined = called("join", small, "-c", companions, "-o", back, "-j", 1)
    assert joined.exit_code == 0
    assert joined.stderr == "debug-archive: without a companion, and left out: 1\n"
    assert joined.stdout.count(" bytes, the original file, byte for byte\n") == 3
    assert files(back) == files(small)[1:]
    for name in files(back):
        assert (back / name).read_bytes() == (models / name).read_bytes()


def test_several_files_as_json_are_a_list_in_their_order(models: Path, tmp_path: Path) -> None:
    inputs = [models / "deep" / "nested.ptl", models / "broken.pt", models / "plain_stack.ptl"]
    done = called("split", *inputs, "-o", tmp_path / "small", "--json", "-j", 1)
    assert done.exit_code == 2
    first, broken, last = json.loads(done.stdout)
    assert [one["file"] for one in (first, broken, last)] == [str(path) for path in inputs]
    assert first["out_size"] == (tmp_path / "small" / "nested.ptl").stat().st_size
    assert list(broken) == ["file", "error"]
    assert last["exact"] is True


def test_folders_are_shrunk_restored_and_converted(models: Path, tmp_path: Path) -> None:
    (models / "broken.pt").unlink()
    well("shrink", models, "-o", tmp_path / "small", "--level", "embed", "-j", 1)
    well("restore", tmp_path / "small", "-o", tmp_path / "back", "-j", 1)
    for name in files(tmp_path / "back"):
        assert (tmp_path / "back" / name).read_bytes() == (models / name).read_bytes()
    well("split", models, "-o", tmp_path / "left", "-j", 1)
    well("convert", tmp_path / "left", "-o", tmp_path / "mapped", "--profile", "mapped", "-j", 1)
    assert files(tmp_path / "mapped") == [
        name for name in files(tmp_path / "left") if name.endswith(".ptdbg")
    ]


def test_results_below_the_folder_are_no_inputs_the_next_time(models: Path) -> None:
    (models / "broken.pt").unlink()
    for _ in range(2):
        said = well("split", models, "-o", models / "small", "--force", "-j", 1)
        assert said.splitlines()[-1].startswith("3 files: ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("split {0} -o {0} --force", "is an input, too"),
        ("split {0} -o {models} --force", "is an input, too"),
        ("split {models} -o {models} --force", "is an input, too"),
        ("split {0} -o new/x.pt -c new/x.pt", "would be written twice"),
        ("join {0} -c {1} -o {1} --force", "is an input, too"),
        ("shrink {0} {models}/deep/../plain_stack.ptl -o new", "would be written twice"),
        ("shrink {0} {1} -o {models}/notes.txt", "is a file; several inputs need a folder"),
        ("shrink {models}/empty -o new", "no *.pt, *.ptl, *.pth"),
        ("join {models} -o new", "with a companion"),
        ("shrink '' -o new", "expected a path"),
        ("convert {0} -o new --profile mapped", "expected a companion, found an archive"),
        ("restore {0} -o new", "no embedded companion"),
        ("shrink {models}/none.pt -o new", "No such file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    arguments: str, problem: str, models: Path, tmp_path: Path
) -> None:
    (models / "empty").mkdir()
    before = files(tmp_path)
    paths = [models / "plain_stack.ptl", models / "deep" / "nested.ptl"]
    command = arguments.replace("new", f"{tmp_path}/new").format(*paths, models=models)
    done = called(*("" if word == "''" else word for word in command.split()))
    assert isinstance(done.exception, ArchiveError | OSError)
    assert problem in str(done.exception)
    assert done.stdout == ""
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["split", STACK, "-o", "x", "--profile", "mapped", "--max"],
        ["shrink", STACK, "-o", "x", "--max"],
        ["shrink", STACK, "-o", "x", "--handles", "keep"],
        ["convert", STACK, "-o", "x", "--profile", "mapped", "--max"],
        ["convert", STACK, "-o", "x"],
        ["split", "-o", "x"],
        ["split", STACK],
    ],
)
def test_options_that_make_no_sense_are_usage_errors(arguments: list[object]) -> None:
    done = called(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: " in done.stderr


def test_max_compresses_further(tmp_path: Path) -> None:
    well("split", STACK, "-o", tmp_path / "x", "-c", tmp_path / "usual")
    well("split", STACK, "-o", tmp_path / "x", "-c", tmp_path / "least", "--max", "--force")
    assert (tmp_path / "least").stat().st_size <= (tmp_path / "usual").stat().st_size


def test_existing_files_are_replaced_only_when_forced(tmp_path: Path) -> None:
    target = tmp_path / "there.ptl"
    target.write_bytes(b"precious")
    done = run("split", STACK, "-o", target)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.decode().startswith(f"debug-archive: {target}: the file exists; pass --force")
    assert "the file exists" in str(called("shrink", STACK, "-o", target).exception)
    assert (files(tmp_path), target.read_bytes()) == (["there.ptl"], b"precious")
    well("split", STACK, "-o", target, "--force")
    assert target.read_bytes() != b"precious"


def killed(file: Path, out: Path) -> None:
    """A verb whose process is killed by one of the files."""
    if file.name == "killer.pt":
        os.kill(os.getpid(), signal.SIGKILL)
    shutil.copy(file, out)


def test_a_file_that_kills_its_process_is_the_only_one_that_is_lost(tmp_path: Path) -> None:
    for name in ("a", "killer", "z"):
        (tmp_path / f"{name}.pt").write_bytes(b"1234")
    found = {
        one.job.file.stem: one
        for one in outcomes(killed, plan([str(tmp_path)], str(tmp_path / "out")).jobs, 2)
    }
    assert found["killer"].error.startswith("the process that worked on it was killed")
    assert [found[name].sizes for name in ("a", "z")] == [(4, 4), (4, 4)]


SLOW = """
import sys, time
from archive.cli import batch
from archive import ArchiveError
from archive.cli.jobs import plan
from archive.writer import replacing

def slow(file, out):
    with replacing(out, force=False):
        for _ in range(6000):
            time.sleep(0.01)

if __name__ == "__main__":
    words = batch.Words("waiting", None, None)
    batch.run(plan(sys.argv[1:-1], sys.argv[-1]), slow, words, jobs=2, as_json=False)
"""


@pytest.mark.parametrize("to_all", [True, False], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_command_leaves_nothing_half_written(to_all: bool, tmp_path: Path) -> None:  # noqa: FBT001
    script, out = tmp_path / "slow.py", tmp_path / "out"
    script.write_text(SLOW)
    command = [sys.executable, str(script), *(f"{n}.pt" for n in range(4)), str(out)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE) as started:
        waited = 0.0
        while len(files(out)) < 2 and waited < 20:
            time.sleep(0.05)
            waited += 0.05
        if to_all:
            os.killpg(started.pid, signal.SIGINT)  # as a terminal does
        else:
            started.terminate()
        assert started.communicate()[1] == b"debug-archive: interrupted\n"
    assert started.returncode == 130
    assert waited < 20
    assert files(out) == []


def test_progress_is_for_a_terminal_alone(models: Path, tmp_path: Path) -> None:
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-c", "from archive.cli import main; main()", "split", str(models), "-j", "1"]
    done = subprocess.run(
        [*command, "-o", tmp_path / "out"], stdout=subprocess.PIPE, stderr=theirs, check=False
    )
    os.close(theirs)
    shown = os.read(terminal, 1 << 16)
    os.close(terminal)
    assert b"splitting" in shown
    assert b"broken.pt: " in shown
    assert b"\x1b" not in done.stdout
    assert done.stdout.count(b"\n") == 4
