"""What several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from archive.report.as_json import as_json as to_json

if TYPE_CHECKING:
    from rich.console import Console

FINDINGS = 1
UNLIMITED_WIDTH = 1 << 16
"""Columns where nobody looks at a terminal: lines stay whole, for other programs."""

as_json = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
file_argument = click.argument("file", type=click.Path(dir_okay=False))


def console() -> Console:
    """Standard output; wide enough for whole lines where it isn't a terminal."""
    from rich.console import Console  # noqa: PLC0415 (most of a start-up, and not for all output)

    return Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH, highlight=False)


def write(data: bytes) -> None:
    """Bytes to standard output, as they are."""
    sys.stdout.buffer.write(data)


def write_json(facts: object) -> None:
    """Facts as JSON to standard output."""
    write(to_json(facts).encode() + b"\n")


def note(message: str) -> None:
    """A line for the person at the terminal, on standard error."""
    click.echo(f"debug-archive: {message}", err=True)
