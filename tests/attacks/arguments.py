"""Globs and patterns that ask for much: in a project's settings, and among a command's words.

The files that they are for are honest: a folder forty deep, a small archive, and a log.
"""

from __future__ import annotations

import shlex

from tests.attacks.attack import Attack
from tests.attacks.records import ONE_LINE
from tests.attacks.zips import LITE, archive_of

DEPTH = 40
MODEL = "/".join("a" * DEPTH) + "/m.ptl"
SEARCHING = ["**/" * 5, "**/" * 300, "**/a/" * 12, "**/a*/" * 100, "*a*/" * DEPTH]
"""Beginnings of globs that a search which goes back would follow in very many ways."""
LARGE = [
    "((((a{999}){999}){999}){999})",
    "a{99999999}",
    "(?:[ab]c){1,99999999}",
    "(?<=a{9999999})",
    "(?:(?:a?){999}){999}",
    "(?R)?a",
    "(a)(?1){999999}",
    "(?:abc){e<=99}",
    "(" * 300 + "a" + ")+" * 300,
    "(?V1)" + "[" * 300 + "a" + "]" * 300,
]
"""Patterns that are large, deep or without end once they are compiled."""
LARGEST = ["(?:[ab]c){2000}", "(a|ab|abc){2000}", "(?:(?:a?){40}){50}", "a{30000}"]
"""Patterns that are as large as they may be, or nearly."""


def _models(settings: str = "") -> dict[str, bytes]:
    """A model below a folder that is deep, and another one; with settings."""
    model = archive_of({**LITE, **ONE_LINE})
    files = {MODEL: model, "m.ptl": model}
    return {**files, "pyproject.toml": f"[tool.debug-archive.{settings}".encode()} if settings else files


def _budgets(globs: list[str]) -> dict[str, bytes]:
    return _models("budgets]\n" + "".join(f'"{glob}" = "5MB"\n' for glob in globs))


def _allowed(patterns: list[str]) -> dict[str, bytes]:
    return _models(f"leaks]\nallow = {patterns}\n")


def _explained_by(patterns: list[str]) -> tuple[str, ...]:
    return tuple(
        f"symbolicate m.ptl {MODEL} {option} {shlex.quote(pattern)}"
        for pattern in patterns
        for option in ("--id", "--model")
    )


LOG = (
    b"a" * 16_000 + b"\n" + b"ab" * 8_000 + b"\nDebug info for handle(s): debug_handles:{1}, was not found.\n"
)
ATTACKS = {
    "globs of folders in folders": Attack(
        "Budgets of globs with up to 300 `**`, for a file 40 folders deep.",
        lambda: _budgets(
            [f"{beginning}{end}" for beginning in SEARCHING for end in ("m.ptl", "none*", "**")]
        ),
        ("sizes .", f"sizes {MODEL}"),
    ),
    "globs as arguments": Attack(
        "The same globs, as arguments.",
        _models,
        tuple(f"inspect '{beginning}{end}'" for beginning in SEARCHING for end in ("m.ptl", "none*")),
    ),
    "100,000 globs": Attack(
        "As many budgets, each for a glob of its own.",
        lambda: _budgets([f"**/*{number}*.ptl" for number in range(100_000)]),
        ("sizes .",),
    ),
    "as many globs as may be": Attack(
        "1,000 budgets of 100,000 characters together.",
        lambda: _budgets([f"{'**/*a*/' * 13}{number:03}*.ptl"[-100:] for number in range(1_000)]),
        ("sizes .", f"sizes {MODEL}"),
    ),
    "a glob of 1 MB": Attack(
        "Budgets and allowed texts of brackets that never close, or of many `*`.",
        lambda: _budgets(["[" * 1_000_000, "a*" * 500_000]),
        ("sizes .", f"sizes {MODEL}"),
    ),
    "settings of very many parts": Attack(
        "A `pyproject.toml` of keys, headers and tables whose names have thousands of parts.",
        lambda: _models("leaks]\n" + "".join(f"{'a.' * 2_000}b{at} = 1\n" for at in range(20))),
        ("leaks m.ptl", "sizes .", "sizes m.ptl"),
        statuses=frozenset({2}),
    ),
    "allowed texts": Attack(
        "100,000 patterns of allowed texts, of all lengths.",
        lambda: _allowed([f"*{number}*a*" for number in range(100_000)]),
        ("leaks m.ptl",),
    ),
    "as many allowed texts as may be": Attack(
        "1,000 patterns of allowed texts, of 100,000 characters together.",
        lambda: _allowed([f"{'*a' * 48}{number:03}*" for number in range(1_000)]),
        ("leaks m.ptl",),
    ),
    "patterns that are large when they are compiled": Attack(
        "Counts in counts, calls of groups, approximate matches and 300 groups in one another.",
        _models,
        _explained_by(LARGE),
        LOG,
    ),
    "patterns as large as may be": Attack(
        "Patterns of nearly 50,000 steps, sought in lines of 16,000 characters.",
        _models,
        _explained_by(LARGEST),
        LOG,
    ),
}
