"""``--limit`` gives every command that reads files the bounds of ``Limits``; forged sizes are refused."""

from __future__ import annotations

import ast
import zlib
from dataclasses import fields
from pathlib import Path
from typing import cast, get_args

import click
import pytest

from archive import LimitError, Limits
from archive.base.amounts import AMOUNT_WORDS
from archive.base.errors import Resource
from archive.cli.commands import group
from archive.cli.options import parsed_limits
from archive.container.container import Container
from archive.container.write import Member, member_from
from archive.describe.sizes.budgets import SizeBudget
from tests.support.commands import called, run
from tests.support.corpus import ORACLES
from tests.support.documents import file_of
from tests.support.halves import embedded, halves
from tests.support.tampering import packed

ROOT = Path(__file__).parents[2]
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
    assert not paths["out"].exists()
    assert run(*arguments, "--limit", "name_bytes=1", "--limit", "name_bytes=2K").returncode == 0


def test_an_error_advises_a_bound_that_there_is() -> None:
    assert get_args(Resource) == tuple(field.name for field in fields(Limits))
    calls = {
        node.args[0].value
        for path in (ROOT / "archive").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"LimitError", "errors.LimitError"}
        if isinstance(node.args[0], ast.Constant)
    }
    assert calls == set(get_args(Resource))


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_bound_has_its_name(name: str) -> None:
    assert run("inspect", MODEL, "--limit", f"{name}=4G").returncode in (0, 2)
    error = LimitError(cast("Resource", name), 1, 2)
    assert f"--limit {name}=" in str(error)
    assert error.__notes__ == [f"In Python: limits=Limits({name}=…)"]


@pytest.mark.parametrize("amount", ["10K", "10KiB", "10 kib", "10240", "10.24KB", "10240B"])
def test_bounds_and_budgets_take_the_same_units(amount: str) -> None:
    context = click.Context(group)
    limits = parsed_limits(context, context.command.params[0], (f"name_bytes={amount}",))
    assert limits.name_bytes == SizeBudget.parse(amount).most == 10_240
    assert SizeBudget.parse(f"debug=+{amount}").most == 10_240


@pytest.mark.parametrize("command", ["inspect", "sizes", "serve"])
def test_help_says_what_units_are(command: str) -> None:
    assert AMOUNT_WORDS in " ".join(called(command, "--help").stdout.split())


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("nope=1", "no bound 'nope'; available: "),
        ("entries", "expected NAME=NUMBER like memory=4G; found 'entries'"),
        ("entries=-1", "expected NAME=NUMBER"),
        ("entries=1.5X", "expected NAME=NUMBER"),
        ("entries=" + "9" * 5_000, "expected NAME=NUMBER"),
    ],
)
def test_a_bound_that_is_none_is_a_usage_error(value: str, problem: str) -> None:
    done = run("inspect", MODEL, "--limit", value)
    assert done.returncode == 2
    assert problem in " ".join(done.stderr.decode().split())
    if "nope" in value:
        assert all(field.name in done.stderr.decode() for field in fields(Limits))


# --- forged sizes


DATA = bytes(2_000_000)
STREAM = zlib.compress(DATA, 9, -15)
MOST = len(STREAM) * 1032


def archive_with(name: str, size: int, folder: Path) -> Path:
    """An archive whose record declares a size."""
    forged = Member(name, memoryview(STREAM), size, zlib.crc32(DATA), deflated=True)
    with Container.open(ORACLES / "plain_stack.ptl") as model:
        data = packed([*map(member_from, model.records.values()), forged])
    path = folder / "forged.ptl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("size", [1 << 63, MOST + 1])
@pytest.mark.parametrize(
    "options", [["inspect"], ["inspect", "--json"], ["sizes"], ["sizes", "--by", "part"]]
)
def test_a_forged_size_is_refused_with_its_place(size: int, options: list[str], tmp_path: Path) -> None:
    path = archive_with("extra/big", size, tmp_path)
    done = run(options[0], path, *options[1:])
    assert done.returncode == 2
    assert done.stdout == b"" or file_of(done.stdout)["error"]
    told = f"expected at most {MOST:,} bytes inflated of {len(STREAM):,} stored, found a header that claims"
    assert f"{path}: extra/big, byte " in done.stderr.decode()
    assert f"{told} {size:,}" in done.stderr.decode()


@pytest.mark.parametrize("command", ["inspect", "sizes"])
def test_what_deflates_best_is_listed(command: str, tmp_path: Path) -> None:
    done = run(command, archive_with("extra/big", len(DATA), tmp_path))
    assert done.returncode == 0
    assert b"2,000,000" in done.stdout


@pytest.mark.parametrize("amount", ["4\u212a", "4k\u0131b", "4\u017f", "\u0664K"])
def test_amounts_are_ascii(amount: str) -> None:
    done = run("inspect", MODEL, "--limit", f"memory={amount}")
    assert done.returncode == 2
    assert b"expected NAME=NUMBER" in done.stderr
