"""Findings as CI systems read them: annotations beside files, and SARIF for code scanners.

An annotation is a line by which a CI shows a finding beside its file. GitHub's are workflow commands,
``::error file=model.ptl,title=over budget::debug: 3,017 bytes``. Its runner undoes the escapes here
(``ActionCommand.cs``), keeps ten annotations of a severity for a step, and 4,096 characters of each.

SARIF 2.1.0, which GitHub's code scanning reads, has a rule a kind and a result a finding. The specification
is OASIS's "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST = 10
"""Annotations of a severity that GitHub keeps for a step."""
_IN_MESSAGES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_MESSAGES, ":": "%3A", ",": "%2C"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
FIRST_LINE = {"startLine": 1}
"""The region of each result: models have no lines, but GitHub shows no result without one."""

AnnotationSeverity = Literal["error", "warning"]
SarifLevel = Literal["error", "warning", "note"]


class Annotation(NamedTuple):
    """What is said beside a file.

    Attributes:
        severity: how it is shown.
        file: relative to the repository.
        title: its heading.
        message: its text, of one line or several.
    """

    severity: AnnotationSeverity
    file: str
    title: str
    message: str

    def github(self) -> str:
        """The annotation as a workflow command of GitHub, on one line."""
        properties = (
            f"file={_escaped(self.file, _IN_PROPERTIES)},title={_escaped(self.title, _IN_PROPERTIES)}"
        )
        return f"::{self.severity} {properties}::{_escaped(self.message, _IN_MESSAGES)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


@dataclass(frozen=True, slots=True)
class SarifResult:
    """A finding.

    Attributes:
        rule: its kind.
        level: how it is shown.
        message: its text.
        file: the file, relative to the repository; or a URL.
        where: the record, and where in there; "" for the whole file.
    """

    rule: str
    level: SarifLevel
    message: str
    file: str
    where: str


def sarif(version: str, rules: Mapping[str, str], results: Sequence[SarifResult]) -> dict[str, Any]:
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
    log = [_result(result, numbers[result.rule]) for result in results]
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": log}],
    }


def _result(result: SarifResult, number: int) -> dict[str, Any]:
    from urllib.parse import quote  # noqa: PLC0415 (annotations do without)

    uri = quote(os.fsencode(result.file), safe="/:" if is_url(result.file) else "/")
    physical = {"artifactLocation": {"uri": uri}, "region": FIRST_LINE}
    location: dict[str, Any] = {"physicalLocation": physical}
    if result.where:
        location["logicalLocations"] = [{"fullyQualifiedName": result.where}]
    message = {"text": result.message}
    return {
        "ruleId": result.rule,
        "ruleIndex": number,
        "level": result.level,
        "message": message,
        "locations": [location],
    }
