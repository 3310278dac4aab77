"""What is left of planted tokens in redacted models: a scanner of its own finds what the table tells."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.scanner import tokens_in
from tests.support.tokens import FILES, planted_in

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {"checkpoint.pt", "module.pt", "package.pt"}
"""Files that are not redacted."""
MODELS = [path for path in FILES if path.name not in REFUSED]
WAYS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "basename, no source": ({"paths": "basename", "text": "none"}, {"basename", "lines", "source", "root"}),
    "no paths, lines": ({"paths": "none", "text": "lines"}, {"basename", "none", "lines", "root"}),
    "map": ({"maps": ["/home/zquserxz/zqfolderxz=src", "/opt/cache/zqcachexz="]}, {"basename"}),
    "no source": ({"text": "none"}, {"lines", "source"}),
    "no inputs": ({"inputs": False}, {"inputs"}),
    "no extra files": ({"extra": False}, {"extra"}),
    "publish": ({"preset": "publish"}, {"basename", "lines", "source", "root", "inputs", "extra"}),
    "vendor": ({"preset": "vendor"}, {"basename", "lines", "root", "inputs"}),
}
"""Options, and what goes with them, as the table has it."""
FLAGS = {"compiled.pt2": {"maps": ["/opt/py=python"]}}
"""Options that a file needs besides: what compilers are told stays otherwise."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_what_is_left_is_what_the_table_tells(path: Path, way: str) -> None:
    options, gone = WAYS[way]
    options = FLAGS.get(path.name, {}) | options
    out, companion = io.BytesIO(), io.BytesIO()
    facts = archive.redact(path, out, companion, **options)
    assert tokens_in(out.getvalue()).keys() == {one.token for one in planted_in(path) if one.goes not in gone}
    assert (facts.left, facts.unread) == ((), ())
    assert bool(facts.refused) == (path.name == "enums.ptl")
    back = io.BytesIO()
    assert archive.join(out.getvalue(), companion.getvalue(), back).exact
    assert back.getvalue() == path.read_bytes()
