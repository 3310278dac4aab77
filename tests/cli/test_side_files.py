"""Files and texts that options name, whatever they are: an answer within bounds, and one line of errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import click
import pytest

from archive.store.folder import MARK
from tests.cli.test_lost_output import NEED_TORCH, PRINTING, commands
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.cost import MIB, peak_below
from tests.support.sampling import crossed, sampled

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = ORACLES / "plain_stack.ptl"
DEVICE = FIXTURES / "executorch" / "device"
READING = {
    "symbolicate --companion": f"symbolicate {MODEL} 1445 --companion",
    "leaks --config": f"leaks {MODEL} --config",
    "sizes --base": f"sizes {MODEL} --base",
    "sizes --config": f"sizes {MODEL} --config",
    "diff --companion": f"diff {MODEL} {MODEL} --companion",
    "digest --check": "digest --check",
    "join --companion": "join {}/small.ptl -o {}/out.ptl --companion",
    "profile --companion": f"profile {MODEL} --input 2x2 --companion",
    "profile --base": "profile {}/profile.json --base",
    "symbolicate --program": f"symbolicate {DEVICE}.etrecord 0:0 --program",
    "profile --program": f"profile {DEVICE}.etdp -c {DEVICE}.etrecord --program",
    "run --buffer": f"run {DEVICE}.etdp -c {DEVICE}.etrecord --buffer",
    "run --base": f"run {MODEL} --input 3x4 --base",
    "run --base-companion": f"run {MODEL} --input 3x4 --base {MODEL} --base-companion",
    "run --companion": f"run {MODEL} --input 3x4 --companion",
    "report --companion": f"report {MODEL} -o {{}}/out.html --companion",
    "report --values": f"report {MODEL} -o {{}}/out.html --values",
    "report --base": f"report {MODEL} -o {{}}/out.html --base",
    "leaks --review": f"leaks {MODEL} --review",
    "redact --review": f"redact {MODEL} -o {{}}/o.ptl -c {{}}/o.ptdbg --for publish --review",
    "report --review": f"report {MODEL} -o {{}}/out.html --review",
    "serve --token-file": "serve {}/store --port 0 --token-file",
    "store check --store": "store check --store",
    "store gc --store": "store gc --store",
    "store get --store": "store get x -o {}/out --store",
    "store ls --store": "store ls --store",
    "store rm --store": "store rm x --store",
}
"""A call of each option that names something to be read, without what it names."""
WRITTEN_TOO = {"leaks --review", "redact --review", "report --review"}
"""What is made where it is not there."""
STREAMS = {"symbolicate --log"}
"""What is read as it comes, and may have no end."""
WRITING = {"--output", "--manifest", "--html", "--access-log", "--save"}
HANDED_TO_WRITE = {"split --companion", "redact --companion"}


def by_type(kind: type[click.ParamType[Any]]) -> dict[str, click.Option]:
    """Options of a type, by command and name."""
    return {
        f"{name} {option.opts[-1]}": option
        for name, command in commands().items()
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.type, kind)
    }


def test_every_option_that_names_what_is_read_is_called() -> None:
    named = {name for name in by_type(click.Path) if name.split()[-1] not in WRITING}
    assert named == READING.keys() | STREAMS | HANDED_TO_WRITE


def missing(_: Path) -> None:
    """Make nothing."""


KINDS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: path.write_bytes(b"a\xff\xfe=\xff\n"),
    "a folder": Path.mkdir,
    "nothing": missing,
    "no end": lambda path: path.symlink_to("/dev/zero"),
    "huge": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40),
    "a pipe": os.mkfifo,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read besides."""
    made = tmp_path_factory.mktemp("made")
    run("split", MODEL, "-o", made / "small.ptl", "-c", made / "model.ptdbg")
    run("store", "add", MODEL, "--store", made / "store")
    (made / "profile.json").write_text("{}")
    return made


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="the system has no file without end")
@pytest.mark.parametrize(
    ("option", "kind"), crossed(READING, [kind for kind in KINDS if kind != "a pipe"], most=18)
)
def test_what_is_named_is_refused_in_one_line_within_bounds(
    option: str, kind: str, folder: Path, tmp_path: Path
) -> None:
    if option.startswith("serve"):
        pytest.importorskip("fastapi")
    if option.startswith(("profile", "run")):
        # Imported here, so that what this takes does not count.
        pytest.importorskip("archive.backend.values.running", exc_type=ImportError)
    if kind == "nothing" and option in WRITTEN_TOO:
        pytest.skip("it is made")
    if (option, kind) == ("run --buffer", "huge"):
        pytest.skip("a buffer may be longer than the values in it")
    path = tmp_path / "odd"
    KINDS[kind](path)
    with peak_below(64 * MIB):
        done = run(*READING[option].format(*[folder] * 2).split(), path)
    assert done.returncode == 2
    line = done.stderr.decode().splitlines()[-1]
    assert line.startswith(("debug-archive: ", "Error: Invalid value for "))
    assert str(path) in line
    assert done.stderr.count(b"\n") == 1 or done.stderr.startswith(b"Usage: ")


