"""``--limit`` gives every command that reads files the bounds of ``Limits``, by their names."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from archive import LimitError, Limits
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.halves import embedded, halves

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ORACLES / "plain_stack.ptl"
COMMANDS = {
    "inspect": "inspect {model}",
    "symbolicate": "symbolicate {model} 1445",
    "log": "symbolicate {model}",
    "verify": "verify {model}",
    "sizes": "sizes {model}",
    "split": "split {model} -o {out}",
    "join": "join {left} -c {companion} -o {out}",
    "shrink": "shrink {model} -o {out}",
    "restore": "restore {embedded} -o {out}",
    "migrate": "migrate {model} -o {out} --to 1.9 --lossy",
    "dry run": "migrate {model} -o {out} --to 1.9 --lossy --dry-run",
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=list(COMMANDS))
def test_every_command_that_reads_takes_bounds(words: str, tmp_path: Path) -> None:
    left, companion, _ = halves(MODEL)
    contents = {
        "model": MODEL.read_bytes(),
        "left": left,
        "companion": companion,
        "embedded": embedded(MODEL)[0],
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    paths = {name: tmp_path / name for name in [*contents, "out"]}
    arguments = words.format(**paths).split()
    refused = run(*arguments, "--limit", "name_bytes=1")
    assert refused.returncode == (1 if arguments[0] == "verify" else 2)
    told = refused.stdout + refused.stderr
    assert b"name_bytes is limited to 1, found " in told
    assert b"if you trust the file: --limit name_bytes=" in told
    assert "or Limits(name_bytes=…)".encode() in told
    assert not paths["out"].exists()
    assert run(*arguments, "--limit", "name_bytes=1", "--limit", "name_bytes=2K").returncode == 0


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_bound_has_its_name(name: str) -> None:
    assert run("inspect", MODEL, "--limit", f"{name}=4G").returncode in (0, 2)
    told = str(LimitError(name, 1, 2))
    assert f"--limit {name}=" in told
    assert f"Limits({name}=…)" in told


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("nope=1", "no bound 'nope'; there are: "),
        ("entries", "expected NAME=NUMBER like memory=4G; found 'entries'"),
        ("entries=-1", "expected NAME=NUMBER"),
        ("entries=1.5G", "expected NAME=NUMBER"),
        ("entries=" + "9" * 5_000, "expected NAME=NUMBER"),
    ],
)
def test_a_bound_that_is_none_is_a_usage_error(value: str, problem: str) -> None:
    done = run("inspect", MODEL, "--limit", value)
    assert done.returncode == 2
    assert problem in " ".join(done.stderr.decode().split())
    if "nope" in value:
        assert all(field.name in done.stderr.decode() for field in fields(Limits))
