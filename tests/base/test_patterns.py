"""Patterns are compiled when they are first used, and then do what Python's own do."""

from __future__ import annotations

import re

import pytest

from archive.base.patterns import METHODS, pattern_of


def test_a_pattern_is_compiled_once_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[object]()
    monkeypatch.setattr("re._compiler.compile", lambda *given: compiled.append(given))
    late = pattern_of(rb"never compiled [0-9]")
    assert late.pattern == rb"never compiled [0-9]"
    assert not compiled
    monkeypatch.undo()
    assert late.search(b"never compiled 7")
    assert late.search == late.search


@pytest.mark.parametrize("method", METHODS)
def test_it_has_the_methods_of_a_pattern(method: str) -> None:
    late, own = (make(r"(a)(b)?", re.IGNORECASE) for make in (pattern_of, re.compile))
    given = ("x", "cABa") if method == "sub" else ("cABa",)
    found, expected = (getattr(pattern, method)(*given) for pattern in (late, own))
    if method == "finditer":
        found, expected = ([match.span() for match in matches] for matches in (found, expected))
    assert str(found) == str(expected)
    assert late.flags == own.flags