@pytest.mark.parametrize(
    "option", sampled(["leaks --config", "digest --check", "serve --token-file", "sizes --base"], most=2)
)
def test_nobody_waits_for_a_pipe_into_which_nobody_writes(option: str, folder: Path, tmp_path: Path) -> None:
    if option.startswith("serve"):
        pytest.importorskip("fastapi")
    KINDS["a pipe"](tmp_path / "pipe")
    words = [*READING[option].format(folder).split(), str(tmp_path / "pipe")]
    done = subprocess.run(
        [sys.executable, "-m", "archive", *words], capture_output=True, check=False, timeout=120
    )
    (line,) = done.stderr.decode().splitlines()
    assert (done.returncode, f"debug-archive: {tmp_path}/pipe: " in line) == (2, True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nothing"])
def test_a_mark_of_a_store_that_is_none_is_named(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / MARK)
    done = run("store", "ls", "--store", tmp_path)
    (line,) = done.stderr.decode().splitlines()
    assert (done.returncode, f"debug-archive: {tmp_path}" in line) == (2, True)


def test_a_pipe_is_read_to_its_end() -> None:
    digests = run("digest", MODEL).stdout
    words = [sys.executable, "-m", "archive", "digest", "--check", "/dev/stdin"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for part in (digests[:20], digests[20:]):
            process.stdin.write(part)
            process.stdin.flush()
        process.stdin.close()
        assert process.stdout.read() == f"{MODEL}: OK\n".encode()
    assert process.returncode == 0


# --- texts


TEXTS = {
    name: option for name, option in by_type(click.types.StringParamType).items() if "--dask" not in name
}
ODD = os.fsdecode(b"\xff")


@pytest.mark.parametrize(
    ("name", "text"),
    crossed(TEXTS, [ODD, f"{ODD}={ODD}", f"/a={ODD}", f"{ODD}=1", f"{ODD}:1", "x" * 100_000], most=30),
)
def test_no_text_of_an_option_is_a_fault_of_the_program(
    name: str, text: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, option = name.rsplit(" ", 1)
    call = (PRINTING | {"serve": "serve {}/store --port 0"})[command]
    if command in NEED_TORCH | {"profile", "run"}:
        pytest.importorskip("torch", exc_type=ImportError)
    if command == "serve":
        pytest.importorskip("fastapi")
        monkeypatch.setattr("archive.server.serving.serve", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    done = run(*call.format(*[folder] * 4).split(), option, text)
    assert done.returncode in {0, 1, 2}
    assert b"internal error" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "b = 1\n",
        "a." * 2_000 + "b = 1\n" + "\n".join(f"{'c.' * 2_000}d{at} = 1" for at in range(9)),
        "[" + "a." * 4_000 + "b]\n" + "".join(f"c{at} = 1\n" for at in range(20_000)),
        "x = {" + "a." * 20_000 + "b = 1}\n",
    ],
    ids=["one key", "many keys", "a header", "in a table"],
)
@pytest.mark.parametrize("command", ["sizes", "leaks"])
def test_settings_with_keys_of_very_many_parts_are_refused_before_they_are_read(
    command: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tomllib`` takes as many steps for a key as the square of its parts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    with mock.patch("tomllib.loads", side_effect=AssertionError("read")):
        done = run(command, ORACLES / "plain_stack.pt")
    assert (done.returncode, done.stderr) == (
        2,
        b"debug-archive: pyproject.toml: has keys of too many parts\n",
    )


@pytest.mark.parametrize(
    "kind", ["a folder", "a pipe", "a link to a folder", "a link to nothing", "a link to itself"]
)
@pytest.mark.parametrize("command", ["sizes", "leaks"])
def test_settings_that_are_no_regular_file_are_refused(
    command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passed over, they would take budgets and patterns of a folder above, or none."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    targets = {
        "a link to a folder": "below",
        "a link to nothing": "gone",
        "a link to itself": "pyproject.toml",
    }
    make = KINDS.get(kind) or (lambda path: path.symlink_to(targets[kind]))
    make(tmp_path / "pyproject.toml")
    done = run(command, ORACLES / "plain_stack.pt")
    line = f"debug-archive: {Path('..', 'pyproject.toml')}: isn't a regular file\n"
    assert (done.returncode, done.stderr.decode()) == (2, line)
