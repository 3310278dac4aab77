"""Forms of facts: every command that has ``--json`` has ``--format``, and one document prints them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from archive.cli import printing
from archive.cli.commands import COMMANDS, group
from archive.cli.forms import COMMON_FORMS
from archive.cli.showing import JSON, TEXT
from tests.support.commands import called, well
from tests.support.corpus import ORACLES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = ORACLES / "plain_stack.ptl"
OTHER = RELEASES / "torch-2.13.0" / "nested.ptl"
ASKED = [
    ["inspect", MODEL],
    ["verify", MODEL],
    ["leaks", MODEL],
    ["sizes", MODEL],
    ["digest", MODEL],
    ["diff", MODEL, OTHER],
    ["symbolicate", MODEL, 1445],
    ["shrink", MODEL, "-o", "{}/small.ptl", "--dry-run"],
    ["split", MODEL, OTHER, "-o", "{}/out", "-c", "{}/companions", "--dry-run"],
    ["store", "add", MODEL, "--store", "{}/store"],
]


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The commands below one, and itself if it has none."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from leaves(below, f"{name} {below.name}")
    else:
        yield name, command


def test_a_command_has_both_options_or_neither() -> None:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        for path, leaf in leaves(command, name):
            options = {word: one for one in leaf.params for word in one.opts}
            assert ("--json" in options) == ("--format" in options), path
            if "--format" in options:
                choice = options["--format"].type
                assert isinstance(choice, click.Choice)
                assert [TEXT, *COMMON_FORMS] == [*choice.choices][: len(COMMON_FORMS) + 1]


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_one_document_prints_the_facts_of_every_command(
    words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(printing.JsonDocument):
        def end(self, *_: object) -> None:
            printing.write_line("counted")

    given = [str(word).format(tmp_path) for word in words]
    printed = called(*given, "--format", "json").stdout
    assert printed.startswith('{\n  "schema": "urn:debug-archive:')
    if words[0] != "store":  # what is added once is the same from then on
        assert called(*given, "--json").stdout == printed
    monkeypatch.setattr(printing, "DOCUMENTS", {JSON: Counting})
    assert called(*given, "--json").stdout.endswith("counted\n")


@pytest.mark.parametrize(
    "words",
    [
        ("sizes", "--json", "--format", "csv"),
        ("sizes", "--json", "--format", "text"),
        ("verify", "--json", "--sarif"),
        ("verify", "--format", "json", "--sarif"),
        ("verify", "--format", "text", "--sarif"),
    ],
    ids=" ".join,
)
def test_two_forms_are_refused(words: tuple[str, ...]) -> None:
    command, *options = words
    done = called(command, MODEL, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "are different forms: give one of them" in done.stderr


def test_a_form_may_be_asked_for_twice() -> None:
    assert well("sizes", MODEL, "--format", "text") == well("sizes", MODEL)
    assert well("sizes", MODEL, "--format", "json", "--json") == well("sizes", MODEL, "--json")
