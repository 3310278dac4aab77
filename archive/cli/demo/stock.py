"""Runs archives by stock PyTorch, in a process that cannot import this library, and reads its errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.cli.demo import stock_program
from archive.cli.demo.claims import check, handles_in
from archive.debuginfo.frames import ANY_FILE, LINE
from archive.debuginfo.sites import GENERATED_FILE
from archive.debuginfo.symbolicate import HIERARCHY_HEADING
from archive.failures.printed import ORIGINAL

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = 1e-5
"""The largest difference of results that different kernels of PyTorch may compute."""
# A frame's heading, then lines up to the marking, of which the last one is the marked line. A range in a
# traceback has lines of context before it, and may have more lines than one.
MARKED_LINE = re.compile(
    rf"^  {ANY_FILE}{LINE}, in [^\n]*\n"
    r"(?:(?!  File )[^\n]*\n)*?"
    r"(?P<text>[^\n]*)\n *~+ <--- HERE",
    re.MULTILINE,
)


class MarkedLine(NamedTuple):
    """A line of source that a traceback marks."""

    file: str
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.source}"


class StockRun(NamedTuple):
    """An archive's run in stock PyTorch.

    Attributes:
        difference: the largest difference from the result of eager mode; None if the shapes differ.
        error: the error's text with the bad input; "" if it does not fail.
    """

    file: str
    difference: float | None
    error: str

    def __str__(self) -> str:
        return f"{self.file:<12}as eager mode, largest difference {self.difference:.3g}"

    def facts(self) -> dict[str, object]:
        """The run for JSON."""
        hierarchy = self.error.partition(HIERARCHY_HEADING.decode())[2].partition("\n")[0]
        return {
            "file": self.file,
            "same": is_same(self.difference),
            "difference": self.difference,
            "handles": handles_in(self.error),
            "module_hierarchy": hierarchy or None,
            "lines": [line._asdict() for line in shown_lines(self.error)],
            "text": self.error,
        }


def is_same(difference: float | None) -> bool:
    """Whether results with this difference count as the same; without one, their shapes differ."""
    return difference is not None and difference <= TOLERANCE


def check_same(difference: float | None, what: str) -> None:
    """Check that a result is that of eager mode."""
    check(is_same(difference), f"{what} is that of eager mode (largest difference: {difference})")


def run_stock(folder: Path, names: list[str], calls: bytes) -> list[StockRun]:
    """Run archives in a fresh process, which has PyTorch and not this library.

    Raises:
        ClaimError: the process can import this library or fails; a result is not that of eager mode; or an
            archive does not fail with the bad input.
    """
    files = [str((folder / name).absolute()) for name in names]
    command = [sys.executable, "-I", "-W", "ignore", stock_program.__file__, *files]
    done = subprocess.run(command, input=calls, capture_output=True, check=False)  # noqa: S603 (our program)
    *_, said = ["nothing", *done.stderr.decode(errors="replace").strip().splitlines()]
    check(done.returncode == 0, f"stock PyTorch runs {' and '.join(names)} (it says: {said})")
    facts: dict[str, Any] = json.loads(done.stdout)
    check(not facts["importable"], "a stock process cannot import this library")
    runs = [
        StockRun(name, run["difference"], run["error"])
        for name, run in zip(names, facts["runs"], strict=True)
    ]
    for run in runs:
        check_same(run.difference, f"the result of {run.file} in stock PyTorch")
        check(run.error, f"{run.file} fails with a bad image")
    return runs


def shown_lines(text: str) -> list[MarkedLine]:
    """The lines of the model's source that a traceback of PyTorch marks, outermost first."""
    _, _, original = text.rpartition(ORIGINAL.decode())
    lines = [
        MarkedLine(match["file"], int(match["line"]), match["text"].strip())
        for match in MARKED_LINE.finditer(original)
    ]
    return [line for line in lines if line.file != GENERATED_FILE]
