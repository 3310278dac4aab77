"""Commands, called as a user calls them, and what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from subprocess import CompletedProcess
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from click.testing import CliRunner, Result

from archive.check.code import UNCHECKED
from archive.cli.commands import group
from archive.cli.main import main
from tests.support.documents import file_of

if TYPE_CHECKING:
    from pathlib import Path

WELL = f"well; not looked at: {UNCHECKED}"
"""What ``verify`` says of TorchScript that is well."""


def run(*arguments: object, stdin: bytes = b"") -> CompletedProcess[bytes]:
    """The whole program ``debug-archive``, in this process: the bytes that it prints, its exit status."""
    words = ["debug-archive", *map(str, arguments)]
    with CliRunner().isolation(stdin) as (out, err, _), mock.patch.object(sys, "argv", words):
        with pytest.raises(SystemExit) as ended:
            main()
        sys.stdout.flush()
        sys.stderr.flush()
    assert isinstance(ended.value.code, int)
    return CompletedProcess(words, ended.value.code, out.getvalue(), err.getvalue())


@cache
def explained_by(folder: Path, log: bytes) -> bytes:
    """What the command prints that explains a log by the models of a folder."""
    return run("symbolicate", folder, stdin=log).stdout


def process(*arguments: object, stdin: bytes = b"") -> CompletedProcess[bytes]:
    """The same in a process of its own."""
    words = [sys.executable, "-c", "from archive.cli import main; main()", *map(str, arguments)]
    return subprocess.run(words, input=stdin, capture_output=True, check=False)


def called(*arguments: object, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(group, [*map(str, arguments)], input=stdin)


def well(*arguments: object) -> str:
    """What a command prints, which goes well."""
    done = called(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def told(*arguments: object) -> dict[str, object]:
    facts = file_of(well(*arguments, "--json"))
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


def outcomes(said: str) -> dict[str, int]:
    """How many files came to what, by the last line that is printed about several."""
    (told,) = re.findall(r"^[0-9,]+ files?: ([^;]*)", said.splitlines()[-1])
    return {kind: int(count) for count, kind in (one.split(" ", 1) for one in told.split(", "))}
