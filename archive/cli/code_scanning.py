"""``--sarif``: findings as code scanners read them, of commands that find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive import __version__
from archive.cli import printing
from archive.cli.annotations import in_repository
from archive.report.sarif import Result, sarif

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.batches.reading import Listed
    from archive.report.sarif import Level

sarif_option = click.option(
    "--sarif", "as_sarif", is_flag=True, help="Print findings as SARIF 2.1.0, for code scanners."
)


def refuse_two_forms(*, as_sarif: bool, as_json: bool) -> None:
    """Refuse ``--sarif`` beside ``--json``.

    Raises:
        UsageError: both are given.
    """
    if as_sarif and as_json:
        raise click.UsageError("--sarif is JSON of another form: give one of both")


def result_of(file: Listed, rule: str, level: Level, message: str, where: str = "") -> Result:
    """A finding about a file, whose path is relative to the repository and has no password."""
    return Result(rule, level, message, in_repository(file.label), where)


def write_sarif(rules: Mapping[str, str], results: Sequence[Result]) -> None:
    """Write the findings of a run to standard output.

    Raises:
        OSError: standard output cannot be written.
    """
    printing.write_json(sarif(__version__, rules, results))
