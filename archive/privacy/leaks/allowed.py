"""Texts that may be in a file: patterns, and those that a project keeps in a TOML file.

[tool.debug-archive.leaks]
allow = ["/opt/*", "URL=https://example.com/*"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import settings
from archive.base.errors import ArchiveError, shown
from archive.base.globs import check_amount, wild
from archive.privacy.leaks.kinds import LeakKind

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from archive.privacy.leaks.findings import Finding

KEY = "allow"


def project_patterns(config: str | None = None) -> list[str]:
    """The patterns of a TOML file; without one, those of the nearest ``pyproject.toml`` that has some.

    Raises:
        ArchiveError: a file is no TOML, has no such table, or something else stands in there.
        OSError: a file cannot be read.
    """
    table = settings.read(config, "leaks") if config else settings.nearest("leaks")
    if table is None:
        return []
    place = f"{table.path}: {settings.header('leaks')}"
    if set(table.values) != {KEY}:
        raise ArchiveError(file=place, expected=KEY, found=shown(list(table.values)))
    patterns = table.values[KEY]
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise ArchiveError(file=f"{place}, {KEY}", expected="a list of texts", found=shown(patterns))
    return patterns


class Allowed:
    """Patterns of texts that may be in a file, each read once.

    Args:
        patterns: of texts; with a kind and ``=`` before it, of findings of that kind alone.

    Raises:
        ArchiveError: they are too many, or too long.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        check_amount(patterns, "allowed texts")
        self._patterns = [_parsed(pattern) for pattern in dict.fromkeys(patterns)]

    def allows(self, finding: Finding) -> bool:
        """Whether a pattern fits a finding."""
        return any(
            kind in (None, finding.kind) and wanted.match(finding.text) for kind, wanted in self._patterns
        )


def _parsed(pattern: str) -> tuple[str | None, re.Pattern[str]]:
    """The kind of findings that a pattern is for, None for all; and the texts."""
    kind, equals, rest = pattern.partition("=")
    return (kind, wild(rest)) if equals and kind in set(LeakKind) else (None, wild(pattern))
