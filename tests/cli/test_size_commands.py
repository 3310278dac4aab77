"""``split``, ``join``, ``shrink``, ``restore`` and ``convert`` of single files, as a user meets them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import called, files, row, run, size, told, well
from tests.support.corpus import HANDLES, KINDS, ORACLES, REFUSED, RELEASES, oracle
from tests.support.halves import halves, rezipped

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ["split", "join", "shrink", "restore", "redact", "migrate", "convert", "leaks", "diff", "digest"]
STACK = ORACLES / "plain_stack.ptl"
SCRIPT = ORACLES / "plain_stack.pt"
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
OLD = RELEASES / "torch-1.9.0" / "nested.ptl"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    examples = well(command, "--help").partition("Examples:\n")[2].splitlines()
    assert examples[0].startswith(f"    debug-archive {command} ")


def test_help_names_all_commands_in_the_order_of_a_users_day() -> None:
    lines = well("--help").partition("Commands:\n")[2].splitlines()
    named = [line.split()[0] for line in lines]
    assert named == [
        "inspect",
        "symbolicate",
        "report",
        "verify",
        "leaks",
        "sizes",
        "diff",
        "digest",
        *("split", "join", "shrink", "restore", "redact", "migrate"),
        "lite",
        "profile",
        "run",
        "store",
        "convert",
        "serve",
        "demo",
        "help",
    ]


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
    assert "gives the original records, byte for byte, in a zip with another layout" in said
    said = well("join", tmp_path / "small.ptl", "-o", tmp_path / "back.ptl")
    assert f"{tmp_path / 'back.ptl'} has the original records" in said


def test_a_companion_is_beside_a_file_and_in_a_folder_of_results_only_if_asked(tmp_path: Path) -> None:
    well("split", SCRIPT, "-o", tmp_path / "a" / "small.pt")
    well("split", SCRIPT, "-o", f"{tmp_path}/b/", "-c", f"{tmp_path}/b/")
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
    convert = told("convert", companion, "-o", tmp_path / "mapped.ptdbg", "--layout", "mapped")
    assert (convert["layout"], convert["archive_id"]) == ("mapped", split["archive_id"])
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
    said = well("convert", packed, "-o", mapped, "--layout", "mapped")
    assert row(said, mapped)[0] == size(mapped)
    well("convert", mapped, "-o", again, "--layout", "packed")
    assert again.read_bytes() == packed.read_bytes()
    well("split", STACK, "-o", tmp_path / "small.ptl", "-c", again, "--layout", "mapped", "--force")
    assert again.read_bytes() == mapped.read_bytes()


@pytest.mark.parametrize("layout", ["packed", "mapped"])
@pytest.mark.parametrize(
    ("model", "log"),
    [("plain_stack.ptl", "plain_stack"), ("plain_free_functions.pt", "plain_free_functions.jit")],
)
def test_a_log_of_the_field_is_explained_by_the_companion(
    model: str, log: str, layout: str, tmp_path: Path
) -> None:
    small, companion = tmp_path / model, tmp_path / "m.ptdbg"
    well("split", ORACLES / model, "-o", small, "-c", companion, "--layout", layout)
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


@pytest.mark.parametrize(
    "arguments",
    [
        ["split", STACK, "-o", "x", "--layout", "mapped", "--max"],
        ["shrink", STACK, "-o", "x", "--max"],
        ["shrink", STACK, "-o", "x", "--handles", "drop"],
        ["convert", STACK, "-o", "x", "--layout", "mapped", "--max"],
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


def test_of_an_archive_without_debug_info_no_model_source_is_promised(tmp_path: Path) -> None:
    (tmp_path / "small.ptl").write_bytes(halves(STACK).out)
    said = well("shrink", tmp_path / "small.ptl", "-o", tmp_path / "smaller.ptl")
    assert said.endswith(
        "PyTorch loads it where it loads the original; neither has model source for errors\n"
    )


def test_of_an_archive_that_is_mended_what_was_mended_is_told(tmp_path: Path) -> None:
    said = well("shrink", REFUSED, "-o", tmp_path / "small.ptl").splitlines()
    refused = "for which PyTorch's lite interpreter refuses the original"
    assert said[-2:] == [
        f"mended: 3 tags of no source range in the call-stack map, {refused}",
        "PyTorch loads it as far as its code and tensors go, and shows the same model source in errors",
    ]


def test_of_a_package_nothing_is_said_that_was_not_checked(tmp_path: Path) -> None:
    same = "compared with the original: its model and files are the same to the byte"
    unchecked = "whether torch.package loads it was not checked"
    compact = well("shrink", KINDS / "package.pt", "-o", tmp_path / "compact.pt")
    assert compact.splitlines()[-1] == f"{same}, and its source ranges say the same; {unchecked}"
    embed = well("shrink", KINDS / "package.pt", "-o", tmp_path / "embed.pt", "--level", "embed")
    assert embed.splitlines()[-3:] == [
        f"{same}; {unchecked}",
        "errors show no model source; debug-archive reads it as before",
        "`debug-archive restore` gives the original file, byte for byte",
    ]
    assert well("restore", tmp_path / "embed.pt", "-o", tmp_path / "package.pt")
    assert (tmp_path / "package.pt").read_bytes() == (KINDS / "package.pt").read_bytes()


def test_one_file_of_a_folder_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "small.ptl").write_bytes(STACK.read_bytes())
    assert "\n1 file: " in well("shrink", tmp_path / "in", "-o", tmp_path / "out")


@pytest.mark.parametrize("words", ["shrink -o out", "split -o out -c own"])
def test_what_pytorch_refuses_is_said_of_one_file_and_of_several(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    shutil.copy(RELEASES / "torch-1.8.0" / "lowered.pt", "models/refused.pt")
    shutil.copy(SCRIPT, "models/well.pt")
    verb, *options = words.split()
    alone = [
        line
        for line in well(verb, "models/refused.pt", *options, "--force").splitlines()
        if "refuses" in line
    ]
    assert alone
    shutil.rmtree("own", ignore_errors=True)
    (tmp_path / "out").unlink()
    (tmp_path / "own").unlink(missing_ok=True)
    refused, other, _ = well(verb, "models", *options, "-j", 1).splitlines()
    assert refused.endswith("".join(f"; {line}" for line in alone))
    assert "refuses" not in other
