"""Every planted token stands in its file; ``leaks`` names it, ``redact`` takes it out where promised."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.canaries import FILES, planted_in, table
from tests.support.halves import joined, redacted
from tests.support.sampling import crossed, sampled
from tests.support.scanner import tokens_in
from tools import publish_table
from tools.model_data import YES
from tools.publish_table import DATA, SAMPLES

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


# --- What is left of planted tokens in redacted models: a scanner of its own finds what the table tells


def named(value: Path | str) -> str:
    return value if isinstance(value, str) else value.name


REFUSED = {"checkpoint.pt", "module.pt", "package.pt"}
"""Files that are not redacted."""
MODELS = [path for path in FILES if path.name not in REFUSED]
WAYS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "basename, no source": ({"paths": "basename", "text": "none"}, {"basename", "lines", "source", "root"}),
    "no paths, lines": ({"paths": "none", "text": "lines"}, {"basename", "none", "lines", "root"}),
    "map": ({"maps": ("/home/zquserxz/zqfolderxz=src", "/opt/cache/zqcachexz=")}, {"basename"}),
    "no source": ({"text": "none"}, {"lines", "source"}),
    "no inputs": ({"inputs": False}, {"inputs"}),
    "no extra files": ({"extra": False}, {"extra"}),
    "publish": ({"preset": "publish"}, {"basename", "lines", "source", "root", "inputs", "extra"}),
    "vendor": ({"preset": "vendor"}, {"basename", "lines", "root", "inputs"}),
}
"""Options, and what goes with them, as the table has it."""
NAMELESS = {"compiled.pt2", "effects.pt"}
NAMED = [path for path in MODELS if path.name not in NAMELESS]
"""Files whose names may go; of others ``--names`` is refused."""
FLAGS = {"compiled.pt2": {"maps": ("/opt/py=python",)}}
"""Options that a file needs besides: what compilers are told stays otherwise."""


@pytest.mark.parametrize(("path", "way"), crossed(MODELS, WAYS, most=12), ids=named)
def test_what_is_left_is_what_the_table_tells(path: Path, way: str) -> None:
    options, gone = WAYS[way]
    options = FLAGS.get(path.name, {}) | options
    out, companion, facts = redacted(path, **options)
    assert tokens_in(out).keys() == {one.token for one in planted_in(path) if one.goes not in gone}
    assert (facts.is_clean, facts.unread) == (True, ())
    assert bool(facts.refused) == (path.name == "enums.ptl")
    assert joined(out, companion) == (path.read_bytes(), True)


@pytest.mark.parametrize(
    "path", sampled(NAMED, most=7, by=[lambda path: path.suffix]), ids=lambda path: path.name
)
def test_names_go_but_for_those_that_callers_have(path: Path) -> None:
    out, companion, facts = redacted(path, preset="publish", names="hash")
    assert tokens_in(out).keys() == {one.token for one in planted_in(path) if one.why or one.goes == "none"}
    assert (facts.is_clean, facts.unread) == (True, ())
    assert joined(out, companion) == (path.read_bytes(), True)


@pytest.mark.parametrize("path", [path for path in MODELS if path not in NAMED], ids=lambda path: path.name)
def test_names_that_would_stay_are_refused(path: Path) -> None:
    out = io.BytesIO()
    with pytest.raises(archive.ArchiveError, match=r"names .* stay"):
        archive.redact(path, out, io.BytesIO(), preset="publish", names="hash")
    assert out.getvalue() == b""


def test_hashes_of_names_are_of_this_file_alone() -> None:
    codes = []
    for source in (NAMED[0], NAMED[0].read_bytes()):  # of neither the other's redaction is kept
        with archive.open(redacted(source, preset="publish", names="hash").out) as opened:
            codes.append({name for name in opened.records if name.startswith("code/")})
    assert codes[0].isdisjoint(codes[1])


# --- The table of models in ``docs/how-to/publish.md`` is what was measured, and nothing was left


def test_the_page_tells_what_was_measured() -> None:
    assert DATA.rewritten(publish_table.table(DATA.rows())) == DATA.page()


def test_every_model_had_something_and_has_nothing_left() -> None:
    found = DATA.rows()
    assert list(found) == list(SAMPLES)
    for row in found.values():
        assert int(row["paths"]) > 0
        assert (row["left"], row["same"], row["exact"]) == ("0", YES, YES)
