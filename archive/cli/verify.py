"""``debug-archive verify``."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.progress import Progress

from archive.cli import common
from archive.cli.main import FAILED
from archive.report.as_json import escaped
from archive.verbs.verify import Diagnostic, verify

NEVER_HIDDEN = {"error", "not checked"}
"""What ``--quiet`` does not hide."""


@click.command("verify")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option("-q", "--quiet", is_flag=True, help="No warnings and notes.")
@common.as_json
def command(files: tuple[str, ...], *, quiet: bool, as_json: bool) -> None:
    """Check FILES: structure, checksums, and that all debug records agree with each other.

    All problems of a file are listed, each with its place. Of a file that is no archive it is said what it
    is, and that it was not checked.

    Exit status: 0 well, 1 there is an error, 2 a file was not checked or cannot be read.

    \b
    Examples:
      debug-archive verify model.ptl
      debug-archive verify --quiet models/*.pt
    """  # noqa: D301 (click reads the backspace)
    results: dict[str, list[Diagnostic]] = {}
    unread = False
    idle = len(files) == 1 or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=idle) as progress:
        task = progress.add_task("verifying", total=len(files))
        for file in files:
            try:
                findings = verify(file)
            except OSError as error:  # the other files still count
                findings, unread = [Diagnostic("error", "", "", error.strerror or str(error))], True
            results[file] = [one for one in findings if not quiet or one.severity in NEVER_HIDDEN]
            progress.advance(task)
    if as_json:
        common.write_json(results)
    for file, findings in results.items() if not as_json else ():
        for one in findings:
            common.write(escaped(f"{file}: {one.severity}: {one}\n").encode())
        if not findings:
            common.write(escaped(f"{file}: well\n").encode())
    errors = any(one.severity == "error" for found in results.values() for one in found)
    unread = unread or any(one.severity == "not checked" for found in results.values() for one in found)
    sys.exit(FAILED if unread else common.FINDINGS if errors else 0)
