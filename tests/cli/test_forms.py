"""Forms of facts: every command that has ``--json`` has ``--format``, and one document prints them all."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import click
import pytest

from archive.cli import printing
from archive.cli.commands import COMMANDS, group
from archive.cli.forms import COMMON_FORMS, ROW_FORMS
from archive.cli.showing import CSV, HTML, JSON, TEXT
from tests.support.commands import called, well
from tests.support.corpus import FIXTURES, ORACLES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROOT = FIXTURES.parent
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
        ("sizes", "--json", "--format", "table"),
        ("verify", "--json", "--sarif"),
        ("verify", "--format", "json", "--sarif"),
        ("verify", "--format", "table", "--sarif"),
    ],
    ids=" ".join,
)
def test_two_forms_are_refused(words: tuple[str, ...]) -> None:
    command, *options = words
    done = called(command, MODEL, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "are different forms: give one of them" in done.stderr


def test_a_form_may_be_asked_for_twice() -> None:
    assert well("sizes", MODEL, "--format", "table") == well("sizes", MODEL)
    assert well("sizes", MODEL, "--format", "json", "--json") == well("sizes", MODEL, "--json")


FACTS = {
    "inspect": "record",
    "verify": "severity",
    "leaks": "kind",
    "sizes": "label",
    "digest": "of",
    "diff": "level",
    "symbolicate": "count",
    "store ls": "archive_id",
    "store check": "severity",
    "run": "number",
    "profile": "module",
}
"""Commands whose facts are rows, and the second column of these."""
OTHER_FACTS = {"demo", "store rm", "store gc", "store add"}
"""Commands that print what they did."""


def test_every_command_whose_facts_are_rows_has_all_forms_of_rows() -> None:
    context = click.Context(group)
    have, others = set[str](), set[str]()
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        for path, leaf in leaves(command, name):
            options = {word: one for one in leaf.params for word in one.opts}
            if "--format" in options:
                choice = options["--format"].type
                assert isinstance(choice, click.Choice)
                forms = {*ROW_FORMS} & {*choice.choices}
                assert len(forms) in {0, len(ROW_FORMS)}
                if forms or "--output" not in options:
                    (have if forms else others).add(path)
    assert have == FACTS.keys()
    assert others <= OTHER_FACTS


COUNTS: dict[str, Callable[[dict[str, Any]], int]] = {
    "inspect": lambda one: len(one["records"]),
    "verify": lambda one: len(one["diagnostics"]) or 1,
    "leaks": lambda one: len(one["findings"]),
    "sizes": lambda one: len(one["labels"]),
    "diff": lambda one: len(one["changes"]),
    "symbolicate": lambda one: len(one["causes"]),
}
"""How many rows a file has; of other commands, one."""


@pytest.mark.parametrize("name", sorted(FACTS.keys() - {"run", "profile", "store check"}))
def test_rows_of_csv_are_those_of_json(name: str, tmp_path: Path) -> None:
    fleet, store = FIXTURES / "fleet", tmp_path / "store"
    called("store", "add", fleet, "--store", store, "--label", "1.4.2 beta")
    given: dict[str, list[object]] = {
        "diff": [MODEL, OTHER],
        "symbolicate": [fleet, "--log", fleet / "unique.log"],
        "store ls": ["--store", store],
        "verify": [MODEL, FIXTURES / "refused" / "naming.ptl"],
    }
    words = [*name.split(), *given.get(name, [MODEL])]
    first, *rows = csv.reader(io.StringIO(called(*words, "--format", "csv").stdout))
    facts = json.loads(called(*words, "--json").stdout)["files"]
    assert first[:2] == ["file", FACTS[name]]
    assert len(rows) == sum(map(COUNTS.get(name, lambda _: 1), facts)) > 0
    assert all(len(row) == len(first) for row in rows)
    if name == "store ls":
        assert {row[first.index("labels")] for row in rows} == {"1.4.2 beta"}


def test_handles_have_no_rows() -> None:
    done = called("symbolicate", MODEL, 1445, "--format", "csv")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--format csv is for logs" in done.stderr


def test_the_page_says_which_command_has_which_form() -> None:
    page = (ROOT / "docs/reference/forms.md").read_text("utf-8")
    context = click.Context(group)
    having: dict[str, set[str]] = {}
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        for path, leaf in leaves(command, name):
            for option in leaf.params:
                if "--format" in option.opts:
                    assert isinstance(option.type, click.Choice)
                    for form in option.type.choices:
                        having.setdefault(form, set()).add(path)
    listed: dict[str, set[str]] = {}
    for forms, commands in re.findall(r"^\| (`\w[\w`, -]+) \| .* \| ([^|]*) \|$", page, re.MULTILINE):
        for form in re.findall(r"`([\w-]+)`", forms):
            listed[form] = {*re.findall(r"`([\w ]+)`", commands)}
    assert listed.pop(TEXT) == listed.pop(JSON) == set()
    listed[HTML] = listed[CSV]
    assert listed == {form: having[form] for form in listed}
    assert listed.keys() == having.keys() - {TEXT, JSON}
    rows = page.partition("## Rows")[2]
    assert listed[CSV] <= {*re.findall(r"`([\w ]+)`", rows)}
