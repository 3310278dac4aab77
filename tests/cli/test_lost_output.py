"""What a command prints has arrived, or its status says that it has not: every command, buffered or not."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import click
import pytest

from archive.cli.commands import group
from archive.cli.main import main
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.sampling import crossed, sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FULL = Path("/dev/full")
MODEL = ORACLES / "plain_stack.ptl"
needs_full = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is always full")
NO_SPACE = b"debug-archive: standard output: No space left on device\n"
BUFFERS = pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])

PRINTING = {
    "inspect": f"inspect {MODEL}",
    "symbolicate": f"symbolicate {MODEL} 1445",
    "verify": f"verify {MODEL}",
    "leaks": f"leaks {MODEL}",
    "sizes": f"sizes {MODEL}",
    "report": f"report {MODEL} -o {{}}/report.html --force",
    "diff": f"diff {MODEL} {ORACLES}/plain_unicode.ptl",
    "digest": f"digest {MODEL}",
    "split": f"split {MODEL} -o {{}}/out.ptl -c {{}}/out.ptdbg",
    "join": "join {}/small.ptl -c {}/model.ptdbg -o {}/out.ptl",
    "shrink": f"shrink {MODEL} -o {{}}/out.ptl",
    "restore": "restore {}/embedded.ptl -o {}/out.ptl",
    "redact": f"redact {MODEL} -o {{}}/out.ptl -c {{}}/out.ptdbg --paths basename --partial",
    "migrate": f"migrate {MODEL} -o {{}}/out.ptl --to 1.9 --lossy",
    "lite": f"lite {ORACLES}/plain_stack.pt -o {{}}/out.ptl",
    "profile": "profile {}/profile.json",
    "run": f"run {ORACLES}/plain_stack.pt --input 3x4",
    "store add": "store add {}/model.ptdbg --store {}/new",
    "store check": "store check --store {}/store",
    "store gc": "store gc --store {}/store",
    "store get": "store get plain_stack --store {}/store -o {}/out.ptdbg --json",
    "store ls": "store ls --store {}/store",
    "store rm": "store rm plain_stack --store {}/store",
    "convert": "convert {}/model.ptdbg -o {}/out.ptdbg --layout mapped",
    "help": "help split",
    "demo": "demo --backend -o {}/demo",
}
"""A call of each command that prints something; ``serve`` prints its help alone."""
FURTHER = {
    "a log": f"symbolicate {MODEL}",
    "causes": f"symbolicate {MODEL} --top 3",
    "causes, --json": f"symbolicate {MODEL} --top 3 --json",
    "many files": f"verify {MODEL} {MODEL} -j 2",
    "many files made": "split {}/models -o {}/out -c {}/out",
    "--sarif": f"verify {MODEL} --sarif",
    "annotations": f"verify {FIXTURES}/refused/naming.ptl --annotations github",
    "a file": f"shrink {MODEL} -o -",
    "a file, --json": f"shrink {MODEL} -o - --json",
    "a companion": "store get plain_stack --store {}/store -o -",
    "a dry run": f"migrate {MODEL} -o {{}}/out.ptl --to 1.9 --lossy --dry-run",
    "all commands": "--help",
    "the version": "--version",
}
"""Other ways to print."""


def commands(node: click.Command = group, name: str = "") -> dict[str, click.Command]:
    """All commands that are no groups, by the words that name them."""
    if not isinstance(node, click.Group):
        return {name: node}
    names = node.list_commands(click.Context(node))
    below = [(node.get_command(click.Context(node), one), f"{name} {one}".strip()) for one in names]
    return {words: found for one, at in below if one for words, found in commands(one, at).items()}


def calls() -> dict[str, str]:
    """Each command, its help, and the same with ``--json`` where it has that."""
    found = PRINTING | FURTHER
    for name, command in commands().items():
        found[f"{name} --help"] = f"{name} --help"
        has_json = any("--json" in option.opts for option in command.params)
        if has_json and "--json" not in PRINTING[name]:
            found[f"{name} --json"] = f"{PRINTING[name]} --json"
    return found


CALLS = calls()
EACH_COMMAND = pytest.mark.parametrize(
    ("name", "unbuffered"),
    sampled(
        product(CALLS, [False, True]), most=28, by=[lambda one: one[0] in PRINTING and one[0], itemgetter(1)]
    ),
)
NEED_TORCH = {"lite", "lite --json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    made = tmp_path_factory.mktemp("made")
    (made / "models").mkdir()
    for name in ("a.ptl", "b.ptl"):
        (made / "models" / name).write_bytes(MODEL.read_bytes())
    for call in (
        f"split {MODEL} -o {made}/small.ptl -c {made}/model.ptdbg",
        f"shrink {MODEL} -o {made}/embedded.ptl --level embed",
        f"store add {MODEL} --store {made}/store",
    ):
        assert run(*call.split()).returncode == 0
    facts = {"backend": "TorchScript", "runs": 1, "operations": 0, "peak_bytes": 0, "total_ns": 0}
    rows: dict[str, Sequence[object]] = {"module": [], "line": [], "operator": []}
    (made / "profile.json").write_text(json.dumps(facts | rows))
    return made


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        status: its exit status.
        errors: what it wrote to standard error.
    """

    status: int
    errors: bytes


