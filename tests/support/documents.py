"""Documents that ``--json`` prints: held to their schemas, and the facts in them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def files_of(document: str | bytes) -> list[Any]:
    """The facts about each file in a document, which its schema describes."""
    told = json.loads(document)
    schema_of(told["command"]).validate(told)
    files: list[Any] = told["files"]
    return files


def file_of(document: str | bytes) -> Any:  # noqa: ANN401 (JSON)
    """The facts about the only file in a document, which its schema describes."""
    (facts,) = files_of(document)
    return facts


@cache
def schema_of(command: str) -> Draft202012Validator:
    """The schema of a command's documents."""
    schema = json.loads((SCHEMAS / f"{command.replace(' ', '-')}.json").read_bytes())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
