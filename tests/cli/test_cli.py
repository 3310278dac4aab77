"""The command as a user meets it: output, exit status, errors of one line."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

import archive
from archive.describe.inspect import inspect
from archive.render.inspect import inspection_text
from tests.support.commands import WELL, process, run
from tests.support.corpus import DELEGATED, FIXTURES, ORACLES, oracle
from tests.support.documents import file_of

if TYPE_CHECKING:
    from pathlib import Path

HELP = """
import sys
from archive.cli.commands import group
group(["--help"], standalone_mode=False)
sys.exit(bool({"torch", "numpy", "rich"} & set(sys.modules)))
"""
AT_HAND = """
import sys
from archive.cli.commands import group
group(sys.argv[1:], standalone_mode=False)
sys.exit(bool({"asyncio", "ssl", "fsspec"} & set(sys.modules)))
"""
NESTED = FIXTURES / "releases" / "torch-2.13.0" / "nested.ptl"


def test_help_names_the_commands_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            HELP,
        ],
        capture_output=True,
        check=True,
    )
    for command in (b"inspect", b"symbolicate", b"verify"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["inspect", "verify", "sizes", "leaks", "split"])
def test_files_at_hand_are_read_without_what_reads_those_elsewhere(command: str, tmp_path: Path) -> None:
    targets = ["-o", f"{tmp_path}/small.ptl", "-c", f"{tmp_path}/small.ptdbg"] if command == "split" else []
    words = [sys.executable, "-c", AT_HAND, command, str(NESTED), *targets]
    subprocess.run(words, capture_output=True, check=True)


@pytest.mark.parametrize("command", ["inspect", "symbolicate", "verify"])
def test_each_command_has_examples_in_its_help(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    examples = done.stdout.partition(b"Examples:\n")[2].splitlines()
    assert examples[0].startswith(f"    debug-archive {command} ".encode())
    assert b"\\b" not in done.stdout


def test_symbolicate_prints_the_text_of_pytorch() -> None:
    done = process("symbolicate", ORACLES / "plain_stack.ptl", 1445)
    text = oracle("plain_stack.txt")
    assert done.stdout + b"\n  " == text[text.index(b"Module hierarchy") :]
    assert (done.returncode, done.stderr) == (0, b"")


def test_symbolicate_takes_the_handles_of_one_failure_together() -> None:
    done = run("symbolicate", ORACLES / "lowered_shape.ptl", "1,26")
    text = oracle("lowered_shape.txt")
    assert done.stdout + b"\n  " == text[text.index(b"Module hierarchy") :]


def test_several_handles_are_titled() -> None:
    done = run("symbolicate", ORACLES / "plain_stack.ptl", 1445, 1446)
    assert done.stdout.startswith(b"debug handle 1445:\nModule hierarchy:")
    assert b"\n\ndebug handle 1446:\nModule hierarchy:" in done.stdout


def test_a_handle_given_again_is_explained_once_and_printed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    symbolicate = archive.Archive.symbolicate

    def noted(opened: archive.Archive, handles: list[int], style: archive.Style) -> archive.Symbolication:
        asked.append(handles)
        return symbolicate(opened, handles, style)

    monkeypatch.setattr(archive.Archive, "symbolicate", noted)
    done = run("symbolicate", ORACLES / "plain_stack.ptl", 1445, 1446, 1445)
    assert asked == [[1445], [1446]]
    first, second, third = done.stdout.split(b"debug handle ")[1:]
    assert (first, second.startswith(b"1446:\n")) == (third, True)


@pytest.mark.parametrize("bound", ["output=8000", "work=120"])
def test_handles_that_ask_for_too_much_together_are_refused_before_the_first(bound: str) -> None:
    model = ORACLES / "plain_stack.ptl"
    assert run("symbolicate", model, 1445, "--limit", bound).returncode == 0
    handles = [1445] * 200 if bound.startswith("output") else range(1416, 1477)
    done = run("symbolicate", model, *handles, "--limit", bound)
    assert (done.returncode, done.stdout) == (2, b"")
    assert bound.partition("=")[0].encode() + b" is limited to " in done.stderr


def test_an_unknown_handle_is_a_finding_that_says_which_there_are() -> None:
    done = run("symbolicate", ORACLES / "plain_stack.ptl", 9)
    assert done.stdout == b"Debug info for handle(s): debug_handles:{9}, was not found.\n"
    assert done.returncode == 1
    assert done.stderr.endswith(b"plain_stack.ptl has no debug handle 9; it has 1416-1476\n")


@pytest.mark.parametrize(
    ("path", "words"),
    [("torch-1.8.0/nested.ptl", b"module paths"), ("torch-2.13.0/nested-nodebug.ptl", b"was taken out")],
)
def test_an_archive_without_handles_says_why(path: str, words: bytes) -> None:
    done = run("symbolicate", FIXTURES / "releases" / path, 9)
    assert done.returncode == 1
    assert words in done.stderr


def test_symbolicate_explains_a_log() -> None:
    done = process("symbolicate", ORACLES / "traced_stack.ptl", stdin=oracle("traced_stack.stripped.txt"))
    assert done.stdout == oracle("traced_stack.txt")
    assert done.returncode == 0


def test_a_log_with_unknown_handles_passes_through_and_is_a_finding() -> None:
    log = b"12:00 RuntimeError: no\n  Debug info for handle(s): debug_handles:{-1}, was not found.\n"
    done = run("symbolicate", ORACLES / "plain_stack.ptl", stdin=log)
    assert done.stdout == log
    assert done.returncode == 1
    assert b"-1" in done.stderr


def test_symbolicate_at_a_position() -> None:
    done = run("symbolicate", ORACLES / "plain_unicode.pt", "--at", "code/__torch__/plain.py:250")
    assert done.stdout.startswith(b'  File "models/plain.py", line 57\n')
    assert b"torch.cat([x, y], 0)\n               ~~~~~~~~~ <--- HERE\n" in done.stdout


def test_a_position_without_source_is_a_finding() -> None:
    done = run("symbolicate", ORACLES / "plain_unicode.pt", "--at", "code/__torch__/plain.py:0")
    assert (done.returncode, done.stdout) == (1, b"")


def test_symbolicate_as_json() -> None:
    done = run("symbolicate", ORACLES / "plain_stack.ptl", 1445, 9, "--json")
    found, missing = file_of(done.stdout)["symbolications"]
    assert found["module_hierarchy"].endswith("fc(Linear)::forward.aten::linear")
    assert found["ops"] == ["aten::linear"]
    assert (found["frames"][0]["file"], found["frames"][0]["line"]) == ("models/plain.py", 39)
    assert found["frames"][0]["source"] == "self.blocks"
    assert missing["found"] is False


def test_the_style_of_1_9() -> None:
    path = FIXTURES / "releases" / "torch-1.9.0" / "nested.ptl"
    done = run("symbolicate", path, 5, "--style", "1.9")
    assert done.stdout.startswith(b"Module hierarchy:top(Stack)")
    assert b", in FunctionName_UNKNOWN\n" in done.stdout
    assert b"::" not in done.stdout.splitlines()[0]


def test_inspect_as_json() -> None:
    facts = file_of(run("inspect", NESTED, "--json").stdout)
    assert facts["root"] == "nested"
    assert facts["records"]["callstack_debug_map.pkl"]["compression"] == "deflated"
    assert facts["generations"]["callstack_debug_map.pkl"] == "call-stack map, 4 elements"
    assert facts["generations"]["code/__torch__/models.py.debug_pkl"] == "string table"
    assert sorted(facts["handles"]) == list(range(len(facts["handles"])))
    assert sum(facts["methods"].values()) == len(facts["handles"])


def test_inspect_every_release() -> None:
    for path in sorted((FIXTURES / "releases").glob("torch-*/lowered*.pt*")):
        console = Console(width=400)
        with archive.open(path) as opened, console.capture() as shown:
            console.print(inspection_text(inspect(opened)))
        assert "backend backend_with_compiler_demo" in shown.get() or "backend test_backend" in shown.get()


def test_verify_says_well_and_lists_what_is_not(tmp_path: Path) -> None:
    data = bytearray(NESTED.read_bytes())
    place = data.index(b"STOREN")
    data[place] ^= 1
    broken = tmp_path / "broken.ptl"
    broken.write_bytes(data)
    done = run("verify", NESTED, broken)
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"{NESTED}: {WELL}"
    assert lines[1].startswith(f"{broken}: error: bytecode.pkl")
    assert "crc32" in lines[1]


def test_verify_goes_on_behind_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    done = run("verify", tmp_path / "none.ptl", NESTED)
    assert done.returncode == 2
    assert done.stdout.decode().splitlines() == [
        f"{tmp_path / 'none.ptl'}: not checked: No such file or directory",
        f"{NESTED}: {WELL}",
        "2 files: 1 well, 0 with findings, 1 not checked",
    ]
    assert done.stderr == b""


def test_a_number_beyond_all_bounds_is_a_usage_error() -> None:
    for arguments in (["9" * 5_000], ["--at", "code/x.py:" + "9" * 5_000]):
        done = run("symbolicate", NESTED, *arguments)
        assert done.returncode == 2
        assert b"expected" in done.stderr
        assert len(done.stderr) < 500


def test_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "escapes.pt"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("root/version", "3\n")
        made.writestr("root/extra/\x1b[2Jred", "")
    done = run("inspect", path)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert b"\\x1b[2Jred" in done.stdout


@pytest.mark.parametrize("command", ["inspect", "symbolicate"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 garbage", b"\x00" * 1000])
def test_garbage_is_one_line_and_status_2(command: str, content: bytes, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.ptl"
    garbage.write_bytes(content)
    done = run(command, garbage, *(["1"] if command == "symbolicate" else []))
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(f"debug-archive: {garbage}: ".encode())
    assert done.stderr.count(b"\n") == 1


def test_standard_input_is_no_archive() -> None:
    done = run("inspect", "-", stdin=b"")
    told = b"debug-archive: -: no such file; archives are read from files, not from standard input\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_a_missing_file_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = process("inspect", tmp_path / "none.ptl")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"No such file" in done.stderr


@pytest.mark.parametrize("handle", ["x", "1,", "1;2", "-1"])
def test_a_handle_that_is_none_is_a_usage_error(handle: str) -> None:
    done = run("symbolicate", NESTED, "--", handle)
    assert done.returncode == 2
    assert b"expected a file, a handle like 42" in done.stderr


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -c 'from archive.cli import main; main()' inspect {NESTED} --json | head -c 10",
        shell=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b'{\n  "schem'
    assert b"Traceback" not in done.stderr


def test_a_position_behind_the_end_of_a_record_is_told_as_such() -> None:
    done = run("symbolicate", ORACLES / "plain_unicode.pt", "--at", "code/__torch__/plain.py:99999999")
    assert done.returncode == 1
    assert b"code/__torch__/plain.py ends at byte " in done.stderr


def test_ranges_of_the_backend_s_code_have_no_positions() -> None:
    words = ("symbolicate", ORACLES / "lowered_shape.ptl", "--at", f"{DELEGATED}:7")
    done = run(*words, "--json", "--at", f"{DELEGATED}:7")
    position = {"record": DELEGATED, "byte": 7, "text": None}
    assert (done.returncode, file_of(done.stdout)["positions"]) == (1, [position, position])
    assert f"no source is recorded for {DELEGATED}, byte 7" in done.stderr.decode()
    assert run(*words).stdout == b""


def test_json_of_a_log_is_its_causes() -> None:
    done = run("symbolicate", NESTED, "--json", stdin=b"a log")
    assert done.returncode == 0
    assert done.stderr == b"debug-archive: no failure to explain in standard input (5 bytes), 1 model\n"
    facts = file_of(done.stdout)
    assert (facts["failures"], facts["causes"], facts["notes"]) == (0, [], [])


STARTING_WITH_S = [b"symbolicate", b"sizes", b"split", b"shrink", b"store", b"serve"]


def test_a_shell_completes_the_names_of_commands() -> None:
    asked = {"_DEBUG_ARCHIVE_COMPLETE": "bash_complete", "COMP_WORDS": "debug-archive s", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "archive"], env={**os.environ, **asked}, capture_output=True, check=True
    )
    found = [line.removeprefix(b"plain,") for line in done.stdout.splitlines()]
    assert (found, done.stderr) == (STARTING_WITH_S, b"")


def test_a_handle_is_looked_up_without_what_only_other_commands_need() -> None:
    program = (
        f"import sys; sys.argv = ['a', 'symbolicate', {str(ORACLES / 'plain_stack.ptl')!r}, '1445']\n"
        "from archive.cli import main\n"
        "try:\n    main()\nfinally:\n    sys.stderr.write(' '.join(sys.modules))"
    )
    unwatched = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=unwatched, capture_output=True, check=True, text=True
    )
    imported = set(done.stderr.split())
    assert "archive.debuginfo.symbolicate" in imported
    idle = {
        "rich",
        "zstandard",
        "json",
        "secrets",
        "archive.companion.layout",
        "archive.formats.effects.record",
    }
    assert not idle & imported


def test_a_split_archive_shows_the_handles_that_its_methods_have(tmp_path: Path) -> None:
    archive.split(ORACLES / "plain_stack.ptl", tmp_path / "small.ptl", tmp_path / "model.ptdbg")
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        count = len(opened.handles)
    lines = run("inspect", tmp_path / "small.ptl").stdout.decode().splitlines()
    of_instructions = f"0 source ranges in 0 sources, {count} debug handles of instructions"
    assert any(line.startswith(of_instructions) for line in lines)
    assert sum(int(line.split()[-2]) for line in lines if line.startswith("method ")) == count
