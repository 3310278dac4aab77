"""What SARIF 2.1.0's schema (OASIS, errata 01) says of the objects that are written here.

The schema itself has 100 KB; this is the part of it that our logs touch. An object has no other properties.
"""

from __future__ import annotations

import re
from typing import Any

LEVELS = ("none", "note", "warning", "error")
URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#\[\]-]|%[0-9A-Fa-f]{2})*")
REQUIRED = {
    "log": {"version", "runs"},
    "run": {"tool"},
    "tool": {"driver"},
    "driver": {"name"},
    "rule": {"id"},
    "text": {"text"},
    "result": {"message"},
}
PROPERTIES: dict[str, dict[str, object]] = {
    "log": {"$schema": str, "version": "2.1.0", "runs": ["run"]},
    "run": {"tool": {"tool"}, "columnKind": "unicodeCodePoints", "results": ["result"]},
    "tool": {"driver": {"driver"}},
    "driver": {"name": str, "semanticVersion": str, "rules": ["rule"]},
    "rule": {"id": str, "shortDescription": {"text"}, "help": {"text"}},
    "text": {"text": str},
    "result": {
        "ruleId": str,
        "ruleIndex": int,
        "level": LEVELS,
        "message": {"text"},
        "locations": ["location"],
    },
    "location": {"physicalLocation": {"physical"}, "logicalLocations": ["logical"]},
    "physical": {"artifactLocation": {"artifact"}, "region": {"region"}},
    "artifact": {"uri": URI_REFERENCE},
    "region": {"startLine": int},
    "logical": {"fullyQualifiedName": str},
}
"""Properties of an object, and their values: a type, a constant, one of several, or text of a form; ``{x}``
is an object x, ``[x]`` a list of such."""


def check_log(log: dict[str, Any]) -> None:
    """Assert that a log is as the schema says, and that each result is of its rule."""
    _check_object(log, "log")
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert len(rules) == len(set(rules))
        assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])


def _check_object(value: object, name: str) -> None:
    assert isinstance(value, dict), name
    properties = PROPERTIES[name]
    assert set(value) <= set(properties), name
    assert set(value) >= REQUIRED.get(name, set()), name
    for key, one in value.items():
        _check(one, properties[key])


def _check(value: object, rule: object) -> None:
    match rule:
        case set():
            _check_object(value, *rule)
        case list():
            assert isinstance(value, list)
            for one in value:
                _check_object(one, *rule)
        case type():
            assert isinstance(value, rule), value
        case tuple():
            assert value in rule
        case re.Pattern():
            assert isinstance(value, str)
            assert rule.fullmatch(value), value
        case _:
            assert value == rule
