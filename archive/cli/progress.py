"""Progress on a terminal, with lines above the bar."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import one_line
from archive.cli import printing
from archive.cli.showing import showing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from rich.progress import Progress

ItemT = TypeVar("ItemT")


class Tracker:
    """A bar on standard error, if that is a terminal, and lines that do not disturb it."""

    def __init__(self, bar: Progress | None, doing: str, total: int) -> None:
        self._bar = bar
        self._doing = doing
        self._total = total

    def track(self, items: Iterable[ItemT]) -> Iterable[ItemT]:
        """The items, counted as they come."""
        if self._bar is None:
            return items
        return self._bar.track(items, total=self._total, description=self._doing)

    def write_line(self, line: str) -> None:
        """Write a line to standard output at once."""
        self._write(line, sys.stdout)

    def note(self, line: str) -> None:
        """Write a line for the person at the terminal to standard error, unless ``--quiet`` is given."""
        if not showing.quiet:
            self.print_error(line)

    def print_error(self, line: str) -> None:
        """Write a line about an error to standard error."""
        self._write(f"debug-archive: {line}", sys.stderr)

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Without the bar for the time of the block, which prints."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
            printing.flush()
        finally:
            self._bar.start()

    def _write(self, line: str, stream: TextIO) -> None:
        line = one_line(line)
        if stream.isatty() and self._bar is not None:
            from rich.text import Text  # noqa: PLC0415 (terminals only)

            self._bar.console.print(Text(line), soft_wrap=True)
        elif stream is sys.stdout:
            printing.write_line(line)
            printing.flush()
        else:
            printing.complain(f"{line}\n")


@contextmanager
def tracker(doing: str, total: int, *, as_json: bool = False) -> Iterator[Tracker]:
    """A bar for the time of the block."""
    if showing.quiet or not sys.stderr.isatty() or (as_json and sys.stdout.isatty()):
        yield Tracker(None, doing, total)
        return
    from rich.progress import Progress  # noqa: PLC0415 (terminals only)

    on_stderr = printing.console(aside=True)
    bar = Progress(console=on_stderr, transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        yield Tracker(bar, doing, total)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """What is done meanwhile, on standard error, if that is a terminal."""
    if showing.quiet or not sys.stderr.isatty():
        yield
        return
    from rich.text import Text  # noqa: PLC0415 (terminals only)

    with printing.console(aside=True).status(Text(one_line(doing))):
        yield
