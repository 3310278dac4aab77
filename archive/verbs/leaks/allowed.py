"""Texts that may be in a file: patterns, and those that a project keeps in a TOML file.

[tool.debug-archive.leaks]
allow = ["/opt/*", "URL=https://example.com/*"]
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.verbs import settings
from archive.verbs.leaks.kinds import LeakKind

if TYPE_CHECKING:
    from archive.verbs.leaks.findings import Finding

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


def allows(pattern: str, finding: Finding) -> bool:
    """Whether a pattern fits a finding."""
    kind, equals, rest = pattern.partition("=")
    if equals and kind in set(LeakKind):
        return kind == finding.kind and fnmatchcase(finding.text, rest)
    return fnmatchcase(finding.text, pattern)
