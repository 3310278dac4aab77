"""A terminal obeys no foreign text; a file and a pipe get it to the byte. File names are always escaped."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from click.testing import CliRunner

import archive
from archive.base.errors import for_terminal
from archive.cli import main
from archive.container.write import new_member
from archive.formats.record_kinds import kind_of
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.tampering import PLAIN, packed, tampered
from tests.support.terminals import terminal

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ORACLES / "plain_stack.ptl"
HANDLE = 1445
OBEYED = "\x07\x08\r\x1b[2J\x7f\x85\x9b31m\u061c\u200b\u200e\u2028\u2029\u202e\u2066\ufeff\U000e0041"
"""One character at least of each kind that a terminal obeys or hides."""
FORGED = os.fsdecode(b"a\nwell\x1b[2J\xe2\x80\xae\xff.ptl")
"""A file name: a line end, a sequence that clears the screen, an override of direction, no UTF-8."""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""Sequences of rich's own: bold and plain."""
WIDE = "1000"
"""Columns: what is wrapped begins a line anywhere, also at a word of a long path."""
LINE = b"            x = self.blocks(x)"
HOSTILE_LINE = "\x1b[2J\x9b31m\u202e\u2028\x07\x7f\r\u200b".encode().ljust(len(LINE))
LOG = b"\x1b]0;title\x07\x9b Debug info for handle(s): debug_handles:{%d}, was not found.\n" % HANDLE


def hostile_model() -> bytes:
    """A model whose source, and one of whose records' names, drive a terminal."""

    def changed(record: bytes) -> bytes:
        assert record.count(LINE) == 1
        return record.replace(LINE, HOSTILE_LINE)

    return tampered(MODEL, {f"{PLAIN}.debug_pkl": changed, f"extra/{OBEYED}": b"1"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the model, alone and in a folder, and with a zip that is no archive; names are forged."""
    (tmp_path / "many").mkdir()
    for path in (tmp_path / FORGED, tmp_path / "many" / FORGED):
        path.write_bytes(hostile_model())
    (tmp_path / f"zip{FORGED}").write_bytes(packed([new_member(f"extra/{OBEYED}", b"1")], OBEYED.strip()))
    return tmp_path


def on_terminal(*arguments: object, stdin: bytes = b"") -> str:
    """All that a command prints where standard output is a terminal, without styles."""
    return STYLE.sub("", styled(*arguments, stdin=stdin))


def styled(*arguments: object, stdin: bytes = b"") -> str:
    """The same with styles."""
    with terminal() as seen, CliRunner().isolation(stdin) as (_, err, _):
        with (
            open(seen.file, "w", encoding="utf-8", closefd=False) as stdout,
            mock.patch.dict(os.environ, COLUMNS=WIDE),
            mock.patch.object(sys, "stdout", stdout),
            mock.patch.object(sys, "argv", ["debug-archive", *map(str, arguments)]),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        sys.stderr.flush()
        said = err.getvalue()
    assert ended.value.code in (0, 1, 2), said
    return seen.shown.decode() + said.decode()


COMMANDS = {
    "inspect": "inspect {model}",
    "json": "inspect {model} --json",
    "effects": "inspect {model} --effects",
    "listing": "inspect {zip}",
    "unread": "inspect {none}",
    "verify": "verify {model} {zip} {none}",
    "sizes": "sizes {model} --by record",
    "sources": "sizes {model} --by source",
    "difference": "sizes {model} {zip} --by record",
    "budget": "sizes {model} --budget 1B",
    "handles": "symbolicate {model} 1445 1446 9",
    "one handle": "symbolicate {model} 1445",
    "position": "symbolicate {model} --at {plain}:301 --at {plain}:999999",
    "log": "symbolicate {model}",
    "split": "split {model} -o {out}",
    "split many": "split {many} -o {out}",
    "split as json": "split {many} -o {out} --json",
    "shrink": "shrink {model} -o {out}",
    "shrink many": "shrink {many} -o {out}",
    "migrate": "migrate {model} -o {out} --to 1.9",
    "dry run": "migrate {model} -o {out} --to 1.9 --lossy --dry-run",
    "dry run of many": "migrate {many} -o {out} --to 1.9 --lossy --dry-run",
    "migrate many": "migrate {many} -o {out} --to 1.9",
    "restore": "restore {model} -o {out}",
    "join": "join {model} -c {none} -o {out}",
    "convert": "convert {model} -o {out} --layout packed",
    "inspect many": "inspect {many} {none}",
    "inspect many as json": "inspect {many} {none} --json",
    "verify many": "verify {many} {none}",
    "sizes of many": "sizes {many} {none} --budget 1B",
    "annotations": "verify {model} {zip} {none} --annotations github",
    "usage": "demo {model}",
}
"""Commands in each way in which they print."""


def words_of(command: str, folder: Path) -> list[str]:
    paths = {
        "model": folder / FORGED,
        "zip": folder / f"zip{FORGED}",
        "none": folder / f"none{FORGED}",
        "out": folder / f"out{FORGED}",
        "many": folder / "many",
        "plain": PLAIN,
    }
    return [word.format(**paths) for word in COMMANDS[command].split()]


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_foreign_drives_a_terminal_or_forges_a_line(command: str, folder: Path) -> None:
    said = on_terminal(*words_of(command, folder), stdin=LOG)
    assert said
    driving = {one for one in said if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {
        "\n",
        "\t",
    }
    assert not driving
    assert not any(line.startswith("well") for line in said.splitlines())


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"one handle", "handles", "position", "log"}))
def test_names_are_escaped_in_files_and_pipes_too(command: str, folder: Path) -> None:
    done = run(*words_of(command, folder), stdin=LOG)
    said = (done.stdout + done.stderr).decode()
    assert not any(line.startswith("well") for line in said.splitlines())
    if "json" not in command:
        assert all(line.isprintable() for line in said.split("\n"))
    shown = re.findall(r"\\u202e(.{4})\.ptl", said)
    assert set(shown) <= {r"\xff"}, "a byte of no UTF-8 is shown in one way"


def test_source_text_goes_into_pipes_to_the_byte(folder: Path) -> None:
    done = run("symbolicate", folder / FORGED, HANDLE)
    assert HOSTILE_LINE.rstrip() in done.stdout
    done = run("symbolicate", folder / FORGED, stdin=LOG)
    assert HOSTILE_LINE.rstrip() in done.stdout
    assert done.stdout.startswith(b"\x1b]0;title\x07\x9b ")


def test_json_on_a_terminal_is_the_json_of_a_pipe(folder: Path) -> None:
    words = ["symbolicate", folder / FORGED, HANDLE, "--json"]
    assert json.loads(on_terminal(*words)) == json.loads(run(*words).stdout)


def test_every_kind_of_character_that_a_terminal_obeys_is_escaped() -> None:
    assert for_terminal("é\t模型\n \u0301") == "é\t模型\n \u0301"
    said = for_terminal(OBEYED + "\udcff")
    assert said.isascii()
    assert said.isprintable()
    assert said == (
        r"\x07\x08\r\x1b[2J\x7f\x85\x9b31m\u061c\u200b\u200e\u2028\u2029\u202e\u2066\ufeff\U000e0041\xff"
    )


def test_the_kinds_of_debug_records_alone_are_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with archive.open(MODEL) as opened:
        kinds = {kind_of(name) for name in opened.records}
    shown = styled("inspect", MODEL)
    bold = {found.strip() for found in re.findall(r"\x1b\[1m([^\x1b]+)\x1b\[0m", shown)}
    assert {str(kind) for kind in kinds} & bold == {str(kind) for kind in kinds if kind.is_debug} != set()
