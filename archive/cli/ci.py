"""Findings for CI systems: ``--annotations``, lines that GitHub shows beside files, and ``--sarif``."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING

import click

from archive.base.digests import digest_of
from archive.base.errors import counted, escaped, one_line, several
from archive.cli import printing
from archive.io.urls import is_url
from archive.render.ci import MOST, WINDOWS_DRIVE, Annotation, SarifResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.batches.inputs import InputFile
    from archive.failures.explainer import CauseGroup
    from archive.render.ci import AnnotationSeverity, SarifLevel

GITHUB, NONE = "github", "none"
FAILURE, UNKNOWN_FAILURE = "failure", "a failure whose message is not known"
CAUSE_RULES = {FAILURE: "failures of a model in a log, which have one cause"}
"""The only kind of results that a log has."""
STANDARD_INPUT = "standard input"
"""The name of a log that has none."""
MOST_LINES = 10
"""Findings of a file that its annotation lists."""
RUNS_ON_GITHUB = "GITHUB_ACTIONS"
"""The environment variable that is ``true`` in a workflow."""
MOST_FOLDERS = 64
"""The last folders of a source file's path that are looked for in the repository."""
REPOSITORY = "GITHUB_WORKSPACE"
"""The environment variable that names the folder of the repository in a workflow."""


class Annotations:
    """The annotations of a command, which prints them after all else.

    Args:
        aside: whether they go to standard error, since standard output is JSON. GitHub reads both.
    """

    def __init__(self, *, active: bool, aside: bool) -> None:
        self._active = active
        self._aside = aside
        self._kept: dict[AnnotationSeverity, list[Annotation]] = {"error": [], "warning": []}

    def add(self, severity: AnnotationSeverity, file: str, title: str, lines: Sequence[str]) -> None:
        """Annotate a file; of many files, only the first are kept, as GitHub keeps no more."""
        if self._active and lines and len(self._kept[severity]) < MOST:
            shown = list(map(one_line, lines[:MOST_LINES]))
            if len(lines) > MOST_LINES:
                shown.append(f"… and {len(lines) - MOST_LINES:,} more, in the log")
            place = one_line(in_repository(file))
            self._kept[severity].append(Annotation(severity, place, title, "\n".join(shown)))

    @contextmanager
    def printed_last(self) -> Iterator[None]:
        """Print the annotations after the block.

        What the block prints may have names that a stranger chose, and the runner would obey ``##[command]``
        in the middle of any line. So it is asked to obey nothing until a word that nobody can know.
        """
        if not self._active or self._aside:
            yield
        else:
            import secrets  # noqa: PLC0415 (only GitHub needs it)

            word = secrets.token_hex()
            printing.write_line(f"::stop-commands::{word}")
            printing.flush()  # before anything comes on standard error
            try:
                yield
            finally:
                printing.write_line(f"::{word}::")
        for annotation in chain.from_iterable(self._kept.values()):
            if self._aside:
                printing.complain(f"{annotation.github()}\n")
            else:
                printing.write_line(annotation.github())


def in_repository(file: str) -> str:
    """A file's path relative to the repository, if it lies in there."""
    repository = os.environ.get(REPOSITORY)
    if not repository or is_url(file):
        return file
    from pathlib import Path  # noqa: PLC0415 (only GitHub needs it)

    place, top = Path(os.path.realpath(file)), os.path.realpath(repository)
    return place.relative_to(top).as_posix() if place.is_relative_to(top) else file


def source_in_repository(file: str) -> str:
    """The place in the repository of a model's source file, if its path, or the end of it, is a file there.

    A model was built elsewhere: ``/builds/wake/models/plain.py`` is ``models/plain.py`` here. A name alone
    is too little to say so.
    """
    from pathlib import Path, PurePosixPath, PureWindowsPath  # noqa: PLC0415 (only SARIF needs it)

    top = Path(os.environ.get(REPOSITORY) or ".")
    own = PureWindowsPath(file) if WINDOWS_DRIVE.match(file) else PurePosixPath(file)
    parts = [part for part in own.parts if part not in {own.anchor, ".."}][-MOST_FOLDERS:]
    for begin in range(len(parts)):
        place = PurePosixPath(*parts[begin:])
        is_enough = len(place.parts) > 1 or file == str(place)
        with suppress(OSError, ValueError):
            if is_enough and (top / place).is_file():
                return str(place)
    return file


def annotations_of(kind: str | None, *, aside: bool) -> Annotations:
    """The annotations that ``--annotations`` asks for, or the environment where it is not given."""
    kind = kind or (GITHUB if os.environ.get(RUNS_ON_GITHUB) == "true" else NONE)
    return Annotations(active=kind == GITHUB, aside=aside)


def cause_result(group: CauseGroup, log: str) -> SarifResult:
    """The cause of failures in a log, at the model's line; where that is not known, at the log's."""
    cause = group.cause
    seen = f"lines {group.first:,} to {group.last:,}" if group.count > 1 else f"line {group.first:,}"
    parts = [f"{counted(group.count, 'failure')} in {log}, {seen}"]
    parts.append(f"proven: {group.is_proven}")
    if group.first_time is not None:
        parts.append(f"first at {group.first_time.text}")
    if group.models:
        parts.append(f"of {several(group.models)}")
    what = ": ".join(part for part in (cause.where, group.message) if part) or UNKNOWN_FAILURE
    place = source_in_repository(cause.file) if cause.file else in_repository(log)
    words = (place, cause.where, cause.message)
    return SarifResult(
        FAILURE,
        "error",
        one_line(f"{what} ({', '.join(parts)})"),
        place,
        one_line(cause.where),
        cause.line if cause.file else group.first,
        group.count,
        digest_of(*(escaped(word).encode() + b"\0" for word in words)).hex(),
        (in_repository(log), group.first) if cause.file and log != STANDARD_INPUT else None,
    )


def sarif_result(file: InputFile, rule: str, level: SarifLevel, message: str, where: str = "") -> SarifResult:
    """A finding about a file, whose path is relative to the repository and has no password."""
    return SarifResult(rule, level, message, in_repository(file.label), where)


annotations_option = click.option(
    "--annotations",
    type=click.Choice([GITHUB, NONE]),
    show_default=f"github where {RUNS_ON_GITHUB} is true",
    help="Print findings again, as lines that GitHub shows beside the files; on standard error with --json.",
)
