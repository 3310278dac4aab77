"""The JSON Schemas of ``docs/schemas`` are those of what commands declare, and no command lacks one."""

from __future__ import annotations

import json

import click
import pytest
from jsonschema import ValidationError

from archive.cli.commands import group
from tests.support.documents import SCHEMAS, files_of
from tools.schemas import main


def commands(group: click.Group, before: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """All commands by name, those of groups too."""
    found: dict[str, click.Command] = {}
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                found |= commands(command, (*before, name))
            else:
                found[" ".join((*before, name))] = command
    return found


def test_the_schemas_are_as_declared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("--check") == 0, capsys.readouterr().out


def test_every_command_with_json_has_a_schema_and_no_other() -> None:
    printing = {
        name.replace(" ", "-")
        for name, command in commands(group).items()
        if any("--json" in option.opts for option in command.params)
    }
    assert printing == {path.stem for path in SCHEMAS.glob("*.json")}


WELL = {"schema": "urn:debug-archive:verify:1", "version": "1", "command": "verify", "files": []}


@pytest.mark.parametrize("wrong", [{"files": [{"file": 1}]}, {"schema": "urn:debug-archive:verify:0"}])
def test_a_document_of_another_form_is_refused(wrong: dict[str, object]) -> None:
    assert files_of(json.dumps(WELL)) == []
    with pytest.raises(ValidationError):
        files_of(json.dumps(WELL | wrong))
