"""Comments and docstrings stand where they belong: none is left over from what was moved."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for room in ("archive", "tests", "tools") for path in (ROOT / room).rglob("*.py"))
SAID_OF = (ast.Assign, ast.AnnAssign, ast.AugAssign)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node, and what consists of statements in it: expressions hold none."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(inner)


def left_over(text: str) -> list[int]:
    """The lines of strings that document nothing, and of comments in which two others were joined."""
    found = []
    for node in statements(ast.parse(text)):
        body = getattr(node, "body", [])
        for at, one in enumerate(body if isinstance(body, list) else []):
            if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)):
                continue
            before = body[at - 1] if at else None
            own = before is None and isinstance(node, DOCUMENTED)
            follows = isinstance(before, SAID_OF) and before.end_lineno == one.lineno - 1
            if isinstance(one.value.value, str) and not own and not follows:
                found.append(one.lineno)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline) if "# #" in text else ()
    found += [one.start[0] for one in tokens if one.type == tokenize.COMMENT and one.string.startswith("# #")]
    return found


def test_no_docstring_or_comment_is_left_over() -> None:
    assert len(FILES) > 1000
    places = {str(path.relative_to(ROOT)): left_over(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path: lines for path, lines in places.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""Of the module."""\nA = 1\n"""Of A."""\n', []),
        ('A = 1\n"""Of A."""\n"""Of what was here."""\n', [3]),
        ('A = 1\n\n"""Of what was here."""\n', [3]),
        ("# # Joined # here\nA = 1\n", [1]),
        ('A = "# # in a text"\n', []),
    ],
)
def test_what_is_left_over_is_seen(text: str, lines: list[int]) -> None:
    assert left_over(text) == lines
