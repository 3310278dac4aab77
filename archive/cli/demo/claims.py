"""What both demos are made of: steps that have been done, and claims, checked before they are printed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import archive
from archive.base.quick_dataclass import dataclass
from archive.failures.explainer import LogExplainer
from archive.failures.printed import HANDLES_NOT_FOUND
from archive.render.fitted_table import lines_of
from archive.render.making import Sized, split_text

if TYPE_CHECKING:
    from pathlib import Path

    from archive.reader.halves.kept import HandleChoice
    from archive.render.fitted_table import Printed

TEXT_WIDTH = 100
"""Columns of a step's tables, wherever they are printed."""


class ClaimError(Exception):
    """A claim of the demo does not hold."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    """A step that has been done."""

    name: str
    title: str
    text: str
    facts: dict[str, object]


def check(holds: object, claim: str) -> None:
    """Check a claim."""
    if not holds:
        raise ClaimError(f"this does not hold: {claim}")


def handles_in(text: str) -> list[int]:
    """The debug handle that the lite interpreter names when it has no debug info, if it names one."""
    printed = HANDLES_NOT_FOUND.search(text.encode())
    return [int(printed["joined"] or printed["single"])] if printed else []


def table(printed: Printed) -> str:
    """The text of tables and lines."""
    lines = ("".join(text for text, _ in line).rstrip() for line in lines_of(printed, TEXT_WIDTH))
    return "\n".join(lines)


def split_step(
    folder: Path,
    file: str,
    out: str,
    companion: str,
    title: str,
    *,
    handles: HandleChoice | None = None,
    force: bool,
) -> DemoStep:
    """Split the debug info off, as ``debug-archive split`` does and prints it."""
    names = (file, out, companion)
    made = archive.split(*(folder / name for name in names), handles=handles, force=force)
    check(made.exact, f"{out} and {companion} make {file} again")
    sizes = map(Sized, names, (made.size, made.out_size, made.companion_size))
    facts = asdict(made) | {"device": str(folder / out), "companion": str(folder / companion)}
    return DemoStep("split", title, table(split_text(made, *sizes)), facts)


def explained(companion: Path, log: bytes) -> str:
    """A log of one failure, explained by a companion; "" where it is not."""
    with archive.open(companion) as opened:
        explainer = LogExplainer.of(opened)
        said = b"".join(explainer.explain([log])).decode()
    return said if (explainer.explained, explainer.unknown) == (1, 0) else ""
