"""Standard output and standard error: bytes, JSON, tables, and notes for the person at the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from archive.report.as_json import as_json

if TYPE_CHECKING:
    from rich.console import Console

UNLIMITED_WIDTH = 1 << 16
"""Columns of an output that is no terminal: lines stay whole for other programs."""


def console() -> Console:
    """Standard output; wide enough for whole lines where it isn't a terminal."""
    from rich.console import Console  # noqa: PLC0415 (most of a start-up, and not for all output)

    return Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH, highlight=False)


def write(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    sys.stdout.buffer.write(data)


def write_json(facts: object) -> None:
    """Write facts as JSON to standard output."""
    write(as_json(facts).encode() + b"\n")


def note(message: str) -> None:
    """Write a line for the person at the terminal to standard error."""
    click.echo(f"debug-archive: {message}", err=True)
