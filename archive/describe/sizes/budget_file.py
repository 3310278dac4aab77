"""Budgets in a TOML file: which files have which, by globs.

    [tool.debug-archive.budgets]
    "models/*.ptl" = ["5MB", "debug=100KB"]
    "models/large/**" = "source ranges=+10KB"

A glob is relative to the folder of the TOML file; ``*`` and ``?`` stay within a folder, ``**`` is for any
number of folders. A file has the budgets of all globs that fit. Labels are kinds of bytes: those of the view
``kind``, ``debug`` for all debug info, none for the whole file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from archive.base import settings
from archive.base.errors import ArchiveError, shown
from archive.base.globs import Globs, check_amount
from archive.base.urls import is_url
from archive.describe.sizes.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUDGETS: settings.TableName = "budgets"


@dataclass(frozen=True, slots=True)
class Rule:
    """A budget for all files that a glob fits.

    Attributes:
        glob: relative to the folder of the TOML file.
        place: the TOML file, and where in there it stands.
        budget: the budget.
    """

    glob: str
    place: str
    budget: Budget


@dataclass(frozen=True)
class BudgetFile:
    """The budgets of a TOML file.

    Attributes:
        path: of the TOML file.
        rules: in its order.
    """

    path: str
    rules: Sequence[Rule]

    @classmethod
    def nearest(cls) -> BudgetFile | None:
        """The budgets of the nearest ``pyproject.toml`` that has some: here, or in a folder above.

        Raises:
            ArchiveError: one on the way is no TOML, or its budgets are none.
            OSError: one on the way cannot be read.
        """
        table = settings.nearest(BUDGETS)
        return cls(table.path, list(_rules(table))) if table else None

    @classmethod
    def read(cls, path: str) -> BudgetFile:
        """The budgets of a TOML file.

        Raises:
            ArchiveError: it is no TOML, or has no budgets, or what stands there is none.
            OSError: it cannot be read.
        """
        return cls(path, list(_rules(settings.read(path, BUDGETS))))

    @property
    def folder(self) -> Path:
        """The folder that globs are relative to, without links."""
        return Path(os.path.realpath(Path(self.path).parent))

    def rules_of(self, file: str | Path) -> list[Rule]:
        """The rules for a file; none for one that is not below the folder, or elsewhere."""
        if is_url(file):
            return []
        place = Path(os.path.realpath(Path(file).parent), Path(file).name)
        if not place.is_relative_to(self.folder):
            return []
        fitting = self._globs.fitting(place.relative_to(self.folder).parts)
        return [self.rules[number] for number in sorted(fitting)]

    def idle(self) -> list[str]:
        """The places of globs that fit no file below the folder."""
        idle = set(range(len(self.rules)))
        for path, fitting in self._globs.found(self.folder):
            if not fitting.isdisjoint(idle) and Path(path).is_file():
                idle -= fitting
            if not idle:
                break
        globs = dict.fromkeys(self.rules[number].glob for number in sorted(idle))
        return [_place(self.path, glob) for glob in globs]

    @cached_property
    def _globs(self) -> Globs:
        return Globs(PurePosixPath(rule.glob).parts for rule in self.rules)


def _rules(table: settings.Table) -> Iterator[Rule]:
    """The rules of a table.

    Raises:
        ArchiveError: a glob leads out of the folder, or there are too many, or there is no budget where one
            should be.
    """
    check_amount(list(table.values), f"{table.path}: {settings.header(BUDGETS)}")
    for glob, budgets in table.values.items():
        parts = PurePosixPath(glob)
        if not parts.parts or parts.is_absolute() or ".." in parts.parts:
            raise ArchiveError(file=_place(table.path, glob), expected="a glob below the folder of this file")
        texts = budgets if isinstance(budgets, list) else [budgets]
        for number, text in enumerate(texts, 1):
            place = _place(table.path, glob) + (f", item {number}" if isinstance(budgets, list) else "")
            yield Rule(glob, place, _budget(place, text))


def _place(path: str, glob: str) -> str:
    return f"{path}: {settings.header(BUDGETS)}, {shown(glob)}"


def _budget(place: str, text: object) -> Budget:
    if not isinstance(text, str):
        raise ArchiveError(file=place, expected='text like "debug=100KB"', found=shown(text))
    try:
        return Budget.parse(text)
    except ValueError as error:
        raise ArchiveError(str(error), file=place) from None
