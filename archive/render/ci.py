"""Findings as CI systems read them: annotations beside files, and SARIF for code scanners.

An annotation is a line by which a CI shows a finding beside its file. GitHub's are workflow commands,
``::error file=model.ptl,title=over budget::debug: 3,017 bytes``. Its runner undoes the escapes here
(``ActionCommand.cs``), keeps ten annotations of a severity for a step, and 4,096 characters of each.

SARIF 2.1.0, which GitHub's code scanning reads, has a rule a kind and a result a finding. The specification
is OASIS's "Static Analysis Results Interchange Format (SARIF) Version 2.1.0". The cause of a log's failures
is a result at the model's line; GitHub knows it again by a digest of what failed, wherever its line moves.

Beyond the schema, GitHub asks of each rule ``shortDescription``, ``fullDescription`` and ``help``, of each
result a location with a line and a fingerprint, and for no more than ``MOST_RESULTS`` in a run (its page
"SARIF support for code scanning"). Without a fingerprint of ours it takes one of the line's text; findings of
models have no line, and would all be one. Editors resolve relative addresses by ``uriBaseId``: below the
folder that is open.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archive.base.digests import digest_of
from archive.base.errors import escaped
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
WINDOWS_DRIVE = re.compile(r"[A-Za-z]:(?=[\\/])")
BACKSLASH = b"\\"
MOST_RESULTS = 25_000
"""Results of a run that GitHub takes; it refuses a file with more."""
MOST_DESCRIBED = 1000
"""Characters of a rule's description."""
ROOT = "%SRCROOT%"
"""The name of the folder that relative addresses are in."""
BASES = {ROOT: {"description": {"text": "the root of the repository"}}}
LEVELS = ("error", "warning", "note")
"""From the gravest."""
FIRST_LINE = 1
"""The line of a result about a model, which has none: GitHub shows no result without one."""

AnnotationSeverity = Literal["error", "warning"]
SarifLevel = Literal["error", "warning", "note"]


class Annotation(NamedTuple):
    """What is said beside a file.

    Attributes:
        file: relative to the repository.
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
        file: the file, relative to the repository; or a URL.
        where: the record, and where in there; "" for the whole file.
        line: from 1.
        count: how often it was found.
        identity: what makes it the same in another run, wherever its line moves; by default its rule, file,
            place and message.
        logged: the log in which it was found, and the line of it; None for none.
    """

    rule: str
    level: SarifLevel
    message: str
    file: str
    where: str
    line: int = FIRST_LINE
    count: int = 1
    identity: str = ""
    logged: tuple[str, int] | None = None


def sarif(version: str, rules: Mapping[str, str], results: Sequence[SarifResult]) -> dict[str, Any]:
    """A log of one run.

    Args:
        version: of this program.
        rules: kinds of findings, and a sentence about each.
        results: the findings; of more than ``MOST_RESULTS`` the gravest.
    """
    if len(results) > MOST_RESULTS:
        results = sorted(results, key=lambda one: LEVELS.index(one.level))[:MOST_RESULTS]
    numbers = {rule: number for number, rule in enumerate(rules)}
    driver = {
        "name": "debug-archive",
        "semanticVersion": version,
        "rules": [
            {
                "id": rule,
                "shortDescription": {"text": rule},
                "fullDescription": {"text": text[:MOST_DESCRIBED]},
                "help": {"text": text},
            }
            for rule, text in rules.items()
        ],
    }
    log = [_result(result, numbers[result.rule]) for result in results]
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": BASES,
                "results": log,
            }
        ],
    }


def _result(result: SarifResult, number: int) -> dict[str, Any]:
    location = _location(result.file, result.line)
    if result.where:
        location["logicalLocations"] = [{"fullyQualifiedName": result.where}]
    made: dict[str, Any] = {
        "ruleId": result.rule,
        "ruleIndex": number,
        "level": result.level,
        "message": {"text": result.message},
        "locations": [location],
    }
    if result.count > 1:
        made["occurrenceCount"] = result.count
    words = (result.rule, result.file, result.where, result.message)
    identity = result.identity or digest_of(*(escaped(word).encode() + b"\0" for word in words)).hex()
    made["partialFingerprints"] = {"primaryLocationLineHash": identity}
    if result.logged is not None:
        made["relatedLocations"] = [{**_location(*result.logged), "message": {"text": "in the log"}}]
    return made


def _location(file: str, line: int) -> dict[str, Any]:
    artifact = {"uri": _uri(file)}
    if not (is_url(file) or artifact["uri"].startswith("file:")):
        artifact["uriBaseId"] = ROOT
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}


def _uri(file: str) -> str:
    """A path relative to the repository, or the URL of a file that lies elsewhere."""
    from urllib.parse import quote  # noqa: PLC0415 (annotations do without)

    try:
        data = os.fsencode(file)
    except UnicodeEncodeError:  # half a character, which JSON of programs may have
        data = escaped(file).encode()
    if drive := WINDOWS_DRIVE.match(file):
        return f"file:///{drive[0]}{quote(data[2:].replace(BACKSLASH, b'/'))}"
    own = quote(data, safe="/:" if is_url(file) else "/")
    return f"file://{own}" if own.startswith("/") else own
