"""What stands without an option on a command line: one meaning a command, whatever else is given or there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click
import pytest

from tests.cli.test_lost_output import commands
from tests.support.commands import called, told, well
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.documents import file_of
from tests.support.many_archives import STACK, numbered

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS = {
    **dict.fromkeys(["inspect", "verify", "leaks", "sizes", "report", "store add"], "FILE..."),
    **dict.fromkeys(["split", "join", "shrink", "restore", "redact", "migrate", "lite", "convert"], "IN..."),
    **dict.fromkeys(["store check", "store gc", "demo"], ""),
    "symbolicate": "[FILE]... [HANDLE|NODE|KERNEL|INSTRUCTION]...",
    "diff": "OLD NEW",
    "digest": "[FILE]...",
    "profile": "FILE",
    "run": "FILE",
    "help": "[COMMAND]...",
    "store get": "ID",
    "store ls": "[PATTERN]...",
    "store rm": "ID...",
    "serve": "STORE",
}
"""Files of one kind a command; what they are compared with, or written to, is an option."""
HAVE_BASE = {"sizes", "profile", "report", "run"}
HAVE_TOP = {"symbolicate", "leaks", "sizes", "diff", "profile", "run"}
FLEET = FIXTURES / "fleet"


def test_arguments_of_a_command_are_of_one_kind() -> None:
    found = {
        name: " ".join(
            one.metavar or (one.name or "").upper()
            for one in command.params
            if isinstance(one, click.Argument)
        )
        for name, command in commands().items()
    }
    assert found == ARGUMENTS
    bases = {
        name for name, one in commands().items() if any("--base" in option.opts for option in one.params)
    }
    assert bases == HAVE_BASE


def test_one_word_is_one_option_everywhere() -> None:
    options = {
        name: {
            word
            for parameter in command.params
            for word in parameter.opts
            if isinstance(parameter, click.Option)
        }
        for name, command in commands().items()
    }
    assert {name for name, words in options.items() if "-n" in words} == HAVE_TOP
    assert {name for name, words in options.items() if "--top" in words} == HAVE_TOP
    assert {name for name, words in options.items() if "--layout" in words} == {"split", "convert"}
    assert {name for name, words in options.items() if "--replace" in words} == {"redact"}  # VALUE=TEXT
    assert not [name for name, words in options.items() if "--profile" in words]


def test_0_is_for_all_causes() -> None:
    words = ["symbolicate", FLEET, "--log", FLEET / "unique.log"]
    assert called(*words, "--top", "0").stdout == called(*words, "-n", "1000").stdout
    assert "of other causes" in called(*words, "-n", "3").stdout


def test_old_and_new_are_the_same_to_diff_and_to_sizes(tmp_path: Path) -> None:
    new = tmp_path / "new.ptl"
    new.write_bytes(numbered(1))
    for one, other, status in ((STACK, new, "added"), (new, STACK, "gone")):
        changes = file_of(called("diff", one, other, "--json").stdout)["changes"]
        assert [row["status"] for row in changes if row["name"] == "extra/number"] == [status]
        facts = file_of(well("sizes", other, "--base", one, "--json"))
        assert (facts["size"], facts["base"]["size"]) == (other.stat().st_size, one.stat().st_size)


@pytest.mark.parametrize("store", [False, True])
def test_a_number_is_a_handle_whatever_files_there_are(
    store: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[object] = [ORACLES / "plain_stack.ptl", 1445]
    if store:
        well("store", "add", asked[0], "--store", "kept")
        monkeypatch.setenv("DEBUG_ARCHIVE_STORE", "kept")
        asked = [f"{told('inspect', _split(tmp_path))['prefix']}{1445:08}"]
    before = called("symbolicate", *asked)
    assert before.stderr.startswith("debug-archive: of plain_stack@" if store else "")
    assert bool(before.stderr) is store
    shutil.copy(ORACLES / "lowered_ok.ptl", str(asked[-1]))
    assert called("symbolicate", *asked).stdout == before.stdout
    assert well("symbolicate", f"./{asked[-1]}", 1295) != before.stdout


def _split(folder: Path) -> Path:
    well("split", ORACLES / "plain_stack.ptl", "-o", folder / "small.ptl")
    return folder / "small.ptl"
