"""Findings as SARIF 2.1.0, which code scanning of GitHub reads: a rule a kind, a result a finding.

The specification is OASIS's "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from archive.base.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
FIRST_LINE = {"startLine": 1}
"""The region of each result: models have no lines, but GitHub shows no result without one."""

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Result:
    """A finding.

    Attributes:
        rule: its kind.
        level: how it is shown.
        message: its text.
        file: the file, relative to the repository; or a URL.
        where: the record, and where in there; "" for the whole file.
    """

    rule: str
    level: Level
    message: str
    file: str
    where: str


def sarif(version: str, rules: Mapping[str, str], results: Sequence[Result]) -> dict[str, Any]:
    """A log of one run.

    Args:
        version: of this program.
        rules: kinds of findings, and a sentence about each.
        results: the findings.
    """
    numbers = {rule: number for number, rule in enumerate(rules)}
    driver = {
        "name": "debug-archive",
        "semanticVersion": version,
        "rules": [
            {"id": rule, "shortDescription": {"text": rule}, "help": {"text": text}}
            for rule, text in rules.items()
        ],
    }
    found = [_result(one, numbers[one.rule]) for one in results]
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": found}],
    }


def _result(one: Result, number: int) -> dict[str, Any]:
    uri = quote(os.fsencode(one.file), safe="/:" if is_url(one.file) else "/")
    physical = {"artifactLocation": {"uri": uri}, "region": FIRST_LINE}
    location: dict[str, Any] = {"physicalLocation": physical}
    if one.where:
        location["logicalLocations"] = [{"fullyQualifiedName": one.where}]
    message = {"text": one.message}
    return {
        "ruleId": one.rule,
        "ruleIndex": number,
        "level": one.level,
        "message": message,
        "locations": [location],
    }
