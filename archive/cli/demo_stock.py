"""Archives run by stock PyTorch, in a process that cannot import this library; and what PyTorch says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.cli import demo_stock_program

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = 1e-5
"""How far results may be apart where another kernel of PyTorch computes them."""
GENERATED = "<string>"
ORIGINAL_HEADING = "Traceback of TorchScript, original code"
MARKED_LINE = re.compile(
    r'^  File "(?P<file>[^"\n]*)", line (?P<number>\d+), in [^\n]*\n'
    r"(?:(?!  File )[^\n]*\n)*?"
    r"(?P<text>[^\n]*)\n *~+ <--- HERE",
    re.MULTILINE,
)
PRINTED_HANDLES = re.compile(r"Debug info for handle\(s\): debug_handles:\{([-\d,]+)\}, was not found\.")
PRINTED_HIERARCHY = re.compile(r"Module hierarchy:(.*)")


class ClaimError(Exception):
    """What was to be shown does not hold."""


class MarkedLine(NamedTuple):
    """A line of source that a traceback marks."""

    file: str
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.source}"


class StockRun(NamedTuple):
    """What stock PyTorch made of an archive.

    Attributes:
        file: the archive's name.
        difference: the largest one to the result of eager mode; None if that has another shape.
        error: what it says when it fails.
    """

    file: str
    difference: float | None
    error: str

    def __str__(self) -> str:
        return f"{self.file:<12}as eager mode, largest difference {self.difference:.3g}"

    def facts(self) -> dict[str, object]:
        """For programs."""
        handles = PRINTED_HANDLES.search(self.error)
        hierarchy = PRINTED_HIERARCHY.search(self.error)
        return {
            "file": self.file,
            "same": is_same(self.difference),
            "difference": self.difference,
            "handles": [int(one) for one in handles[1].split(",")] if handles else [],
            "module_hierarchy": hierarchy[1] if hierarchy else None,
            "lines": [line._asdict() for line in shown_lines(self.error)],
            "text": self.error,
        }


def check(holds: object, claim: str) -> None:
    """Refuse to go on where something does not hold.

    Raises:
        ClaimError: it does not.
    """
    if not holds:
        raise ClaimError(f"this does not hold: {claim}")


def is_same(difference: float | None) -> bool:
    """Whether results that differ so much are the same."""
    return difference is not None and difference <= TOLERANCE


def check_same(difference: float | None, what: str) -> None:
    """Refuse another result than that of eager mode.

    Raises:
        ClaimError: it is another one.
    """
    check(is_same(difference), f"{what} is that of eager mode (largest difference: {difference})")


def run_stock(folder: Path, names: list[str], calls: bytes) -> list[StockRun]:
    """What a fresh process says of archives that has PyTorch and not this library.

    Args:
        folder: where the archives are.
        names: theirs.
        calls: what they are called with, as :mod:`archive.cli.demo_stock_program` reads it.

    Raises:
        ClaimError: it has this library, ends badly, a result is not that of eager mode, or none fails.
    """
    files = [str((folder / name).absolute()) for name in names]
    command = [sys.executable, "-I", "-W", "ignore", demo_stock_program.__file__, *files]
    done = subprocess.run(command, input=calls, capture_output=True, check=False)  # noqa: S603 (our program)
    *_, said = ["nothing", *done.stderr.decode(errors="replace").strip().splitlines()]
    check(done.returncode == 0, f"stock PyTorch runs {' and '.join(names)} (it says: {said})")
    facts: dict[str, Any] = json.loads(done.stdout)
    check(not facts["importable"], "a stock process cannot import this library")
    runs = [
        StockRun(name, one["difference"], one["error"])
        for name, one in zip(names, facts["runs"], strict=True)
    ]
    for run in runs:
        check_same(run.difference, f"the result of {run.file} in stock PyTorch")
        check(run.error, f"{run.file} fails with a bad image")
    return runs


def shown_lines(text: str) -> list[MarkedLine]:
    """The lines of source that a traceback of PyTorch marks, outermost first; those of the original code."""
    _, _, original = text.rpartition(ORIGINAL_HEADING)
    found = [
        MarkedLine(one["file"], int(one["number"]), one["text"].strip())
        for one in MARKED_LINE.finditer(original)
    ]
    return [line for line in found if line.file != GENERATED]
