"""Every planted token stands in its file, and ``leaks`` names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.scanner import tokens_in
from tests.support.tokens import FILES, planted_in, table

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT_CODE = {"checkpoint.pt", "module.pt", "package.pt"}
COUNTED = {str(kind) for kind in archive.LeakKind if kind.counts}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_table_is_true(path: Path) -> None:
    found = tokens_in(path.read_bytes())
    assert found.keys() == {one.token for one in planted_in(path)}
    for one in planted_in(path):
        assert bool(one.goes) != bool(one.why), "it goes, or is told why it stays"


def test_tokens_of_all_kinds_that_tell_of_people_and_sources_are_planted() -> None:
    kinds = {"home path", "other path", "user name", "e-mail address", "URL", "source text", "comment"}
    assert {one.kind for one in table()} & COUNTED == {*kinds, "sample inputs", "extra file"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_leaks_names_every_token_of_a_kind(path: Path) -> None:
    found = archive.leaks(path)
    texts = {str(kind): {one.text for one in found.findings if one.kind is kind} for kind in archive.LeakKind}
    missed = [
        one
        for one in planted_in(path)
        if one.kind and not any(one.token in text or text == one.place for text in texts[one.kind])
    ]
    assert missed == []
    assert found.problems == ()


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.name not in WITHOUT_CODE], ids=lambda path: path.name
)
def test_they_are_well_but_for_enums_which_the_lite_interpreter_refuses(path: Path) -> None:
    errors = [str(one) for one in archive.verify(path) if one.severity == "error"]
    assert all("a member of the enum" in one for one in errors)
    assert bool(errors) == (path.name == "enums.ptl")