@contextmanager
def opened(target: int, *, unbuffered: bool) -> Iterator[io.TextIOWrapper]:
    """A standard stream as the interpreter opens it; it must get rid of its rest at the end, as there."""
    file = open(target, "wb", buffering=0 if unbuffered else -1)  # noqa: SIM115 (a descriptor)
    with io.TextIOWrapper(file, encoding="utf-8", write_through=unbuffered) as stream:
        yield stream


def ended(call: str, folder: Path, output: int, *, unbuffered: bool) -> Ended:
    """A command whose standard output is a descriptor."""
    words = call.format(*[folder] * 4).split()
    errors = io.TextIOWrapper(io.BytesIO())
    log = io.TextIOWrapper(io.BytesIO(b"a line\n"))
    with (
        opened(output, unbuffered=unbuffered) as stream,
        mock.patch.object(sys, "argv", ["debug-archive", *words]),
        mock.patch.multiple(sys, stdout=stream, stderr=errors, stdin=log),
        pytest.raises(SystemExit) as end,
    ):
        main()
    assert isinstance(end.value.code, int)
    assert isinstance(errors.buffer, io.BytesIO)
    return Ended(end.value.code, errors.buffer.getvalue())


def test_every_command_is_called() -> None:
    assert commands().keys() - {"serve"} == PRINTING.keys()


@pytest.fixture
def prepared(name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for what a command changes, and a demo without steps."""
    if name in NEED_TORCH:
        pytest.importorskip("torch", exc_type=ImportError)
    shutil.copytree(folder, tmp_path / "made")
    shown = mock.Mock(steps=lambda *_, **__: (), FAILURES=(), FILES=())
    monkeypatch.setattr("archive.cli.demo.command._backend_steps", lambda: shown)
    return tmp_path / "made"


@needs_full
@EACH_COMMAND
def test_what_a_full_disk_does_not_take_is_an_error_of_one_line(
    name: str, prepared: Path, *, unbuffered: bool
) -> None:
    done = ended(CALLS[name], prepared, os.open(FULL, os.O_WRONLY), unbuffered=unbuffered)
    assert done == (2, NO_SPACE)


@EACH_COMMAND
def test_what_a_closed_pipe_does_not_take_is_told_by_the_status(
    name: str, prepared: Path, *, unbuffered: bool
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert ended(CALLS[name], prepared, writer, unbuffered=unbuffered) == (141, b"")


# --- the interpreter's own end


@needs_full
@pytest.mark.parametrize(
    ("streams", "arguments", "unbuffered"),
    crossed(
        [f"> {FULL}", f"2> {FULL}", f"> {FULL} 2> {FULL}"],
        [["verify", MODEL], ["--version"], ["verify", "--help"], ["nope"]],
        [False, True],
        most=4,
    ),
)
def test_a_process_ends_so_too(streams: str, arguments: list[object], *, unbuffered: bool) -> None:
    words = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "archive", *map(str, arguments)]
    more = {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    done = subprocess.run(words, env={**os.environ, **more}, capture_output=True, check=False)
    is_well = arguments != ["nope"] and not streams.startswith(">")
    assert done.returncode == (0 if is_well else 2)
    if streams == f"> {FULL}" and arguments != ["nope"]:
        assert done.stderr == NO_SPACE


@needs_full
@pytest.mark.parametrize(("more", "unbuffered"), crossed([[], ["--json"]], [False, True], most=2))
def test_facts_that_standard_error_does_not_take_are_an_error(more: list[str], *, unbuffered: bool) -> None:
    words = ["sh", "-c", f'exec "$@" 2> {FULL}', "sh", sys.executable, "-m", "archive", "shrink", str(MODEL)]
    variables = {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    done = subprocess.run(
        [*words, "-o", "-", *more], env={**os.environ, **variables}, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == run("shrink", MODEL, "-o", "-").stdout
