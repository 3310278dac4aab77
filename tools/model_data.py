"""What was measured of models: a file of rows, and the part of a page that is made of it.

A row is what was measured of one model, text by column; the column ``model`` has its name. Models of packages
that are not installed are not measured again: their rows stay.
"""

from __future__ import annotations

import csv
import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection

BEGIN, END = "<!-- models -->\n", "<!-- end of models -->\n"
"""What stands around the part of a page that is made of the data."""
YES = "yes"

Row = dict[str, str]


@dataclass(frozen=True)
class ModelData:
    """The data ``docs/NAME.tsv``, for the page ``docs/NAME.md``.

    Attributes:
        name: of both, with their folder: ``reference/lowered``.
        columns: of the data; the first one is ``model``.
        models: their names in the order of the data.
    """

    name: str
    columns: tuple[str, ...]
    models: Collection[str]

    def rows(self) -> dict[str, Row]:
        """The rows by model; none if there is no file yet."""
        path = ROOT / "docs" / f"{self.name}.tsv"
        if not path.exists():
            return {}
        with path.open(encoding="utf-8", newline="") as file:
            return {row["model"]: row for row in csv.DictReader(file, delimiter="\t")}

    def write(self, rows: dict[str, Row]) -> None:
        """Write the rows of known models."""
        with (ROOT / "docs" / f"{self.name}.tsv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.columns, delimiter="\t", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[name] for name in self.models if name in rows)

    def page(self) -> str:
        """The text of the page."""
        return (ROOT / "docs" / f"{self.name}.md").read_text(encoding="utf-8")

    def rewritten(self, part: str) -> str:
        """The text of the page with a new part."""
        before, _, rest = self.page().partition(BEGIN)
        return f"{before}{BEGIN}{part}{END}{rest.partition(END)[2]}"

    def rewrite(self, part: str) -> None:
        """Write the page with a new part."""
        (ROOT / "docs" / f"{self.name}.md").write_text(self.rewritten(part), encoding="utf-8")


def markdown(lines: list[list[str]]) -> str:
    """A table, whose second line says how columns are aligned."""
    return "".join(f"| {' | '.join(one.replace('|', chr(92) + '|') for one in line)} |\n" for line in lines)


def version_of(package: str) -> str | None:
    """The version of a package, as its release is called; None if it is not installed."""
    try:
        return importlib.metadata.version(package).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None
