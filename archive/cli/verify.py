"""``debug-archive verify``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from archive.base.errors import ArchiveError
from archive.base.mapped import source_of
from archive.cli import options, printing
from archive.cli.status import Status
from archive.verbs.verify import Diagnostic, verify
from archive.verbs.verify.diagnostic import diagnostic_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive import Limits

    Results = Mapping[str, Sequence[Diagnostic]]

NEVER_HIDDEN = {"error", "not checked", "internal error"}
"""Severities that ``--quiet`` does not hide."""


@click.command("verify")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option("-q", "--quiet", is_flag=True, help="No warnings and notes.")
@options.no_map_option
@options.limit_option
@options.json_option()
def command(files: tuple[str, ...], *, quiet: bool, mapped: bool, limits: Limits, as_json: bool) -> Status:
    """Check FILES: structure, checksums, and that all debug records agree with each other.

    All problems of a file are listed, each with its place. Of a file that is no archive it is said what it
    is, and that it was not checked.

    Exit status: 0 well, 1 there is an error, 2 a file was not checked or cannot be read, 70 internal
    error.

    \b
    Examples:
      debug-archive verify model.ptl
      debug-archive verify --quiet models/*.pt
    """  # noqa: D301 (click reads the backspace)
    results, unread = _verified(files, limits, mapped=mapped)
    if quiet:
        results = {
            file: [one for one in found if one.severity in NEVER_HIDDEN] for file, found in results.items()
        }
    if as_json:
        printing.write_json(results)
    else:
        _print_lines(results)
    return _status(results, unread=unread)


def _verified(files: Sequence[str], limits: Limits, *, mapped: bool) -> tuple[Results, bool]:
    """The diagnostics of each file, and whether a file could not be read."""
    results: dict[str, list[Diagnostic]] = {}
    unread = False
    idle = len(files) == 1 or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=idle) as progress:
        task = progress.add_task("verifying", total=len(files))
        for file in files:
            try:
                results[file] = verify(source_of(file, mapped=mapped), limits=limits)
            except ArchiveError as error:  # of a file that cannot be read as a whole
                results[file] = [diagnostic_of(error)]
            except OSError as error:  # the other files are still checked
                results[file], unread = [Diagnostic("error", "", "", error.strerror or str(error))], True
            progress.advance(task)
    return results, unread


def _print_lines(results: Results) -> None:
    for file, found in results.items():
        for one in found:
            printing.write_line(f"{file}: {one.severity}: {one}")
        if not found:
            printing.write_line(f"{file}: well")


def _status(results: Results, *, unread: bool) -> Status:
    severities = {one.severity for found in results.values() for one in found}
    if "internal error" in severities:
        return Status.INTERNAL
    if unread or "not checked" in severities:
        return Status.FAILED
    return Status.FINDINGS if "error" in severities else Status.WELL
