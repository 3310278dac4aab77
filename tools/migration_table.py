"""The table of migrations in ``docs/how-to/releases.md``: what becomes of fixtures for each pair of releases.

python -m tools.migration_table
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import archive
from archive.base.errors import ArchiveError
from archive.debuginfo.model import RangeLayout
from archive.formats.releases import RELEASES, spanned
from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from archive.formats.releases import Release
    from archive.rewrite.migrate.plan import MigrationPlan

PAGE = ROOT / "docs" / "how-to" / "releases.md"
BEGIN, END = "<!-- migrations -->\n", "<!-- end of migrations -->\n"
TABLE = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)
LOSSES = {
    "names of operators": "names",
    "names of functions": "names",
    "source ranges and call stacks of debug handles": "stacks",
    "source ranges of lowered modules": "lowered",
    "module paths of operators": "paths",
}
LEGACY = "1.0 to 1.2"
NAMELESS = ', `File ""`'
"""Source ranges of no file print otherwise: see ``tests/rewrite/migrate/test_ranges.py``."""
SAME, EXACT, MENDED, IMPOSSIBLE = "=", "exact", "exact, mended", "impossible"


def table() -> str:
    """The table, in Markdown."""
    lines = [["from \\ to", *ERAS], ["---"] * (1 + len(ERAS))]
    lines += [[f"**{start}**", *(cell(start, end) for end in ERAS)] for start in ERAS]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def rewritten(text: str) -> str:
    """The page with a true table."""
    return TABLE.sub(lambda _: table(), text)


def shown(text: str) -> list[list[str]]:
    """The cells of a page's table: its head, then its rows."""
    (found,) = TABLE.findall(text)
    head, _, *rows = ([one.strip("|* ") for one in line.split(" | ")] for line in found.splitlines())
    return [head, *rows]


def _name(release: Release) -> str:
    """``1.12 to 2.0``."""
    return spanned(release.first, release.last).replace(" or later", " on")


ERAS = {LEGACY: RELEASES[0], **{_name(one): one for one in RELEASES if not one.legacy}}
"""The releases that migrations are the same for, by what the table calls them."""


def _archives(release: Release) -> list[Path]:
    """Those of the newest of some releases that there are fixtures of."""
    folders = (ROOT / "fixtures" / "releases").glob("torch-*")
    chosen = max((one for one in folders if release.first <= _number(one) <= release.last), key=_number)
    return sorted(chosen.glob("*.pt*"))


def _number(folder: Path) -> tuple[int, int]:
    major, minor = folder.name.removeprefix("torch-").split(".")[:2]
    return int(major), int(minor)


def cell(first: str, second: str) -> str:
    """What becomes of all archives of some releases, on the way to others."""
    start, end = ERAS[first], ERAS[second]
    if start is end:
        return SAME
    to = ".".join(map(str, end.last))
    try:
        plans = [archive.migrate(path, to=to, dry_run=True).plan for path in _archives(start)]
    except ArchiveError as problem:
        if "model.json" not in str(problem):
            raise
        return IMPOSSIBLE
    lost = list(dict.fromkeys(LOSSES[step.what] for plan in plans for step in plan.losses))
    if lost:
        return f"lossy: {', '.join(lost)}"
    tables = [one.ranges is RangeLayout.STRING_TABLE for one in (start, end)]
    return (MENDED if _mended(plans) else EXACT) + NAMELESS * (tables[0] != tables[1])


def _mended(plans: Iterable[MigrationPlan]) -> bool:
    return any(plan.rescues for plan in plans)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
